// Parses the statements of templates.
#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/parser.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body parse_template() {
    Body body = parse_body({});
    if (current().kind != Kind::end) fail_here("a statement is needed here");
    return body;
  }

 private:
  // Statements up to a tag with one of these names, which is then current; without names, to the end.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const Level level(*this);
    Body body;
    Statement output{.kind = Statement::Kind::output, .at = current().at};
    const auto flush = [&] {
      if (output.outputs.empty()) return;
      body.push_back(add(std::move(output)));
      output = {.kind = Statement::Kind::output, .at = current().at};
    };
    for (;;) {
      const Lexeme& lexeme = current();
      if (lexeme.kind == Kind::data) {
        output.outputs.push_back(
            add({.op = Node::Op::constant, .at = lexeme.at, .value = Value::text(lexeme.text, kByTemplate)}));
        advance();
      } else if (lexeme.kind == Kind::variable_begin) {
        advance();
        output.outputs.push_back(parse_tuple());
        expect_end(Kind::variable_end);
      } else if (lexeme.kind == Kind::block_begin) {
        flush();
        advance();
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_name(end); })) return body;
        body.push_back(parse_statement());
        expect_end(Kind::block_end);
      } else {
        flush();
        if (ends.size() > 0) fail_here("the tag \"" + std::string(*(ends.end() - 1)) + "\" is needed before this");
        return body;
      }
    }
  }

  void expect_end(Kind kind) {
    if (current().kind != kind) fail_here("the tag should end here");
    advance();
  }

  // The body of a statement: from the end of its tag to a tag of one of these names, which is then current.
  Body parse_block(std::initializer_list<std::string_view> ends) {
    skip_symbol(":");
    expect_end(Kind::block_end);
    return parse_body(ends);
  }
  // The same, with the name of the end read.
  Body parse_whole_block(std::string_view end) {
    Body body = parse_block({end});
    advance();
    return body;
  }

  const Statement* parse_statement() {
    const std::size_t at = current().at;
    if (current().kind != Kind::name) fail_here("the name of a statement is needed here");
    const std::string name = expect_name();
    if (name == "for") return parse_for(at);
    if (name == "if") return parse_if(at);
    if (name == "set") return parse_set(at);
    if (name == "macro") return parse_macro(at);
    if (name == "call") return parse_call_block(at);
    if (name == "with") return parse_with(at);
    if (name == "print") return parse_print(at);
    if (name == "filter") {
      Statement filter{.kind = Statement::Kind::filter, .at = at, .value = parse_filters(nullptr, true)};
      filter.body = parse_whole_block("endfilter");
      return add(std::move(filter));
    }
    if (name == "generation") {
      const int loops = std::exchange(loops_, 0);
      Statement generation{.kind = Statement::Kind::generation, .at = at, .body = parse_whole_block("endgeneration")};
      loops_ = loops;
      return add(std::move(generation));
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail_at(at, "\"" + name + "\" is outside of a loop");
      return add({.kind = name == "break" ? Statement::Kind::break_loop : Statement::Kind::continue_loop, .at = at});
    }
    for (const std::string_view known : {"block", "extends", "include", "import", "from", "autoescape"})
      if (name == known) refuse_at(at, "the statement \"" + name + "\"");
    fail_at(at, "there is no statement \"" + name + "\"");
  }

  // A name, an attribute of a namespace where that is allowed, or several with commas.
  const Node* parse_target(bool with_attributes) {
    const Level level(*this);
    std::vector<const Node*> items;
    const std::size_t at = current().at;
    bool is_tuple = false;
    while (current().kind == Kind::name ? !is_name("in") : is_symbol("(")) {
      items.push_back(parse_single_target(with_attributes));
      if (!skip_symbol(",")) break;
      is_tuple = true;
    }
    if (items.empty()) fail_here("the name of a variable is needed here");
    return is_tuple ? add({.op = Node::Op::tuple, .at = at, .items = std::move(items)}) : items[0];
  }
  const Node* parse_single_target(bool with_attributes) {
    const std::size_t at = current().at;
    if (skip_symbol("(")) {
      const Node* const target = parse_target(with_attributes);
      expect_symbol(")");
      return target;
    }
    Node node{.op = Node::Op::name, .at = at, .name = parse_variable()};
    if (!with_attributes || !skip_symbol(".")) return add(std::move(node));
    const Node* const space = add(std::move(node));
    return add({.op = Node::Op::attribute, .at = at, .name = expect_name(), .items = {space}});
  }
  std::string parse_variable() {
    const std::size_t at = current().at;
    std::string name = expect_name();
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
      if (name == constant) fail_at(at, "\"" + name + "\" cannot be assigned");
    if (name == "loop" && loops_ > 0) fail_at(at, "\"loop\" cannot be assigned in a loop");
    return name;
  }

  const Statement* parse_for(std::size_t at) {
    Statement loop{.kind = Statement::Kind::loop, .at = at, .target = parse_target(false)};
    if (!skip_name("in")) fail_here("\"in\" is needed here");
    loop.value = parse_tuple(false, "recursive");
    if (skip_name("if")) loop.test = parse_expression();
    if (is_name("recursive")) refuse_at(current().at, "a recursive loop");
    ++loops_;
    loop.body = parse_block({"else", "endfor"});
    --loops_;
    if (skip_name("else")) loop.otherwise = parse_block({"endfor"});
    advance();
    return add(std::move(loop));
  }

  const Statement* parse_if(std::size_t at) {
    Statement condition{.kind = Statement::Kind::condition, .at = at};
    do {
      const Node* const test = parse_tuple(false);
      condition.branches.push_back({test, parse_block({"elif", "else", "endif"})});
    } while (skip_name("elif"));
    if (skip_name("else")) condition.otherwise = parse_block({"endif"});
    advance();
    return add(std::move(condition));
  }

  const Statement* parse_set(std::size_t at) {
    Statement set{.kind = Statement::Kind::assignment, .at = at, .target = parse_target(true)};
    if (skip_symbol("=")) {
      set.value = parse_tuple();
      return add(std::move(set));
    }
    set.kind = Statement::Kind::capture;
    if (is_symbol("|")) set.value = parse_filters(nullptr);
    set.body = parse_whole_block("endset");
    return add(std::move(set));
  }

  const Statement* parse_with(std::size_t at) {
    Statement with{.kind = Statement::Kind::with, .at = at};
    while (current().kind != Kind::block_end) {
      if (!with.outputs.empty()) expect_symbol(",");
      with.outputs.push_back(parse_single_target(false));
      expect_symbol("=");
      with.outputs.push_back(parse_expression());
    }
    with.body = parse_whole_block("endwith");
    return add(std::move(with));
  }

  const Statement* parse_print(std::size_t at) {
    Statement print{.kind = Statement::Kind::output, .at = at};
    while (current().kind != Kind::block_end) {
      if (!print.outputs.empty()) expect_symbol(",");
      print.outputs.push_back(parse_expression());
    }
    return add(std::move(print));
  }

  void parse_signature(Statement& macro) {
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (!macro.parameters.empty()) expect_symbol(",");
      const std::size_t at = current().at;
      macro.parameters.push_back(parse_variable());
      if (skip_symbol("="))
        macro.defaults.push_back(parse_expression());
      else if (!macro.defaults.empty())
        fail_at(at, "a parameter without a default follows one with a default");
    }
    advance();
  }

  // The body of a macro: it begins no loop of the surrounding template.
  void parse_macro_body(Statement& macro, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    macros_.push_back(&macro);
    macro.body = parse_whole_block(end);
    macros_.pop_back();
    loops_ = loops;
  }

  const Statement* parse_macro(std::size_t at) {
    Statement macro{.kind = Statement::Kind::macro, .at = at, .name = parse_variable()};
    parse_signature(macro);
    parse_macro_body(macro, "endmacro");
    return add(std::move(macro));
  }

  const Statement* parse_call_block(std::size_t at) {
    Statement call{.kind = Statement::Kind::call, .at = at, .name = "caller"};
    if (is_symbol("(")) parse_signature(call);
    call.value = parse_expression();
    if (call.value->op != Node::Op::call) fail_at(call.value->at, "a call is needed here");
    parse_macro_body(call, "endcall");
    return add(std::move(call));
  }

  int loops_ = 0;  // around the current place, within its macro
};

}  // namespace tenon::chat::detail
