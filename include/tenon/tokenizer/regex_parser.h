// Parses the regular expressions of tokenizer.json: a subset of Oniguruma's syntax. Anything outside it is refused.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/tokenizer/char_set.h"
#include "tenon/tokenizer/regex.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// Supported: characters, `.`, $, alternatives, groups (?:...), (...), (?i:...), lookahead (?=...) and (?!...). Also
// escapes \s \S \d \D \p{L} \P{L}, classes with ranges and nested classes, and ? * + {m,n} of a character or class,
// also possessive.
// The body of a repeated group must have a fixed length, which excludes nested repeats such as (a+)+. Matching can
// still take exponential time: (?:a|aa) 28 times, then b. Regex::Search therefore counts steps.
class RegexParser {
 public:
  // Error unsupported, at `where`, for other syntax and for an expression that matches the empty text.
  static Regex parse(std::string_view pattern, const std::string& where) {
    RegexParser parser(pattern, where);
    Part whole = parser.alternatives();
    if (!parser.done()) parser.refuse("an unmatched )");
    if (whole.may_be_empty) parser.refuse("an expression that matches an empty text");
    whole.steps.push_back({});
    return Regex(std::move(whole.steps), std::move(parser.sets_));
  }

 private:
  using Step = RegexStep;
  using Kind = RegexStep::Kind;
  static constexpr std::size_t kMostSteps = 4096, kMostRepeats = 1000, kMostDepth = 32;

  struct Part {
    std::vector<Step> steps;
    bool may_be_empty = true;
    bool fixed = true;  // always the same number of characters, without alternatives
  };

  RegexParser(std::string_view pattern, const std::string& where) : text_(pattern), where_(where) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Error::Kind::unsupported, where_,
                "\"" + printable(std::string(text_), 300) + "\" has " + what + ", which is not supported here");
  }

  bool done() const { return at_ == text_.size(); }
  bool next_is(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t character() {
    if (done()) refuse("an end inside a group, class or escape");
    const CodePoint point = decode_utf8(text_, at_);
    at_ += static_cast<std::size_t>(point.length);
    return point.value;
  }

  static Step step(Kind kind, std::size_t jump) {
    Step out;
    out.kind = kind;
    out.jump = static_cast<int>(jump);
    return out;
  }

  void append(Part& to, Part&& part) const {
    to.may_be_empty = to.may_be_empty && part.may_be_empty;
    to.fixed = to.fixed && part.fixed;
    to.steps.insert(to.steps.end(), part.steps.begin(), part.steps.end());
    if (to.steps.size() > kMostSteps) refuse("too many parts");
  }

  Part alternatives() {
    if (++depth_ > kMostDepth) refuse("groups nested too deeply");
    std::vector<Part> all;
    std::size_t steps = 0;  // steps of the result: each alternative but the last adds a split and a jump
    do {
      all.push_back(sequence());
      steps += all.back().steps.size();
      if (steps > kMostSteps) refuse("too many parts");
      steps += 2;
    } while (take("|"));
    --depth_;
    Part out = std::move(all.back());
    all.pop_back();
    while (!all.empty()) {
      Part first = std::move(all.back());
      all.pop_back();
      first.steps.insert(first.steps.begin(), step(Kind::split, first.steps.size() + 2));
      first.steps.push_back(step(Kind::jump, out.steps.size() + 1));
      const bool empty = first.may_be_empty || out.may_be_empty;
      append(first, std::move(out));
      out = std::move(first);
      out.may_be_empty = empty;
      out.fixed = false;
    }
    return out;
  }

  Part sequence() {
    Part out;
    char32_t before = 0;  // the last letter, where case is ignored
    while (!done() && !next_is("|") && !next_is(")")) {
      const char32_t letter = any_case_ && !next_is("\\") ? static_cast<unsigned char>(text_[at_]) : 0;
      check_fold(before, letter);
      before = letter;
      append(out, quantified(atom()));
    }
    return out;
  }

  // Where case is ignored, Oniguruma matches these pairs with one character, such as U+00DF for ss.
  void check_fold(char32_t before, char32_t letter) const {
    const auto lower = [](char32_t c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; };
    const char32_t a = lower(before), b = lower(letter);
    if ((a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l')))
      refuse("a ligature without case");
  }

  Part atom() {
    if (next_is("(")) return group();
    Part out;
    if (take("$")) {
      out.steps.push_back(step(Kind::line_end, 0));
      return out;
    }
    out.may_be_empty = false;
    CharSet set;
    if (take("[")) {
      set = bracket();
    } else if (take(".")) {
      set.add_range('\n', '\n');
      set.negate();
    } else if (next_is("\\")) {
      set = escape();
    } else if (next_is("^") || next_is("*") || next_is("+") || next_is("?") || next_is("{")) {
      refuse(std::string("a ") + text_[at_] + " here");
    } else {
      set = literal(character());
    }
    Step one;
    one.kind = Kind::repeat;
    if (sets_.size() == kMostSteps) refuse("too many parts");
    one.set = static_cast<int>(sets_.size());
    sets_.push_back(std::move(set));
    out.steps.push_back(one);
    return out;
  }

  Part group() {
    const bool outer = any_case_;
    const bool ahead = take("(?="), negated = !ahead && take("(?!");
    if (!ahead && !negated && !take("(?:")) {
      if (take("(?i:"))
        any_case_ = true;
      else if (next_is("(?"))
        refuse("a group of another kind");
      else
        take("(");
    }
    Part out = alternatives();
    if (!take(")")) refuse("a group without an end");
    any_case_ = outer;
    if (!ahead && !negated) return out;
    out.steps.push_back({});  // end of the lookahead
    Step look = step(Kind::look, out.steps.size() + 1);
    look.negated = negated;
    out.steps.insert(out.steps.begin(), look);
    out.may_be_empty = out.fixed = true;
    if (next_is("?") || next_is("*") || next_is("+") || next_is("{")) refuse("a repeated lookahead");
    return out;
  }

  CharSet literal(char32_t c) const {
    CharSet set;
    add_range(c, c, set);
    return set;
  }

  void add_range(char32_t first, char32_t last, CharSet& set) const {
    set.add_range(first, last);
    if (!any_case_) return;
    if (last >= 0x80) refuse("a letter beyond ASCII without case");
    for (char32_t c = first; c <= last; ++c) {
      const char32_t lower = c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
      if (lower < 'a' || lower > 'z') continue;
      set.add_range(lower, lower);
      set.add_range(lower - ('a' - 'A'), lower - ('a' - 'A'));
      if (lower == 's') set.add_range(0x17F, 0x17F);    // long s
      if (lower == 'k') set.add_range(0x212A, 0x212A);  // kelvin sign
    }
  }

  // \p{L}, \P{L}, \p{^L}; at_ is after \p.
  CharSet property(bool negated) {
    if (!take("{")) refuse("a property without braces");
    if (take("^")) negated = !negated;
    const std::size_t end = std::min(text_.find('}', at_), text_.size());
    const auto categories = categories_named(text_.substr(at_, end - at_));
    if (!categories || end == text_.size()) refuse("the property " + std::string(text_.substr(at_, end - at_)));
    at_ = end + 1;
    CharSet set;
    set.add_categories(*categories);
    if (negated) set.negate();
    return set;
  }

  // The single character of an escape; empty for a set, which stays unread.
  std::optional<char32_t> escaped_character() {
    const std::size_t begin = at_++;
    const char32_t c = character();
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      default:
        break;
    }
    const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
    if (!word) return c;
    at_ = begin;
    return std::nullopt;
  }

  CharSet escape() {
    if (const auto c = escaped_character()) return literal(*c);
    ++at_;
    const char32_t c = character();
    CharSet set;
    if (any_case_ && c != 's' && c != 'd') refuse("a set without case");
    if (c == 'p' || c == 'P') return property(c == 'P');
    if (c == 's' || c == 'S')
      set.add_space();
    else if (c == 'd' || c == 'D')
      set.add_categories(category_bit(UTF8PROC_CATEGORY_ND));
    else
      refuse("the escape \\" + std::string(text_.substr(at_ - 1, 1)));
    if (c == 'S' || c == 'D') set.negate();
    return set;
  }

  // A class; at_ is after its [.
  CharSet bracket() {
    if (++depth_ > kMostDepth) refuse("classes nested too deeply");
    CharSet set;
    if (take("^")) {
      if (any_case_) refuse("a negated class without case");
      set.negate();
    }
    if (next_is("]")) refuse("an empty class");
    while (!take("]")) {
      if (next_is("&&")) refuse("an intersection");
      if (next_is("[:")) refuse("a class of POSIX");
      if (take("[")) {
        set.add(bracket());
        continue;
      }
      const auto first = next_is("\\") ? escaped_character() : std::optional(character());
      if (!first) {
        set.add(escape());
        continue;
      }
      char32_t last = *first;
      if (next_is("-") && !next_is("-]")) {
        ++at_;
        const auto end = next_is("\\") ? escaped_character() : std::optional(character());
        if (!end || *end < *first || (*end == '[' && text_[at_ - 1] == '[')) refuse("a range without order");
        last = *end;
      }
      add_range(*first, last, set);
    }
    --depth_;
    return set;
  }

  std::size_t number() {
    std::size_t value = 0;
    const std::size_t begin = at_;
    for (; !done() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      value = std::min(value * 10 + static_cast<std::size_t>(text_[at_] - '0'), kMostRepeats + 1);
    if (at_ == begin || value > kMostRepeats) refuse("a number of repeats");
    return value;
  }

  Part quantified(Part&& part) {
    std::size_t least = 1, most = 1;
    const bool braces = next_is("{");
    if (take("?"))
      least = 0;
    else if (take("*"))
      least = 0, most = Regex::kUnbounded;
    else if (take("+"))
      most = Regex::kUnbounded;
    else if (take("{")) {
      least = most = number();
      if (take(",")) most = next_is("}") ? Regex::kUnbounded : number();
      if (!take("}") || most < least || most == 0) refuse("a number of repeats");
    } else
      return std::move(part);
    const bool possessive = !braces && take("+");
    if (braces && least == 1 && next_is("+")) {  // not possessive: it repeats the braces, which comes to one or more
      take("+");
      most = Regex::kUnbounded;
    }
    if (next_is("?") || next_is("*") || next_is("+") || next_is("{")) refuse("a repeat of a repeat");
    return repeated(std::move(part), least, most, possessive);
  }

  Part repeated(Part&& part, std::size_t least, std::size_t most, bool possessive) const {
    Part out;
    out.may_be_empty = least == 0 || part.may_be_empty;
    out.fixed = least == most && part.fixed;
    if (part.steps.size() == 1 && part.steps[0].kind == Kind::repeat) {
      Step& one = part.steps[0];
      if (one.least != 1 || one.most != 1) refuse("a repeat of a repeat");
      one.least = least, one.most = most, one.possessive = possessive;
      out.steps = std::move(part.steps);
      return out;
    }
    if (possessive) refuse("a possessive group");
    if (part.may_be_empty) refuse("a repeat of what may be empty");
    if (most != 1 && !part.fixed) refuse("a repeated group of several lengths");
    if (part.steps.size() * (most == Regex::kUnbounded ? least + 1 : most) > kMostSteps) refuse("too many parts");
    const auto add_body = [&] { out.steps.insert(out.steps.end(), part.steps.begin(), part.steps.end()); };
    const std::size_t size = part.steps.size();
    for (std::size_t i = 0; i < least; ++i) add_body();
    if (most == Regex::kUnbounded) {
      out.steps.push_back(step(Kind::split, size + 2));
      add_body();
      Step back = step(Kind::jump, 0);
      back.jump = -static_cast<int>(size + 1);
      out.steps.push_back(back);
      return out;
    }
    for (std::size_t left = most - least; left > 0; --left) {
      out.steps.push_back(step(Kind::split, left * (size + 1)));
      add_body();
    }
    return out;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0, depth_ = 0;
  bool any_case_ = false;
  std::vector<CharSet> sets_;
};

}  // namespace tenon::detail
