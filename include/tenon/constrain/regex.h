// Converts regular expressions of ECMA-262 to expressions over bytes. Characters are code points, as with flag u; the
// syntax of Annex B.1.2 is accepted, too.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/code_points.h"
#include "tenon/constrain/expression.h"
#include "tenon/constrain/lookaround.h"
#include "tenon/constrain/pattern.h"
#include "tenon/constrain/refused.h"
#include "tenon/constrain/unicode_sets.h"

namespace tenon::constrain {

/// The part of a text that a pattern must match.
enum class Match {
  whole,   ///< the whole text; \s is ASCII, and . is all but \n
  search,  ///< any part of the text, as in JSON Schema's `pattern`; \s and . are ECMA-262's
};

/// Parses one pattern from left to right; see regex().
class RegexReader {
 public:
  RegexReader(Expressions& all, std::string_view pattern, Spelling spelling, Match match, std::string at)
      : all_(all),
        spelling_(spelling),
        match_(match),
        place_(std::move(at)),
        pattern_(characters_of(pattern, place_)) {}

  /// The expression of the pattern. Errors as for regex().
  Expr read() {
    const PatternNode whole = alternatives();
    if (more()) invalid(at_, "')' closes no group");
    const bool search = match_ == Match::search;
    if (whole.is_plain() && !search) return whole.plain;
    const Expr any_text = all_.repeat(any_character(all_, spelling_), 0);
    if (whole.is_plain()) return all_.concat({any_text, whole.plain, any_text});
    auto program = std::make_unique<Program>(all_, any_text);
    int entry = program->emit(search ? PatternNode::of(any_text) : PatternNode(), Program::kMatch);
    entry = program->emit(whole, entry);
    if (search) entry = program->emit(PatternNode::of(any_text), entry);
    program->finish([&](std::size_t at) {
      unsupported(at, "a lookahead within a lookbehind may hold no ^, no lookbehind and no loop around these");
    });
    return LookaroundMachine::start(all_, std::move(program), entry, any_text);
  }

 private:
  static constexpr int kMostRepeats = 100'000;

  struct Count {
    int least, most;
  };
  // An item of a class or an escape: a character, which may be an end of a range, or a set.
  struct Atom {
    std::optional<char32_t> character;
    CodePoints set;
  };

  // ---------------------------------------------------------------- the pattern's characters
  bool more() const { return at_ < pattern_.size(); }
  bool next_is(char32_t c, std::size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() && pattern_[at_ + ahead] == c;
  }
  bool take(char32_t c) { return next_is(c) && (++at_, true); }
  static bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char32_t c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
  bool digit_at(std::size_t i) const { return i < pattern_.size() && is_digit(pattern_[i]); }

  std::string place(std::size_t i) const { return place_.empty() ? "character " + std::to_string(i + 1) : place_; }
  std::string with_place(std::string reason, std::size_t i) const {
    return place_.empty() ? reason : reason + " (character " + std::to_string(i + 1) + ")";
  }
  [[noreturn]] void invalid(std::size_t i, std::string reason) const {
    refuse_invalid(place(i), with_place(std::move(reason), i));
  }
  [[noreturn]] void unsupported(std::size_t i, std::string reason) const {
    refuse_unsupported(place(i), with_place(std::move(reason), i));
  }

  // ---------------------------------------------------------------- alternatives, sequences, repetitions
  PatternNode alternatives() {
    std::vector<PatternNode> branches;
    do {
      branches.push_back(sequence());
      count_nodes(1);
    } while (take('|'));
    return either_of(all_, std::move(branches));
  }

  PatternNode sequence() {
    PatternSequence terms(all_);
    while (more() && !next_is('|') && !next_is(')')) terms.add(term());
    return terms.take();
  }

  PatternNode term() {
    all_.budget().check();
    refuse_quantifier();
    // ECMA-262, B.1.2: lookaheads are the only assertions that may be repeated.
    const bool behind = next_is('(') && next_is('?', 1) && next_is('<', 2) && (next_is('=', 3) || next_is('!', 3));
    const bool group = next_is('(') && !behind;
    PatternNode part = take('^')   ? PatternNode::anchor(PatternNode::Kind::start)
                       : take('$') ? PatternNode::anchor(PatternNode::Kind::end)
                                   : atom();
    if (!part.is_plain()) count_nodes(2);  // the node, and a repetition of it
    if (!part.is_plain() && !group) {
      refuse_quantifier();
      return part;
    }
    const std::optional<Count> count = quantifier();
    if (!count) return part;
    if (next_is('+')) unsupported(at_, "possessive quantifiers are not supported");
    take('?');  // lazy: the same texts match
    refuse_quantifier();
    return repeat_of(all_, std::move(part), count->least, count->most);
  }

  // Charges the tree, which is freed when the pattern has been read.
  void count_nodes(std::size_t nodes) { tree_.add(nodes * sizeof(PatternNode)); }

  void refuse_quantifier() {
    const std::size_t start = at_;
    if (quantifier()) invalid(start, "nothing to repeat");
  }

  std::optional<Count> quantifier() {
    if (take('*')) return Count{0, kUnbounded};
    if (take('+')) return Count{1, kUnbounded};
    if (take('?')) return Count{0, 1};
    return next_is('{') ? braces() : std::nullopt;
  }

  // {m}, {m,} or {m,n}. Any other { is a literal (ECMA-262, B.1.2).
  std::optional<Count> braces() {
    const std::size_t start = at_;
    std::size_t end = start + 1;
    const auto number = [&] {
      int value = 0;
      for (; digit_at(end); ++end)
        value = std::min(value * 10 + static_cast<int>(pattern_[end] - '0'), kMostRepeats + 1);
      return value;
    };
    const bool has_least = digit_at(end);
    Count count{number(), 0};
    count.most = count.least;
    if (end < pattern_.size() && pattern_[end] == ',') {
      ++end;
      count.most = digit_at(end) ? number() : kUnbounded;
    }
    if (end >= pattern_.size() || pattern_[end] != '}') return std::nullopt;
    if (!has_least) {
      if (pattern_[end - 1] == '{') return std::nullopt;
      unsupported(start, "{,n} means different things in different dialects: write {0,n}, or \\{");
    }
    at_ = end + 1;
    if (std::max(count.least, count.most) > kMostRepeats)
      unsupported(start, "too complex: a repetition of more than 100000");
    if (count.most != kUnbounded && count.most < count.least)
      invalid(start, "a repetition whose maximum is below its minimum");
    return count;
  }

  PatternNode atom() {
    const std::size_t start = at_;
    if (next_is('\\') && (next_is('b', 1) || next_is('B', 1)))
      return at_ += 2, word_boundary(pattern_[start + 1] == 'B');
    switch (const char32_t c = pattern_[at_++]) {
      case '(':
        return group(start);
      case '[':
        return one_of(character_class(start));
      case '\\': {
        const Atom escaped = escape(start, false);
        return one_of(escaped.character ? CodePoints{{*escaped.character, *escaped.character}} : escaped.set);
      }
      case '.':
        return one_of(match_ == Match::whole ? ~CodePoints{{'\n', '\n'}}
                                             : ~CodePoints{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
      default:
        return one_of({{c, c}});
    }
  }

  PatternNode one_of(const CodePoints& points) {
    const auto [found, fresh] = spelled_.try_emplace(points, Expressions::kNever);
    if (fresh) found->second = spelled(all_, points, spelling_);
    return PatternNode::of(found->second);
  }

  // \b: one side is a word character and the other is not (ECMA-262, 22.2.2.4). `inner`, \B: both sides are, or
  // neither.
  PatternNode word_boundary(bool inner) {
    using Kind = PatternNode::Kind;
    count_nodes(10);  // two sequences of two lookarounds, each around a set
    std::vector<PatternNode> ways;
    for (const bool before : {true, false}) {
      const bool after = inner ? before : !before;
      PatternSequence both(all_);
      both.add(PatternNode::look(Kind::behind, !before, one_of(word_characters()), at_));
      both.add(PatternNode::look(Kind::ahead, !after, one_of(word_characters()), at_));
      ways.push_back(both.take());
    }
    return either_of(all_, std::move(ways));
  }

  // ---------------------------------------------------------------- groups
  PatternNode group(std::size_t start) {
    const Budget::Nesting nesting(all_.budget());
    if (++depth_ > all_.budget().limits().nesting) {
      unsupported(start, "too complex: groups nested deeper than " + std::to_string(all_.budget().limits().nesting));
    }
    const std::optional<Look> look = take('?') ? group_kind(start) : std::nullopt;
    PatternNode body = alternatives();
    if (!take(')')) invalid(start, "this group is not closed");
    --depth_;
    return look ? PatternNode::look(look->kind, look->negated, std::move(body), start) : body;
  }

  struct Look {
    PatternNode::Kind kind;
    bool negated;
  };
  // Parses the text after "(?".
  std::optional<Look> group_kind(std::size_t start) {
    if (take(':')) return std::nullopt;
    const bool behind = next_is('<');
    if (next_is('=', behind) || next_is('!', behind)) {
      at_ += behind ? 2 : 1;
      return Look{behind ? PatternNode::Kind::behind : PatternNode::Kind::ahead, pattern_[at_ - 1] == '!'};
    }
    if (behind || (next_is('P') && next_is('<', 1))) return group_name(start), std::nullopt;
    if (next_is('P') && next_is('=', 1)) unsupported(start, "back references are not supported");
    if (next_is('>')) unsupported(start, "atomic groups are not supported");
    if (next_is('#')) unsupported(start, "comments are not supported");
    if (next_is('-') || (more() && is_letter(pattern_[at_]))) unsupported(start, "inline flags are not supported");
    invalid(start, "a group of an unknown kind");
  }

  void group_name(std::size_t start) {
    take('P');
    take('<');
    const std::size_t name = at_;
    for (; more() && !next_is('>'); ++at_) {
      const char32_t c = pattern_[at_];
      if (!is_letter(c) && c != '_' && c != '$' && c < 0x80 && (at_ == name || !is_digit(c))) break;
    }
    if (at_ == name || !take('>')) invalid(start, "a group with an invalid name");
  }

  // ---------------------------------------------------------------- classes
  CodePoints character_class(std::size_t start) {
    const bool negated = take('^');
    if (match_ == Match::whole && next_is(']'))
      unsupported(at_, "']' first in a class means different things: write \\]");
    std::vector<CodePoints::Range> ranges;
    std::size_t most = 8192;  // merge above it: \p{L} alone has about 650 ranges
    const auto add = [&](const Atom& atom) {
      if (atom.character)
        ranges.push_back({*atom.character, *atom.character});
      else
        ranges.insert(ranges.end(), atom.set.ranges().begin(), atom.set.ranges().end());
    };
    while (!take(']')) {
      all_.budget().check();
      if (ranges.size() > most) {
        ranges = CodePoints(ranges).ranges();
        most = std::max(most, 2 * ranges.size());
      }
      const std::size_t from = at_;
      const Atom first = class_atom(start);
      if (!next_is('-') || next_is(']', 1)) {
        add(first);
        continue;
      }
      ++at_;
      const Atom last = class_atom(start);
      if (first.character && last.character) {
        if (*first.character > *last.character) invalid(from, "a range that ends before it begins");
        ranges.push_back({*first.character, *last.character});
      } else {  // [\w-.]: the hyphen is literal (ECMA-262, B.1.2)
        add(first), add(last), add({'-', {}});
      }
    }
    const CodePoints points(ranges);
    return negated ? ~points : points;
  }

  Atom class_atom(std::size_t start) {
    if (!more()) invalid(start, "this class is not closed");
    if (take('\\')) return escape(at_ - 1, true);
    if (next_is('[') && (next_is(':', 1) || next_is('=', 1) || next_is('.', 1))) {
      const char32_t kind = pattern_[at_ + 1];
      for (std::size_t i = at_ + 2; i + 1 < pattern_.size() && pattern_[i] != ']'; ++i) {
        if (pattern_[i] == kind && pattern_[i + 1] == ']')
          unsupported(at_, "POSIX classes are not supported: write \\[ for a bracket");
      }
    }
    return {pattern_[at_++], {}};
  }

  // ---------------------------------------------------------------- escapes
  static CodePoints digits() { return {{'0', '9'}}; }
  static CodePoints word_characters() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
  CodePoints blanks() const {
    const CodePoints ascii = {{'\t', '\r'}, {' ', ' '}};
    if (match_ == Match::whole) return ascii;
    return ascii | CodePoints{{0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                              {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  }

  // Parses an escape. The backslash is at `start`, and at_ is after it.
  Atom escape(std::size_t start, bool in_class) {
    if (!more()) invalid(start, "nothing follows the backslash");
    switch (const char32_t c = pattern_[at_++]) {
      case 'd':
        return {{}, digits()};
      case 'D':
        return {{}, ~digits()};
      case 'w':
        return {{}, word_characters()};
      case 'W':
        return {{}, ~word_characters()};
      case 's':
        return {{}, blanks()};
      case 'S':
        return {{}, ~blanks()};
      case 't':
        return {U'\t', {}};
      case 'n':
        return {U'\n', {}};
      case 'r':
        return {U'\r', {}};
      case 'f':
        return {U'\f', {}};
      case 'v':
        return {U'\v', {}};
      case 'x':
        return {hexadecimal(start, 2), {}};
      case 'u':
        return {unicode_escape(start), {}};
      case 'c':
        if (!more() || !is_letter(pattern_[at_])) invalid(start, "\\c needs a letter");
        return {pattern_[at_++] & 31, {}};
      case '0':
        if (digit_at(at_)) unsupported(start, "octal escapes are not supported");
        return {U'\0', {}};
      case 'k':
        unsupported(start, "back references are not supported");
      case 'p':
        return {{}, property(start)};
      case 'P':
        return {{}, ~property(start)};
      case 'b':
        return {U'\b', {}};  // only in a class; elsewhere it is a boundary
      default:
        if (is_digit(c))
          unsupported(start, in_class ? "octal escapes are not supported" : "back references are not supported");
        if (is_letter(c)) unsupported(start, std::string("the escape \\") + static_cast<char>(c) + " is not supported");
        return {c, {}};
    }
  }

  // {name} or {name=value} after \p.
  CodePoints property(std::size_t start) {
    const std::size_t from = at_ + 1;
    if (!take('{')) invalid(start, "\\p needs a property in braces, as in \\p{L}");
    std::string name;
    for (; more() && !next_is('}') && pattern_[at_] < 0x80; ++at_) name += static_cast<char>(pattern_[at_]);
    if (!take('}') || at_ == from + 1) invalid(start, "\\p needs a property in braces, as in \\p{L}");
    const std::optional<CodePoints> found = unicode_set(name);
    if (!found)
      unsupported(start, "the Unicode property '" + name + "' is not supported: general categories are, as in \\p{Lu}");
    return *found;
  }

  char32_t hexadecimal(std::size_t start, int count) {
    char32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const int digit = more() ? hexadecimal_digit(pattern_[at_]) : -1;
      if (digit < 0)
        invalid(start, "this escape needs " + std::to_string(count) + " hexadecimal digit" + (count == 1 ? "" : "s"));
      value = value << 4 | static_cast<char32_t>(digit);
    }
    return value;
  }
  static int hexadecimal_digit(char32_t c) {
    if (is_digit(c)) return static_cast<int>(c - '0');
    return (c | 32) >= 'a' && (c | 32) <= 'f' ? static_cast<int>((c | 32) - 'a') + 10 : -1;
  }

  // \uHHHH, a surrogate pair of two of them, or \u{H...}.
  char32_t unicode_escape(std::size_t start) {
    char32_t value = 0;
    if (take('{')) {
      do {
        value = std::min<char32_t>(value << 4 | hexadecimal(start, 1), 0x110000);
      } while (more() && !next_is('}'));
      if (!take('}')) invalid(start, "\\u{ needs a }");
    } else {
      value = hexadecimal(start, 4);
      if (value >= 0xD800 && value <= 0xDBFF && next_is('\\') && next_is('u', 1) && !next_is('{', 2)) {
        const std::size_t behind = at_;
        at_ += 2;
        const char32_t low = hexadecimal(behind, 4);
        if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    if (value > 0x10FFFF) invalid(start, "no character has a number above 10FFFF");
    if (value >= 0xD800 && value <= 0xDFFF) unsupported(start, "half of a surrogate pair is no character");
    return value;
  }

  Expressions& all_;
  const Spelling spelling_;
  const Match match_;
  const std::string place_;
  const std::u32string pattern_;
  std::size_t at_ = 0;
  int depth_ = 0;  // of groups
  std::map<CodePoints, Expr> spelled_;
  Spent tree_{all_.budget()};
};

/// The texts that the pattern matches, in the given spelling; kNever where there are none. ^ and $ are the ends of the
/// text. Lookarounds, \b and \B are allowed anywhere. Lazy quantifiers match the same texts as greedy ones. Source:
/// ECMA-262, 22.2.1 and B.1.2.
///
/// Throws Refused at `at` (a JSON pointer) or, where that is empty, at the character, counted from 1:
/// - invalid_request for a text that is not a regular expression;
/// - unsupported for back references, flags, possessive quantifiers, atomic groups, other escapes of letters, halves of
///   surrogate pairs, and Unicode properties that unicode_set() lacks;
/// - unsupported if dialects disagree: {,n}, POSIX classes, and ] first in a class of a whole match;
/// - unsupported for counts above 100,000, for groups nested deeper than the budget's limit and, at "#", over the
/// budget.
inline Expr regex(Expressions& all, std::string_view pattern, Spelling spelling, Match match, std::string at) {
  return RegexReader(all, pattern, spelling, match, std::move(at)).read();
}

}  // namespace tenon::constrain
