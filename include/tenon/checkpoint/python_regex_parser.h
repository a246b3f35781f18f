// Parser of PythonRegex, after Lib/re/_parser.py of Python 3.11.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/python_regex.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"

namespace tenon {

class PythonRegex::Parser {
 public:
  Parser(std::string_view pattern, PythonRegex& out) : pattern_(pattern), out_(out) {}

  int parse() {
    if (pattern_.size() > kLongest) refuse("is longer than " + std::to_string(kLongest) + " characters");
    const int root = alternatives(/*outermost=*/true);
    if (at_ < pattern_.size()) invalid("has a ) without its (");
    return root;
  }

 private:
  static constexpr std::size_t kLongest = 16384;
  static constexpr int kDeepest = 100;
  static constexpr std::uint32_t kNoCharacter = 0x110000;  // not a character

  // The last item of a pattern so far, for a repetition that follows it.
  struct Item {
    int node = 0;
    bool anchor = false, repetition = false;
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Error::Kind::unsupported, out_.where_,
                "the regular expression \"" + printable(pattern_, 60) + "\" " + what);
  }
  [[noreturn]] void unsupported(const std::string& what) const { refuse("uses " + what + ", which is not supported"); }
  [[noreturn]] void invalid(const std::string& what) const {
    throw Error(Error::Kind::invalid_file, out_.where_,
                "\"" + printable(pattern_, 60) + "\" is no regular expression of Python: it " + what);
  }

  bool done() const { return at_ >= pattern_.size(); }
  char peek() const { return done() ? '\0' : pattern_[at_]; }
  bool next_is(char c) const { return !done() && pattern_[at_] == c; }
  bool take(char c) { return next_is(c) && ++at_; }

  // Decodes the next character of UTF-8 text.
  std::uint32_t character() {
    const auto byte = [&](std::size_t i) { return i < pattern_.size() ? static_cast<unsigned char>(pattern_[i]) : 0u; };
    const std::uint32_t first = byte(at_++);
    if (first < 0x80) return first;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    std::uint32_t code = first & (0x3fu >> more);
    for (int i = 0; i < more && (byte(at_) & 0xc0) == 0x80; ++i) code = code << 6 | (byte(at_++) & 0x3fu);
    return code;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_octal(char c) { return c >= '0' && c <= '7'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  int add(Node node) {
    out_.nodes_.push_back(std::move(node));
    return static_cast<int>(out_.nodes_.size()) - 1;
  }
  int add(Kind kind, std::vector<int> children = {}) {
    return add(Node{.kind = kind, .children = std::move(children)});
  }

  // ---- sets of characters

  static detail::RegexChars range(std::uint32_t low, std::uint32_t high) {
    detail::RegexChars chars;
    for (std::uint32_t c = low; c <= high && c < 128; ++c) chars.set(c);
    return chars;
  }

  // \d, \w and \s and their complements.
  static std::optional<detail::RegexChars> category(char c) {
    detail::RegexChars chars;
    for (std::size_t i = 0; i < 128; ++i) {
      const char each = static_cast<char>(i);
      const bool digit = is_digit(each), space = (i >= 9 && i <= 13) || (i >= 28 && i <= 32);
      chars[i] = c == 'd' || c == 'D' ? digit : c == 'w' || c == 'W' ? is_word(each) : space;
    }
    if (c == 'd' || c == 'w' || c == 's') return chars;
    if (c == 'D' || c == 'W' || c == 'S') return ~chars;
    return std::nullopt;
  }

  // Characters that a literal matches. None where it is beyond ASCII, since texts are ASCII.
  detail::RegexChars literal(std::uint32_t code) const { return with_case(range(code, code), code >= 128); }
  detail::RegexChars with_case(detail::RegexChars chars, bool beyond_ascii) const {
    if (!ignore_case_) return chars;
    if (beyond_ascii) unsupported("characters beyond ASCII under the flag i");
    for (std::size_t c = 'a'; c <= 'z'; ++c)
      if (chars[c] || chars[c - 32]) chars.set(c), chars.set(c - 32);
    return chars;
  }
  int add_chars(const detail::RegexChars& chars) {
    Node node{.kind = Kind::chars};
    node.chars = chars;
    return add(std::move(node));
  }

  // Code of \x41, \u0041, \U00000041, \n, \., ...; empty for a letter without a meaning. `c` has been taken.
  std::optional<std::uint32_t> escaped(char c) {
    static constexpr std::string_view names = "afnrtv\\", codes = "\a\f\n\r\t\v\\";
    if (c == 'x' || c == 'u' || c == 'U') {
      std::uint32_t code = 0;
      for (int i = c == 'x' ? 2 : c == 'u' ? 4 : 8; i > 0; --i) {
        const char digit = peek();
        const int value = is_digit(digit)                ? digit - '0'
                          : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                          : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                         : -1;
        if (value < 0) invalid("has an escape with too few hexadecimal digits");
        code = code << 4 | static_cast<std::uint32_t>(value);
        ++at_;
      }
      if (code >= kNoCharacter) invalid("has an escape beyond Unicode");
      return code;
    }
    if (c == 'N') unsupported("names of characters");
    if (const auto found = names.find(c); found != names.npos) return static_cast<unsigned char>(codes[found]);
    if (is_letter(c)) return std::nullopt;
    if (static_cast<unsigned char>(c) < 0x80) return static_cast<unsigned char>(c);
    --at_;
    return character();
  }

  std::uint32_t octal(std::uint32_t code, int digits) {
    for (; digits > 0 && is_octal(peek()); --digits)
      code = code * 8 + static_cast<std::uint32_t>(pattern_[at_++] - '0');
    if (code > 0377) invalid("has an octal escape beyond 0o377");
    return code;
  }

  struct ClassItem {
    detail::RegexChars chars;
    std::uint32_t code = kNoCharacter;  // of a single character, else kNoCharacter
  };

  ClassItem class_item() {
    if (done()) invalid("has a [ without its ]");
    if (!take('\\')) {
      const std::uint32_t code = character();
      return {range(code, code), code};
    }
    if (done()) invalid("ends in a backslash");
    const char c = pattern_[at_++];
    if (const auto chars = category(c)) return {*chars, kNoCharacter};
    std::optional<std::uint32_t> code;
    if (c == 'b')
      code = 8;
    else if (is_octal(c))
      code = octal(static_cast<std::uint32_t>(c - '0'), 2);
    else if (!is_digit(c))
      code = escaped(c);
    if (!code) invalid(std::string("has the bad escape \\") + c);
    return {range(*code, *code), *code};
  }

  int char_class() {
    const bool negated = take('^');
    detail::RegexChars chars;
    bool beyond = false, first = true;
    for (;; first = false) {
      if (done()) invalid("has a [ without its ]");
      if (!first && take(']')) break;
      const ClassItem low = class_item();
      beyond = beyond || (low.code >= 128 && low.code < kNoCharacter);
      if (!take('-')) {
        chars |= low.chars;
        continue;
      }
      if (take(']')) {
        chars |= low.chars;
        chars.set('-');
        break;
      }
      const ClassItem high = class_item();
      if (low.code == kNoCharacter || high.code == kNoCharacter || high.code < low.code)
        invalid("has a bad range of characters");
      beyond = beyond || high.code >= 128;
      chars |= range(low.code, high.code);
    }
    chars = with_case(chars, beyond);
    return add_chars(negated ? ~chars : chars);
  }

  // ---- structure

  // Parses up to a ) that closes an outer group, or to the end.
  int alternatives(bool outermost = false) {
    if (++depth_ > kDeepest) refuse("is nested more than " + std::to_string(kDeepest) + " times");
    std::vector<int> branches;
    do branches.push_back(sequence(outermost && branches.empty()));
    while (take('|'));
    --depth_;
    return branches.size() == 1 ? branches[0] : add(Kind::either, branches);
  }

  int sequence(bool first_of_all) {
    std::vector<Item> items;
    while (!done() && !next_is('|') && !next_is(')')) {
      const char c = peek();
      if (c == '*' || c == '+' || c == '?' || c == '{')
        repetition(items);
      else if (c == '(')
        group(items, first_of_all && items.empty());
      else
        items.push_back(single());
    }
    std::vector<int> children;
    for (const Item& each : items) children.push_back(each.node);
    return children.size() == 1 ? children[0] : add(Kind::sequence, std::move(children));
  }

  Item anchor(Kind kind) { return {add(kind), true, false}; }

  Item single() {
    if (take('^')) return anchor(Kind::begin);
    if (take('$')) return anchor(Kind::end);
    if (take('.')) return {add_chars(~detail::RegexChars())};
    if (take('[')) return {char_class()};
    if (!take('\\')) return {add_chars(literal(character()))};
    if (done()) invalid("ends in a backslash");
    const char c = pattern_[at_++];
    switch (c) {
      case 'A':
        return anchor(Kind::begin);
      case 'Z':
        return anchor(Kind::end);
      case 'b':
        return anchor(Kind::boundary);
      case 'B':
        return anchor(Kind::no_boundary);
      case '0':
        return {add_chars(literal(octal(0, 2)))};
      default:
        break;
    }
    if (const auto chars = category(c)) return {add_chars(*chars)};
    if (is_digit(c)) {  // three octal digits are a character, anything else is a reference
      const auto digit = [&](std::size_t i) { return at_ + i < pattern_.size() ? pattern_[at_ + i] : '\0'; };
      if (!is_octal(c) || !is_octal(digit(0)) || !is_octal(digit(1))) unsupported("backreferences");
      return {add_chars(literal(octal(static_cast<std::uint32_t>(c - '0'), 2)))};
    }
    const auto code = escaped(c);
    if (!code) invalid(std::string("has the bad escape \\") + c);
    return {add_chars(literal(*code))};
  }

  std::optional<std::uint32_t> number() {
    if (!is_digit(peek())) return std::nullopt;
    std::uint64_t value = 0;
    while (is_digit(peek()))
      value = std::min<std::uint64_t>(value * 10 + static_cast<std::uint64_t>(pattern_[at_++] - '0'), Node::kNoLimit);
    if (value >= Node::kNoLimit) invalid("repeats something too often");
    return static_cast<std::uint32_t>(value);
  }

  void repetition(std::vector<Item>& items) {
    std::uint32_t least = 0, most = Node::kNoLimit;
    if (take('{')) {
      const std::size_t begin = at_;
      const auto low = number();
      auto high = low;
      if (take(',')) high = number();
      const bool only_braces = at_ == begin && next_is('}');
      if (only_braces || !take('}')) {  // a literal brace
        at_ = begin;
        items.push_back({add_chars(literal('{'))});
        return;
      }
      least = low.value_or(0);
      most = high.value_or(Node::kNoLimit);
      if (most < least) invalid("has a repetition whose maximum is below its minimum");
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else {
      take('*');
    }
    if (items.empty() || items.back().anchor) invalid("has nothing to repeat");
    if (items.back().repetition) invalid("repeats a repetition");
    if (take('+')) unsupported("possessive repetitions");
    take('?');  // lazy: the set of ends is the same
    Node node{.kind = Kind::repeat, .children = {items.back().node}};
    node.least = least;
    node.most = most;
    items.back() = {add(std::move(node)), false, true};
  }

  void close() {
    if (!take(')')) invalid("has a ( without its )");
  }

  // Parses a group, an assertion, a comment or flags. `first`: at the start of the pattern.
  void group(std::vector<Item>& items, bool first) {
    take('(');
    const bool outer_case = ignore_case_;
    if (take('?')) {
      if (take('#')) {
        const std::size_t end = pattern_.find(')', at_);
        if (end == pattern_.npos) invalid("has a comment without its )");
        at_ = end + 1;
        return;
      }
      if (take('P')) {
        name();
      } else if (next_is('=') || next_is('!') || next_is('<')) {
        return items.push_back(lookaround());
      } else if (next_is('(')) {
        unsupported("conditionals");
      } else if (next_is('>')) {
        unsupported("atomic groups");
      } else if (!take(':') && !flags(first)) {
        return;
      }
    }
    const int inner = alternatives();
    close();
    ignore_case_ = outer_case;
    items.push_back({add(Kind::sequence, {inner})});
  }

  void name() {
    if (next_is('=')) unsupported("backreferences");
    const std::size_t end = pattern_.find('>', at_);
    if (!take('<') || end == pattern_.npos) invalid("has a group without a name");
    const std::string name(pattern_.substr(at_, end - at_));
    const bool sound = !name.empty() && !is_digit(name[0]) && std::all_of(name.begin(), name.end(), is_word);
    if (!sound || !names_.insert(name).second) invalid("has a group with a bad name");
    at_ = end + 1;
  }

  Item lookaround() {
    const bool behind = take('<');
    Node node{.kind = behind ? Kind::behind : Kind::ahead};
    node.negated = take('!');
    if (!node.negated && !take('=')) invalid("has an unknown kind of group");
    const bool outer_case = ignore_case_;
    const int inner = alternatives();
    close();
    ignore_case_ = outer_case;
    if (behind) {
      const auto [least, most] = width(inner);
      if (least != most) invalid("looks behind for a text of varying length");
      node.width = static_cast<std::uint32_t>(std::min<std::uint64_t>(least, 2 * detail::kRegexText));
    }
    node.children = {inner};
    return {add(std::move(node))};
  }

  // Parses (?i) or (?i:... and returns whether a group follows.
  bool flags(bool first) {
    std::string on, off;
    bool minus = false;
    while (!done() && !next_is(':') && !next_is(')')) {
      const char c = pattern_[at_++];
      if (c == '-' && !minus)
        minus = true;
      else if (std::string_view(minus ? "imsx" : "aimsux").find(c) != std::string_view::npos)
        (minus ? off : on) += c;
      else
        invalid("has an unknown kind of group");
    }
    const auto has = [](const std::string& text, char c) { return text.find(c) != text.npos; };
    if ((has(on, 'a') && has(on, 'u')) || (on.empty() && !minus) || (minus && off.empty()))
      invalid("has flags that mean nothing");
    for (const char c : on)
      if (has(off, c)) invalid("has a flag that is on and off");
    if (has(on, 'x')) unsupported("the flag x");
    ignore_case_ = (ignore_case_ || has(on, 'i')) && !has(off, 'i');
    if (take(':')) return true;
    if (minus) invalid("has flags that mean nothing");
    if (!first) invalid("has flags that do not stand first");
    close();
    return false;
  }

  // Least and greatest number of characters that the node consumes.
  std::pair<std::uint64_t, std::uint64_t> width(int index) const {
    constexpr std::uint64_t cap = Node::kNoLimit;
    const Node& n = out_.node(index);
    std::uint64_t least = 0, most = 0;
    if (n.kind == Kind::chars) return {1, 1};
    if (n.kind == Kind::sequence || n.kind == Kind::either) {
      const bool either = n.kind == Kind::either;
      if (either) least = cap;
      for (const int child : n.children) {
        const auto [low, high] = width(child);
        least = either ? std::min(least, low) : std::min(cap, least + low);
        most = either ? std::max(most, high) : std::min(cap, most + high);
      }
    } else if (n.kind == Kind::repeat) {
      const auto [low, high] = width(n.children[0]);
      least = std::min(cap, low * n.least);
      most = std::min(cap, high * n.most);
    }
    return {least, most};
  }

  const std::string_view pattern_;
  PythonRegex& out_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool ignore_case_ = false;
  std::set<std::string> names_;
};

TENON_INLINE PythonRegex::PythonRegex(std::string_view pattern, std::string where) : where_(std::move(where)) {
  root_ = Parser(pattern, *this).parse();
}

}  // namespace tenon
