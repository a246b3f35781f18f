// Parses the expressions of templates.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/lexer.h"
#include "tenon/chat/limits.h"
#include "tenon/chat/syntax.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// The grammar is that of jinja2 3.1. Statements: statement_parser.h.
class ExpressionParser {
 public:
  ExpressionParser(SyntaxTree& tree, std::vector<Lexeme> lexemes, const Limits& limits)
      : tree_(tree), lexemes_(std::move(lexemes)), limits_(limits) {}

  const Node* parse_expression(bool with_conditional = true) {
    const Level level(*this);
    return with_conditional ? parse_conditional() : parse_or();
  }

  // Expressions with commas between them are a tuple. A name `end` ends it.
  const Node* parse_tuple(bool with_conditional = true, std::string_view end = {}, bool in_parentheses = false) {
    const std::size_t at = current().at;
    std::vector<const Node*> items;
    bool is_tuple = false;
    while (!ends_tuple(end)) {
      items.push_back(parse_expression(with_conditional));
      if (!skip_symbol(",")) break;
      is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return items[0];
    if (!is_tuple && !in_parentheses) fail_here("an expression is missing");
    return add({.op = Node::Op::tuple, .at = at, .items = std::move(items)});
  }

  // Filters after a `|`; in a filter block the first has none.
  const Node* parse_filters(const Node* node, bool first_is_bare = false) {
    while (first_is_bare || skip_symbol("|")) {
      first_is_bare = false;
      Node filter{.op = Node::Op::filter, .at = current().at, .name = expect_dotted_name(), .items = {node}};
      if (is_symbol("(")) parse_arguments(filter);
      node = add(std::move(filter));
    }
    return node;
  }

 protected:
  using Kind = Lexeme::Kind;

  // A level of recursion, while it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      if (parser.depth_ >= parser.limits_.depth)
        throw PlacedFault{
            {Error::Kind::capacity, "the template nests more than " + std::to_string(parser.limits_.depth) + " levels"},
            parser.current().at};
      ++parser.depth_;
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  const Lexeme& current() const { return lexemes_[next_]; }
  const Lexeme& ahead() const { return lexemes_[std::min(next_ + 1, lexemes_.size() - 1)]; }
  void advance() {
    if (next_ + 1 < lexemes_.size()) ++next_;
  }

  static std::string describe(const Lexeme& lexeme) {
    switch (lexeme.kind) {
      case Kind::name:
      case Kind::symbol:
        return "\"" + lexeme.text + "\"";
      case Kind::end:
        return "the end of the template";
      case Kind::block_end:
      case Kind::variable_end:
        return "the end of the tag";
      default:
        return "this";
    }
  }
  [[noreturn]] void fail_here(std::string_view what) const {
    fail_at(current().at, std::string(what) + ", not " + describe(current()));
  }

  bool is_symbol(std::string_view symbol) const { return current().kind == Kind::symbol && current().text == symbol; }
  bool is_name(std::string_view name) const { return current().kind == Kind::name && current().text == name; }
  bool skip_symbol(std::string_view symbol) { return is_symbol(symbol) && (advance(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (advance(), true); }
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail_here("\"" + std::string(symbol) + "\" is needed here");
  }
  std::string expect_name() {
    if (current().kind != Kind::name) fail_here("a name is needed here");
    std::string name = current().text;
    advance();
    return name;
  }
  std::string expect_dotted_name() {
    std::string name = expect_name();
    while (skip_symbol(".")) name += "." + expect_name();
    return name;
  }

  const Node* add(Node node) {
    tree_.nodes.push_back(std::make_unique<Node>(std::move(node)));
    return tree_.nodes.back().get();
  }
  const Statement* add(Statement statement) {
    tree_.statements.push_back(std::make_unique<Statement>(std::move(statement)));
    return tree_.statements.back().get();
  }

  SyntaxTree& tree_;
  std::vector<Statement*> macros_;  // those around the current place

 private:
  bool ends_tuple(std::string_view end) const {
    return current().kind == Kind::variable_end || current().kind == Kind::block_end || is_symbol(")") ||
           (!end.empty() && is_name(end));
  }

  const Node* parse_conditional() {
    const Node* node = parse_or();
    while (is_name("if")) {
      const std::size_t at = current().at;
      advance();
      const Node* const test = parse_or();
      const Node* other = nullptr;
      if (skip_name("else")) {
        const Level level(*this);
        other = parse_conditional();
      }
      node = add({.op = Node::Op::conditional, .at = at, .items = {test, node, other}});
    }
    return node;
  }

  const Node* parse_or() {
    const Node* node = parse_and();
    for (std::size_t at = current().at; skip_name("or"); at = current().at)
      node = add({.op = Node::Op::disjunction, .at = at, .items = {node, parse_and()}});
    return node;
  }
  const Node* parse_and() {
    const Node* node = parse_not();
    for (std::size_t at = current().at; skip_name("and"); at = current().at)
      node = add({.op = Node::Op::conjunction, .at = at, .items = {node, parse_not()}});
    return node;
  }
  const Node* parse_not() {
    const Level level(*this);
    const std::size_t at = current().at;
    if (skip_name("not")) return add({.op = Node::Op::negation, .at = at, .items = {parse_not()}});
    return parse_compare();
  }

  const Node* parse_compare() {
    Node node{.op = Node::Op::compare, .at = current().at, .items = {parse_sum()}};
    for (;;) {
      std::string symbol = current().text;
      constexpr std::string_view comparisons[] = {"==", "!=", "<", "<=", ">", ">="};
      const bool compares = current().kind == Kind::symbol &&
                            std::find(std::begin(comparisons), std::end(comparisons), symbol) != std::end(comparisons);
      if (!compares && is_name("not") && ahead().kind == Kind::name && ahead().text == "in") {
        symbol = "not in";
        advance();
      } else if (!compares && !is_name("in")) {
        break;
      }
      if (node.operators.empty()) node.at = current().at;
      advance();
      node.operators.push_back(std::move(symbol));
      node.items.push_back(parse_sum());
    }
    return node.operators.empty() ? node.items[0] : add(std::move(node));
  }

  // Left-associative operators of one precedence.
  template <class Parse>
  const Node* parse_left(std::initializer_list<std::string_view> symbols, Parse parse) {
    const Node* node = parse();
    for (;;) {
      const auto found = std::find_if(symbols.begin(), symbols.end(), [&](std::string_view s) { return is_symbol(s); });
      if (found == symbols.end()) return node;
      const std::size_t at = current().at;
      advance();
      node = add({.op = Node::Op::arithmetic, .at = at, .name = std::string(*found), .items = {node, parse()}});
    }
  }
  const Node* parse_sum() {
    return parse_left({"+", "-"}, [this] { return parse_concat(); });
  }
  const Node* parse_product() {
    return parse_left({"*", "/", "//", "%"}, [this] { return parse_power(); });
  }
  const Node* parse_power() {
    return parse_left({"**"}, [this] { return parse_unary(); });
  }
  const Node* parse_concat() {
    Node node{.op = Node::Op::concat, .at = current().at, .items = {parse_product()}};
    while (skip_symbol("~")) node.items.push_back(parse_product());
    return node.items.size() == 1 ? node.items[0] : add(std::move(node));
  }

  const Node* parse_unary(bool with_filters = true) {
    const Level level(*this);
    const std::size_t at = current().at;
    const Node* node;
    if (skip_symbol("-"))
      node = add({.op = Node::Op::negate, .at = at, .items = {parse_unary(false)}});
    else if (skip_symbol("+"))
      node = add({.op = Node::Op::plus, .at = at, .items = {parse_unary(false)}});
    else
      node = parse_primary();
    node = parse_postfix(node);
    return with_filters ? parse_filters_and_tests(node) : node;
  }

  const Node* parse_primary() {
    const Lexeme lexeme = current();
    const auto constant = [&](Value value) {
      return add({.op = Node::Op::constant, .at = lexeme.at, .value = std::move(value)});
    };
    switch (lexeme.kind) {
      case Kind::name:
        advance();
        return parse_name(lexeme);
      case Kind::string: {
        std::string text;
        for (; current().kind == Kind::string; advance()) text += current().text;
        return constant(Value::text(std::move(text), kByTemplate));
      }
      case Kind::integer:
        advance();
        return constant(lexeme.integer);
      case Kind::floating:
        advance();
        return constant(lexeme.floating);
      default:
        break;
    }
    if (skip_symbol("(")) {
      const Node* const node = parse_tuple(true, {}, true);
      expect_symbol(")");
      return node;
    }
    if (is_symbol("[")) return parse_list();
    if (is_symbol("{")) return parse_dict();
    fail_here("an expression is needed here");
  }

  const Node* parse_name(const Lexeme& lexeme) {
    const std::string& name = lexeme.text;
    if (name == "true" || name == "True") return add({.op = Node::Op::constant, .at = lexeme.at, .value = true});
    if (name == "false" || name == "False") return add({.op = Node::Op::constant, .at = lexeme.at, .value = false});
    if (name == "none" || name == "None")
      return add({.op = Node::Op::constant, .at = lexeme.at, .value = Value::none()});
    for (Statement* const macro : macros_) {
      macro->takes_caller = macro->takes_caller || name == "caller";
      macro->takes_kwargs = macro->takes_kwargs || name == "kwargs";
      macro->takes_varargs = macro->takes_varargs || name == "varargs";
    }
    return add({.op = Node::Op::name, .at = lexeme.at, .name = name});
  }

  const Node* parse_list() {
    Node node{.op = Node::Op::list, .at = current().at};
    expect_symbol("[");
    while (!is_symbol("]")) {
      node.items.push_back(parse_expression());
      if (!skip_symbol(",") && !is_symbol("]")) fail_here("\"]\" is needed here");
    }
    advance();
    return add(std::move(node));
  }
  const Node* parse_dict() {
    Node node{.op = Node::Op::dict, .at = current().at};
    expect_symbol("{");
    while (!is_symbol("}")) {
      node.items.push_back(parse_expression());
      expect_symbol(":");
      node.items.push_back(parse_expression());
      if (!skip_symbol(",") && !is_symbol("}")) fail_here("\"}\" is needed here");
    }
    advance();
    return add(std::move(node));
  }

  const Node* parse_postfix(const Node* node) {
    for (;;) {
      if (is_symbol(".") || is_symbol("["))
        node = parse_subscript(node);
      else if (is_symbol("("))
        node = parse_call(node);
      else
        return node;
    }
  }
  const Node* parse_filters_and_tests(const Node* node) {
    for (;;) {
      if (is_symbol("|"))
        node = parse_filters(node);
      else if (is_name("is"))
        node = parse_test(node);
      else if (is_symbol("("))
        node = parse_call(node);
      else
        return node;
    }
  }

  const Node* parse_subscript(const Node* node) {
    const std::size_t at = current().at;
    if (skip_symbol(".")) {
      const Lexeme lexeme = current();
      advance();
      if (lexeme.kind == Kind::name)
        return add({.op = Node::Op::attribute, .at = at, .name = lexeme.text, .items = {node}});
      if (lexeme.kind != Kind::integer) fail_at(lexeme.at, "a name or a number is needed after a point");
      const Node* const index = add({.op = Node::Op::constant, .at = lexeme.at, .value = lexeme.integer});
      return add({.op = Node::Op::item, .at = at, .items = {node, index}});
    }
    expect_symbol("[");
    std::vector<const Node*> parts;
    do parts.push_back(parse_index());
    while (skip_symbol(",") && !is_symbol("]"));
    expect_symbol("]");
    if (parts.size() > 1) refuse_at(at, "an index of several parts");
    return add({.op = Node::Op::item, .at = at, .items = {node, parts[0]}});
  }

  const Node* parse_index() {
    const std::size_t at = current().at;
    std::vector<const Node*> parts(3, nullptr);
    const auto part = [&] { return is_symbol(":") || is_symbol("]") || is_symbol(",") ? nullptr : parse_expression(); };
    parts[0] = part();
    if (!skip_symbol(":")) {
      if (!parts[0]) fail_here("an index is needed here");
      return parts[0];
    }
    parts[1] = part();
    if (skip_symbol(":")) parts[2] = part();
    return add({.op = Node::Op::slice, .at = at, .items = std::move(parts)});
  }

  const Node* parse_call(const Node* callee) {
    Node call{.op = Node::Op::call, .at = current().at, .items = {callee}};
    parse_arguments(call);
    return add(std::move(call));
  }

  // Adds the arguments to the node of a call, filter or test.
  void parse_arguments(Node& call) {
    const std::size_t at = current().at;
    const auto ensure = [&](bool fine) {
      if (!fine) fail_at(at, "the arguments are not in order");
    };
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (skip_symbol("*")) {
        ensure(!call.star && !call.star_star);
        call.star = parse_expression();
      } else if (skip_symbol("**")) {
        ensure(!call.star_star);
        call.star_star = parse_expression();
      } else if (current().kind == Kind::name && ahead().kind == Kind::symbol && ahead().text == "=") {
        ensure(!call.star_star);
        std::string name = expect_name();
        advance();
        call.named.emplace_back(std::move(name), parse_expression());
      } else {
        ensure(!call.star && !call.star_star && call.named.empty());
        call.items.push_back(parse_expression());
      }
      if (!skip_symbol(",") && !is_symbol(")")) fail_here("\")\" is needed here");
    }
    advance();
  }

  const Node* parse_test(const Node* node) {
    const std::size_t at = current().at;
    advance();
    const bool negated = skip_name("not");
    Node test{.op = Node::Op::test, .at = current().at, .name = expect_dotted_name(), .items = {node}};
    const bool operand = (current().kind == Kind::name && !is_name("else") && !is_name("or") && !is_name("and")) ||
                         current().kind == Kind::string || current().kind == Kind::integer ||
                         current().kind == Kind::floating || is_symbol("[") || is_symbol("{");
    if (is_symbol("(")) {
      parse_arguments(test);
    } else if (operand) {
      if (is_name("is")) fail_here("tests cannot be chained");
      test.items.push_back(parse_postfix(parse_primary()));
    }
    const Node* const out = add(std::move(test));
    return negated ? add({.op = Node::Op::negation, .at = at, .items = {out}}) : out;
  }

  std::vector<Lexeme> lexemes_;
  std::size_t next_ = 0;
  const Limits& limits_;
  int depth_ = 0;
};

}  // namespace tenon::chat::detail
