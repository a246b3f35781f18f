// Parses the regular expressions of tokenizer.json: a subset of Oniguruma's syntax. Anything outside it is refused.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tokenizer/regex.h"
#include "tenon/tokenizer/regex_class_parser.h"

namespace tenon::detail {

// Refused: references to groups, conditions, absent expressions, \G \K \R \X \y, a lookbehind with an alternative of no
// fixed length, and what RegexClassParser refuses. Matching can take exponential time: (a+)+b on many a. Regex::Search
// counts steps.
class RegexParser : RegexClassParser {
 public:
  // Whether an expression may match an empty text.
  enum class Empty : bool { refused, allowed };

  // Error unsupported, at `where`, for other syntax.
  static Regex parse(std::string_view pattern, const std::string& where, Empty empty = Empty::allowed) {
    RegexParser parser(pattern, where);
    Part whole = parser.alternatives();
    if (!parser.done()) parser.refuse("an unmatched )");
    if (empty == Empty::refused && whole.may_be_empty) parser.refuse("a match of an empty text");
    whole.steps.push_back({});
    return Regex(std::move(whole.steps), std::move(parser.sets_), parser.slots_);
  }

 private:
  using Step = RegexStep;
  using Kind = RegexStep::Kind;
  using Place = RegexStep::Place;
  static constexpr std::size_t kMostSteps = 4096, kMostRepeats = 1000;

  struct Part {
    std::vector<Step> steps;
    bool may_be_empty = true;
    std::optional<std::size_t> length = 0;  // characters of every match, if that is one number
    bool place = false;                     // a place, a lookahead or a lookbehind, which cannot be repeated
    // Letters of kFolding, without case, with which a match may begin and end, where case is ignored.
    unsigned firsts = 0, lasts = 0;
  };

  // How often something is matched.
  struct Times {
    std::size_t least = 1, most = 1;
    bool lazy = false, possessive = false;
  };

  using RegexClassParser::RegexClassParser;

  static Step step(Kind kind, std::size_t jump) {
    Step out;
    out.kind = kind;
    out.jump = static_cast<int>(jump);
    return out;
  }

  // Where case is ignored, Oniguruma matches some pairs of letters with one character, such as U+00DF for ss.
  static constexpr std::string_view kFolding = "sftil";
  static unsigned bit(char letter) { return 1u << kFolding.find(letter); }
  void check_fold(unsigned lasts, unsigned firsts) const {
    if (((lasts & bit('s')) && (firsts & (bit('s') | bit('t')))) ||
        ((lasts & bit('f')) && (firsts & (bit('f') | bit('i') | bit('l')))))
      refuse("a ligature without case");
  }

  void append(Part& to, Part&& part) const {
    check_fold(to.lasts, part.firsts);
    to.firsts |= to.may_be_empty ? part.firsts : 0;
    to.lasts = part.lasts | (part.may_be_empty ? to.lasts : 0);
    to.may_be_empty = to.may_be_empty && part.may_be_empty;
    to.length = to.length && part.length ? std::optional(*to.length + *part.length) : std::nullopt;
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
    return one_of(std::move(all));
  }

  Part one_of(std::vector<Part> all) const {
    Part out = std::move(all.back());
    all.pop_back();
    while (!all.empty()) {
      Part first = std::move(all.back());
      all.pop_back();
      first.steps.insert(first.steps.begin(), step(Kind::split, first.steps.size() + 2));
      first.steps.push_back(step(Kind::jump, out.steps.size() + 1));
      const bool empty = first.may_be_empty || out.may_be_empty;
      const auto length = first.length == out.length ? first.length : std::nullopt;
      const unsigned firsts = first.firsts | out.firsts, lasts = first.lasts | out.lasts;
      first.firsts = first.lasts = out.firsts = out.lasts = 0;  // they do not follow one another
      append(first, std::move(out));
      out = std::move(first);
      out.may_be_empty = empty;
      out.length = length;
      out.firsts = firsts, out.lasts = lasts;
    }
    return out;
  }

  Part sequence() {
    Part out;
    while (!done() && !next_is("|") && !next_is(")")) {
      if (next_is("(?i)") || next_is("(?-i)")) {  // to the end of the group, with its alternatives, as in Ruby
        const bool outer = std::exchange(any_case_, next_is("(?i)"));
        at_ = text_.find(')', at_) + 1;
        append(out, alternatives());
        any_case_ = outer;
        continue;
      }
      append(out, quantified(atom()));
    }
    return out;
  }

  // A place such as ^ or \b, if one stands here.
  std::optional<Part> place() {
    struct Named {
      std::string_view text;
      Place place;
      bool negated = false;
    };
    static constexpr Named known[] = {
        {"^", Place::line_begin},
        {"$", Place::line_end},
        {"\\A", Place::text_begin},
        {"\\Z", Place::last_line_end},
        {"\\z", Place::text_end},
        {"\\b", Place::word_boundary},
        {"\\B", Place::word_boundary, true},
    };
    for (const Named& each : known) {
      if (!take(each.text)) continue;
      Part out{{step(Kind::check, 0)}, true, 0, true};
      out.steps.back().place = each.place;
      out.steps.back().negated = each.negated;
      return out;
    }
    return std::nullopt;
  }

  Part atom() {
    if (next_is("(")) return group();
    if (auto found = place()) return std::move(*found);
    CharSet set;
    letter_ = 0;
    if (take("[")) {
      set = bracket();
    } else if (take(".")) {
      set.add_range('\n', '\n');
      set.negate();
    } else if (next_is("\\")) {
      set = escape(false);
    } else if (next_is("*") || next_is("+") || next_is("?") || times_in_braces()) {
      refuse("a repeat of nothing");
    } else {
      set = literal(character());
    }
    if (sets_.size() == kMostSteps) refuse("too many parts");
    Part out{{step(Kind::repeat, 0)}, false, 1};
    out.steps[0].set = static_cast<int>(sets_.size());
    const char32_t lower = letter_ >= 'A' && letter_ <= 'Z' ? letter_ + ('a' - 'A') : letter_;
    for (const char each : kFolding)
      if (any_case_ && lower == static_cast<unsigned char>(each)) out.firsts = out.lasts = bit(each);
    sets_.push_back(std::move(set));
    return out;
  }

  Part group() {
    if (next_is("(?<=") || next_is("(?<!")) return lookbehind();
    const bool outer = any_case_;
    const bool ahead = take("(?="), negated = !ahead && take("(?!");
    const bool atomic = !ahead && !negated && take("(?>");
    if (!ahead && !negated && !atomic && !take("(?:")) {
      if (take("(?i:"))
        any_case_ = true;
      else if (take("(?-i:"))
        any_case_ = false;
      else if (next_is("(?<"))
        at_ = std::min(text_.find('>', at_), text_.size() - 1) + 1;  // a name, which only a reference would need
      else if (next_is("(?"))
        refuse("a group of another kind");
      else
        take("(");
    }
    Part out = alternatives();
    if (!take(")")) refuse("a group without an end");
    any_case_ = outer;
    if (atomic) return enclosed(Kind::atomic, std::move(out));
    if (!ahead && !negated) return out;
    out = enclosed(Kind::look, std::move(out));
    out.steps.front().negated = negated;
    return place_of(std::move(out));
  }

  static Part place_of(Part&& part) { return {std::move(part.steps), true, 0, true, 0, 0}; }

  // The part inside one step: a lookahead, a lookbehind or an atomic group.
  Part enclosed(Kind kind, Part&& part) const {
    Part out = std::move(part);
    out.steps.push_back({});
    out.steps.insert(out.steps.begin(), step(kind, out.steps.size() + 1));
    return out;
  }

  // Each alternative is looked for by itself, since each has its own length.
  Part lookbehind() {
    const bool negated = next_is("(?<!");
    at_ += 4;
    if (++depth_ > kMostDepth) refuse("groups nested too deeply");
    Part none;
    std::vector<Part> all;
    do {
      Part each = sequence();
      if (!each.length) refuse("a lookbehind of several lengths");
      const std::size_t length = *each.length;
      each = enclosed(Kind::behind, std::move(each));
      each.steps.front().least = length;
      each.steps.front().negated = negated;
      each = place_of(std::move(each));
      negated ? append(none, std::move(each)) : all.push_back(std::move(each));
    } while (take("|"));
    if (!take(")")) refuse("a group without an end");
    --depth_;
    return place_of(negated ? std::move(none) : one_of(std::move(all)));
  }

  // Reads {2}, {2,}, {,3} or {2,3}. Other text after a { stays unread, as the characters that it is.
  std::optional<Times> times_in_braces() {
    const std::size_t begin = at_;
    Times out;
    if (!take("{")) return std::nullopt;
    const auto least = number();
    out.least = out.most = least.value_or(0);
    bool valid = least.has_value();
    if (take(",")) {
      const auto most = number();
      valid = valid || most;
      out.most = most.value_or(Regex::kUnbounded);
    }
    if (valid && take("}")) {
      if (out.most < out.least || std::max(out.least, out.most == Regex::kUnbounded ? 0 : out.most) > kMostRepeats)
        refuse("a number of repeats");
      return out;
    }
    at_ = begin;
    return std::nullopt;
  }

  std::optional<std::size_t> number() {
    std::size_t value = 0;
    const std::size_t begin = at_;
    for (; !done() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      value = std::min(value * 10 + static_cast<std::size_t>(text_[at_] - '0'), kMostRepeats + 1);
    return at_ == begin ? std::nullopt : std::optional(value);
  }

  std::optional<Times> times() {
    Times out;
    const bool fixed_number = next_is("{");
    if (const auto braces = times_in_braces())
      out = *braces;
    else if (take("?"))
      out.least = 0;
    else if (take("*"))
      out.least = 0, out.most = Regex::kUnbounded;
    else if (take("+"))
      out.most = Regex::kUnbounded;
    else
      return std::nullopt;
    // After braces, + repeats once more. So does ? after {2}, while {2,3}? is lazy.
    if (!(fixed_number && out.least == out.most)) out.lazy = take("?");
    if (!fixed_number && !out.lazy) out.possessive = take("+");
    return out;
  }

  Part quantified(Part&& part) {
    Part out = std::move(part);
    for (std::size_t count = 0; const auto found = times(); ++count) {
      if (count == kMostDepth) refuse("repeats nested too deeply");
      if (out.place) refuse("a repeat of a place or a look");
      out = repeated(std::move(out), *found);
    }
    return out;
  }

  Part repeated(Part&& part, const Times& times) {
    if (times.least == 1 && times.most == 1) return std::move(part);
    Part out;
    if (times.least > 1) check_fold(part.lasts, part.firsts);
    out.firsts = part.firsts, out.lasts = part.lasts;
    const bool single = part.steps.size() == 1 && part.steps[0].kind == Kind::repeat && part.steps[0].least == 1 &&
                        part.steps[0].most == 1;
    const auto length =
        times.least == times.most && part.length ? std::optional(*part.length * times.least) : std::nullopt;
    if (single && !times.lazy && times.most > 0) {
      out.steps = std::move(part.steps);
      out.steps[0].least = times.least, out.steps[0].most = times.most, out.steps[0].possessive = times.possessive;
    } else {
      const unsigned firsts = out.firsts, lasts = out.lasts;
      out = unrolled(part, times);
      out.firsts = firsts, out.lasts = lasts;
      if (times.possessive) out = enclosed(Kind::atomic, std::move(out));
    }
    out.may_be_empty = times.least == 0 || part.may_be_empty;
    out.length = length;
    return out;
  }

  // Steps for each turn of a repeat: first those that are due, then those that may be, or a loop.
  Part unrolled(const Part& part, const Times& times) {
    const bool loops = times.most == Regex::kUnbounded;
    if ((part.steps.size() + 3) * (loops ? times.least + 1 : times.most) > kMostSteps) refuse("too many parts");
    Part out;
    const auto add = [&](const std::vector<Step>& steps) {
      out.steps.insert(out.steps.end(), steps.begin(), steps.end());
    };
    const std::size_t size = part.steps.size();
    for (std::size_t i = 0; i < times.least; ++i) add(part.steps);
    Step leave = step(Kind::split, 0);
    leave.lazy = times.lazy;
    if (!loops) {
      for (std::size_t left = times.most - times.least; left > 0; --left) {
        leave.jump = static_cast<int>(left * (size + 1));
        out.steps.push_back(leave);
        add(part.steps);
      }
      return out;
    }
    const std::size_t guard = part.may_be_empty ? 1 : 0;  // a mark before the body, and a check after it
    leave.jump = static_cast<int>(size + 2 * guard + 2);
    out.steps.push_back(leave);
    Step mark = step(Kind::mark, 0), progress = step(Kind::progress, 2);
    if (guard == 1) mark.set = progress.set = static_cast<int>(slots_++);
    if (guard == 1) out.steps.push_back(mark);
    add(part.steps);
    if (guard == 1) out.steps.push_back(progress);
    Step back = step(Kind::jump, 0);
    back.jump = -static_cast<int>(size + 2 * guard + 1);
    out.steps.push_back(back);
    return out;
  }

  std::vector<CharSet> sets_;
  std::size_t slots_ = 0;
};

}  // namespace tenon::detail
