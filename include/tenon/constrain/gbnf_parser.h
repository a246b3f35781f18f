// Parses grammars in llama.cpp's notation (GBNF): rules of literals, character classes and other rules. Two extensions
// of xgrammar's EBNF (vLLM, SGLang) are accepted: rules that continue on the next line, and C's escapes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/code_points.h"
#include "tenon/constrain/expression.h"
#include "tenon/constrain/refused.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::constrain {
namespace detail {

struct GbnfItem {
  enum class Kind : std::uint8_t { text, rule, sequence, choice, repeat };
  Kind kind = Kind::text;
  Expr text = Expressions::kNever;
  int size = 0;  // text: number of steps to match it, about
  int rule = -1;
  std::vector<int> parts = {};  // items
  int least = 0, most = 0;      // repeat
};

struct GbnfRule {
  std::string name;
  int line;       // of its definition; before that, of its first use
  int body = -1;  // an item; -1: not defined
};

// A parsed grammar. Items come after their parts.
struct GbnfSource {
  explicit GbnfSource(Budget& b) : budget(b) {}
  GbnfSource(const GbnfSource&) = delete;
  ~GbnfSource() { budget.give_back(spent); }

  int add(GbnfItem item) {
    const std::size_t bytes = sizeof(GbnfItem) + item.parts.size() * sizeof(int);
    budget.spend(bytes);
    budget.check();
    spent += bytes;
    items.push_back(std::move(item));
    return static_cast<int>(items.size()) - 1;
  }
  int text(Expr e, int size) { return add({.text = e, .size = size}); }
  int sequence(const std::vector<int>& parts) {
    std::vector<int> flat = flattened(GbnfItem::Kind::sequence, parts);
    std::erase_if(flat, [&](int part) {
      const GbnfItem& item = at(part);
      return item.kind == GbnfItem::Kind::text && item.text == Expressions::kEmpty;
    });
    if (flat.empty()) return text(Expressions::kEmpty, 0);
    return flat.size() == 1 ? flat.front() : add({.kind = GbnfItem::Kind::sequence, .parts = std::move(flat)});
  }
  int choice(const std::vector<int>& parts) {
    std::vector<int> flat = flattened(GbnfItem::Kind::choice, parts);
    if (flat.empty()) return text(Expressions::kNever, 0);
    return flat.size() == 1 ? flat.front() : add({.kind = GbnfItem::Kind::choice, .parts = std::move(flat)});
  }
  int repeat(int part, int least, int most) {
    if (most == 0) return text(Expressions::kEmpty, 0);
    return add({.kind = GbnfItem::Kind::repeat, .parts = {part}, .least = least, .most = most});
  }
  std::vector<int> flattened(GbnfItem::Kind kind, const std::vector<int>& parts) const {
    std::vector<int> flat;
    for (const int part : parts) {
      if (at(part).kind == kind)
        flat.insert(flat.end(), at(part).parts.begin(), at(part).parts.end());
      else
        flat.push_back(part);
    }
    return flat;
  }

  const GbnfItem& at(int item) const { return items[static_cast<std::size_t>(item)]; }
  GbnfRule& rule(int number) { return rules[static_cast<std::size_t>(number)]; }

  Budget& budget;
  std::size_t spent = 0;
  std::vector<GbnfItem> items;
  std::vector<GbnfRule> rules;
};

inline std::string gbnf_line(int line) { return "line " + std::to_string(line); }

class GbnfParser {
 public:
  GbnfParser(Expressions& expressions, std::string_view text, GbnfSource& out)
      : expressions_(expressions), text_(text), out_(out) {}

  // Checks that each named rule is defined. Returns the number of `root`.
  int parse() {
    if (const std::size_t wrong = find_invalid_utf8(text_); wrong != text_.npos) refuse(wrong, "not UTF-8");
    for (skip(true); at_ < text_.size(); skip(true)) rule();
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) refuse(text_.size(), "there is no rule \"root\"");
    for (const GbnfRule& rule : out_.rules) {
      if (rule.body < 0) refuse_invalid(gbnf_line(rule.line), "rule \"" + rule.name + "\" is not defined");
    }
    return root->second;
  }

 private:
  static constexpr int kMostRepeats = 1'000'000'000;

  [[noreturn]] void refuse(std::size_t at, std::string reason) const {
    refuse_invalid(gbnf_line(1 + lines_to(at)), std::move(reason));
  }
  [[noreturn]] void refuse_here(std::string_view where) const {
    refuse(at_,
           (at_ < text_.size() ? "unexpected " + next_character_text() : "the text ends") + " " + std::string(where));
  }
  int lines_to(std::size_t end, std::size_t begin = 0) const {
    return static_cast<int>(std::ranges::count(text_.substr(begin, end - begin), '\n'));
  }
  std::string next_character_text() const {
    const char c = peek();
    if (c == '\n' || c == '\r') return "end of the line";
    if (c == '"' || c == '\\') return std::string("'") + c + "'";
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return "control character";
    return "\"" + std::string(text_.substr(at_, static_cast<std::size_t>(decode_utf8(text_, at_).length))) + "\"";
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  static bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }

  // Skips blanks, comments and, with `lines`, line ends.
  void skip(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
      else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
        ++at_;
      else
        return;
    }
  }

  // Reads a name and returns the number of its rule.
  int named() {
    line_ += lines_to(at_, counted_);
    counted_ = at_;
    while (in_name(peek())) ++at_;
    const std::string name(text_.substr(counted_, at_ - counted_));
    const auto [found, fresh] = numbers_.try_emplace(name, static_cast<int>(out_.rules.size()));
    if (fresh) out_.rules.push_back({name, line_});
    return found->second;
  }

  void rule() {
    const std::size_t begin = at_;
    if (peek() == '?' || peek() == '%' || peek() == '/' || peek() == '!') refuse_other_notation();
    if (!in_name(peek())) refuse_here("where a rule begins");
    const int number = named(), line = line_;
    const std::string& name = out_.rule(number).name;
    skip(false);
    if (text_.substr(at_, 3) != "::=" && (peek() == ':' || peek() == '=')) refuse_other_notation();
    if (text_.substr(at_, 3) != "::=") refuse_here("after \"" + name + "\", which needs \"::=\"");
    if (out_.rule(number).body >= 0) refuse(begin, "rule \"" + name + "\" is defined twice");
    at_ += 3;
    skip(true);
    const int body = choice(false);
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r')
      refuse_here("in rule \"" + out_.rule(number).name + "\"");
    out_.rule(number).line = line;
    out_.rule(number).body = body;
  }

  [[noreturn]] void refuse_other_notation() const {
    refuse_unsupported(gbnf_line(1 + lines_to(at_)),
                       "grammars are read in GBNF (root ::= \"a\" | rule) and in no other notation, as Lark's");
  }

  // `lines`: inside parentheses, where a line end is a blank.
  int choice(bool lines) {
    std::vector<int> parts = {sequence(lines)};
    while (take_bar()) {
      skip(true);
      parts.push_back(sequence(lines));
    }
    return out_.choice(parts);
  }
  // A rule continues on a line that starts with a bar.
  bool take_bar() {
    const std::size_t before = at_;
    skip(true);
    if (take('|')) return true;
    at_ = before;
    return false;
  }

  int sequence(bool lines) {
    std::vector<int> parts;
    while (at_ < text_.size()) {
      const char c = peek();
      if (c == '"')
        parts.push_back(literal());
      else if (c == '[')
        parts.push_back(char_class());
      else if (c == '.')
        parts.push_back(any());
      else if (c == '(')
        parts.push_back(group());
      else if (in_name(c))
        parts.push_back(out_.add({.kind = GbnfItem::Kind::rule, .rule = named()}));
      else if (c == '*' || c == '+' || c == '?' || c == '{')
        refuse_here("with nothing before it to repeat");
      else if (c == '<' || c == '!')
        refuse_unsupported(gbnf_line(1 + lines_to(at_)), "tokens (<...>) in a grammar");
      else if ((c == '\n' || c == '\r') && rule_continues()) {
        skip(true);
        continue;
      } else
        break;
      skip(lines);
      for (int times = 0; repeated(parts.back(), lines); ++times) {
        if (times == kMostTimes) refuse_complex("repeated more than " + std::to_string(kMostTimes) + " times over");
      }
    }
    return out_.sequence(parts);
  }

  // Whether the next line starts with a part of this rule, and not with another rule.
  bool rule_continues() {
    const std::size_t before = at_;
    skip(true);
    const char c = peek();
    bool part = c == '"' || c == '[' || c == '(' || c == '.';
    if (in_name(c)) {
      while (in_name(peek())) ++at_;
      skip(false);
      part = peek() != ':' && peek() != '=';
    }
    at_ = before;
    return part;
  }

  int group() {
    const Budget::Nesting nesting(expressions_.budget());
    const std::size_t begin = at_++;
    if (peek() == '=' || peek() == '!')
      refuse_unsupported(gbnf_line(1 + lines_to(begin)), "lookahead assertions (= ...) in a grammar");
    skip(true);
    const int inner = choice(true);
    if (!take(')')) {
      if (at_ < text_.size()) refuse_here("in parentheses");
      refuse(begin, "\"(\" is not closed");
    }
    return inner;
  }

  bool repeated(int& item, bool lines) {
    int least = 0, most = kUnbounded;
    if (take('+'))
      least = 1;
    else if (take('?'))
      most = 1;
    else if (take('{'))
      bounds(least, most, lines);
    else if (!take('*'))
      return false;
    skip(lines);
    item = out_.repeat(item, least, most);
    return true;
  }
  void bounds(int& least, int& most, bool lines) {
    const std::size_t begin = at_ - 1;
    skip(lines);
    most = least = number();
    skip(lines);
    if (take(',')) {
      skip(lines);
      most = peek() == '}' ? kUnbounded : number();
      skip(lines);
    }
    if (!take('}')) refuse_here("in a repetition: {m}, {m,} or {m,n}");
    if (most != kUnbounded && most < least)
      refuse(begin, "the bounds " + std::string(text_.substr(begin, at_ - begin)) + " are out of order");
  }
  int number() {
    if (peek() < '0' || peek() > '9') refuse_here("in a repetition: {m}, {m,} or {m,n}");
    std::int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > kMostRepeats) refuse_complex("repeated more than " + std::to_string(kMostRepeats) + " times");
    }
    return static_cast<int>(value);
  }

  int literal() {
    const std::size_t begin = at_++;
    std::string bytes;
    while (!take('"')) {
      const std::size_t at = at_;
      const char32_t c = character(begin, "the literal");
      if (c >= 0xD800 && c <= 0xDFFF) refuse(at, "half of a surrogate pair is no character");
      append_code_point(bytes, c);
    }
    return out_.text(expressions_.literal(bytes), static_cast<int>(bytes.size()));
  }

  int char_class() {
    const std::size_t begin = at_++;
    const bool others = take('^');
    std::vector<CodePoints::Range> ranges;
    if (peek() == ']') refuse(begin, "the class is empty");
    while (!take(']')) {
      const std::size_t at = at_;
      const char32_t first = character(begin, "the class");
      const bool range = peek() == '-' && text_.substr(at_ + 1, 1) != "]";
      if (range) ++at_;
      const char32_t last = range ? character(begin, "the class") : first;
      if (last < first) refuse(at, "the range " + std::string(text_.substr(at, at_ - at)) + " is out of order");
      ranges.push_back({first, last});
    }
    const CodePoints set(ranges);
    return out_.text(spelled(expressions_, others ? ~set : set, Spelling::utf8), 1);
  }
  int any() {
    ++at_;
    if (any_ < 0) any_ = any_character(expressions_, Spelling::utf8);
    return out_.text(any_, 1);
  }

  // Reads a character, escaped or not. `in`: the construct that began at `begin`, for errors.
  char32_t character(std::size_t begin, std::string_view in) {
    if (at_ >= text_.size()) refuse(begin, std::string(in) + " is not closed");
    const CodePoint point = decode_utf8(text_, at_);
    at_ += static_cast<std::size_t>(point.length);
    if (point.value != U'\\') return point.value;
    if (at_ >= text_.size()) refuse(begin, std::string(in) + " is not closed");
    switch (text_[at_++]) {
      case 'n':
        return U'\n';
      case 't':
        return U'\t';
      case 'r':
        return U'\r';
      case '\\':
        return U'\\';
      case '"':
        return U'"';
      case '[':
        return U'[';
      case ']':
        return U']';
      case '-':
        return U'-';
      case '\'':
        return U'\'';
      case '/':
        return U'/';
      case '^':
        return U'^';
      case 'b':
        return U'\b';
      case 'f':
        return U'\f';
      case 'v':
        return U'\v';
      case '0':
        return U'\0';
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      default:
        break;
    }
    --at_;
    refuse_here(
        "after \\; known escapes: \\n \\t \\r \\b \\f \\v \\0 \\\\ \\\" \\' \\/ \\[ \\] \\- \\^ \\xHH \\uHHHH "
        "\\UHHHHHHHH");
  }
  char32_t hex(int digits) {
    const std::size_t begin = at_;
    char32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) refuse_here("where " + std::to_string(digits) + " hexadecimal digits are needed");
      value = value << 4 | static_cast<char32_t>(digit);
    }
    if (value > 0x10FFFF) refuse(begin, "U+" + std::string(text_.substr(begin, 8)) + " is no character");
    return value;
  }

  static constexpr int kMostTimes = 4;

  Expressions& expressions_;
  const std::string_view text_;
  GbnfSource& out_;
  std::unordered_map<std::string, int> numbers_;
  Expr any_ = -1;  // the expression of a dot, once there is one
  std::size_t at_ = 0;
  std::size_t counted_ = 0;  // line_ has counted the lines up to here
  int line_ = 1;             // of the last name
};

}  // namespace detail
}  // namespace tenon::constrain
