// Regular expressions of pre-tokenizers, with the semantics of Oniguruma in Hugging Face's tokenizers: leftmost match,
// first alternative that matches, backtracking.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/tokenizer/char_set.h"
#include "tenon/tokenizer/text_span.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// One step of a compiled expression. Jumps are relative to the step.
struct RegexStep {
  enum class Kind : std::uint8_t {
    repeat,    // `least` to `most` characters of sets[set], greedy
    split,     // tries the next step, then `jump`; if `lazy`, the other way round
    jump,      // continues at `jump`
    look,      // lookahead: the steps up to `jump` must match here or, if `negated`, must not
    behind,    // lookbehind: like look, but the steps start `least` characters before, which is their length
    atomic,    // takes the first match of the steps up to `jump`, and never another one
    mark,      // notes the position in the slot `set`; the last note stays after a failure, which costs one empty turn
    progress,  // continues at `jump` if the position is that in the slot `set`: a loop ends after an empty turn
    check,     // `place` must hold here or, if `negated`, must not
    match,
  };
  enum class Place : std::uint8_t { line_begin, line_end, text_begin, text_end, last_line_end, word_boundary };
  Kind kind = Kind::match;
  Place place = Place::line_end;
  bool negated = false;
  bool possessive = false;  // repeat: possessive, gives no character back
  bool lazy = false;
  int set = 0, jump = 0;
  std::size_t least = 1, most = 1;
};

// A compiled expression and its matcher.
class Regex {
 public:
  static constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

  Regex() = default;
  // `slots`: number of slots of mark steps.
  Regex(std::vector<RegexStep> steps, std::vector<CharSet> sets, std::size_t slots)
      : steps_(std::move(steps)), sets_(std::move(sets)), slots_(slots) {
    for (CharSet& set : sets_) set.finish();
    word_.add(*unicode_set("word"));
    word_.finish();
  }

  // A choice to return to after a failure.
  struct Choice {
    std::size_t step, at;
    std::size_t least;  // repeat: end of the fewest characters it may keep; kUnbounded: a split
  };
  // Budget of steps for one text: kBaseSteps, and kStepsPerByte for each byte that an expression searches. A step is a
  // step of the expression, or one character read and looked up in one list. The pre-tokenizers of
  // tests/tokenizer/data take at most 23 per byte. Groups of three digits, counted from the end of a number, take
  // quadratic time: 7,000 digits are within the budget.
  static constexpr std::size_t kBaseSteps = 100'000'000, kStepsPerByte = 64;
  // Most choices that are kept at once, 24 bytes each.
  static constexpr std::size_t kBaseChoices = 1 << 20, kChoicesPerByte = 8;

  // State of the matcher for one text. It is shared by all searches in the text, which need one allocation and one
  // budget.
  struct Search {
    std::vector<Choice> choices = {};
    std::vector<std::size_t> slots = {};
    std::size_t steps_left = kBaseSteps, most_choices = kBaseChoices;

    // Adds the budget for a search through `bytes` more bytes.
    void allow(std::size_t bytes) noexcept {
      steps_left += kStepsPerByte * bytes;
      most_choices = std::max(most_choices, kBaseChoices + kChoicesPerByte * bytes);
    }
    void spend(std::size_t steps) {
      if (steps > steps_left) refuse();
      steps_left -= steps;
    }
    void keep(const Choice& choice) {
      if (choices.size() == most_choices) refuse();
      choices.push_back(choice);
    }
    [[noreturn]] static void refuse() {
      throw Error(Error::Kind::capacity, "text",
                  "the tokenizer's expression takes too many steps: shorten the text or its repeated characters, or "
                  "change the expression in tokenizer.json");
    }
  };

  // The leftmost match at or after text[from], which may be empty; text is valid UTF-8. Expressions can take quadratic
  // or exponential time: error capacity if the budget of `search` is used up.
  std::optional<TextSpan> find(std::string_view text, std::size_t from, Search& search) const {
    search.slots.resize(std::max(search.slots.size(), slots_));
    while (from <= text.size()) {
      search.choices.clear();
      if (const auto end = match_at(text, from, 0, search)) return TextSpan{from, *end};
      from = next_start(text, from, search);
    }
    return std::nullopt;
  }

 private:
  static std::size_t next(std::string_view text, std::size_t at) noexcept {
    return at == text.size() ? at + 1 : at + static_cast<std::size_t>(decode_utf8(text, at).length);
  }

  // Next start after a failure at `from`. An expression that starts with \s+ fails everywhere in the same run, since a
  // later start has fewer ends to try.
  std::size_t next_start(std::string_view text, std::size_t from, Search& search) const {
    const RegexStep& first = steps_.front();
    if (first.kind != RegexStep::Kind::repeat || first.most != kUnbounded || first.possessive) return next(text, from);
    return std::max(run_end(first, text, from, search), next(text, from));
  }

  std::size_t run_end(const RegexStep& step, std::string_view text, std::size_t at, Search& search) const {
    const CharSet& set = sets_[static_cast<std::size_t>(step.set)];
    std::size_t count = 0;
    for (; count < step.most && at < text.size(); ++count) {
      const CodePoint point = decode_utf8(text, at);
      if (!set.contains(point.value)) break;
      at += static_cast<std::size_t>(point.length);
    }
    search.spend(count * set.cost());
    return at;
  }

  // End of the match that starts at text[at] with step `step`.
  std::optional<std::size_t> match_at(std::string_view text, std::size_t at, std::size_t step, Search& search) const {
    const std::size_t bottom = search.choices.size();
    for (;;) {
      search.spend(1);
      const RegexStep& each = steps_[step];
      if (each.kind == RegexStep::Kind::match) {
        search.choices.resize(bottom);
        return at;
      }
      if (!take(each, text, at, step, search) && !backtrack(text, at, step, search.choices, bottom))
        return std::nullopt;
    }
  }

  // Takes one step: moves `at` and `step`. Returns false where it does not match.
  bool take(const RegexStep& each, std::string_view text, std::size_t& at, std::size_t& step, Search& search) const {
    const std::size_t target = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(step) + each.jump);
    const auto slot = static_cast<std::size_t>(each.set);
    switch (each.kind) {
      case RegexStep::Kind::repeat:
        return repeat(each, text, at, step, search);
      case RegexStep::Kind::split:
        search.keep({each.lazy ? step + 1 : target, at, kUnbounded});
        step = each.lazy ? target : step + 1;
        return true;
      case RegexStep::Kind::jump:
        step = target;
        return true;
      case RegexStep::Kind::look:
      case RegexStep::Kind::behind: {
        const auto begin = each.kind == RegexStep::Kind::look ? at : back(text, at, each.least, search);
        const bool found = begin && match_at(text, *begin, step + 1, search);
        step = target;
        return found != each.negated;
      }
      case RegexStep::Kind::atomic: {
        const auto end = match_at(text, at, step + 1, search);
        if (end) at = *end, step = target;
        return end.has_value();
      }
      case RegexStep::Kind::mark:
        search.slots[slot] = at;
        break;
      case RegexStep::Kind::progress:
        step = at == search.slots[slot] ? target : step + 1;
        return true;
      default:
        ++step;
        return holds(each.place, text, at) != each.negated;
    }
    ++step;
    return true;
  }

  // The position `count` characters before text[at], if there are as many.
  static std::optional<std::size_t> back(std::string_view text, std::size_t at, std::size_t count, Search& search) {
    search.spend(count);
    for (; count > 0; --count) {
      if (at == 0) return std::nullopt;
      at = previous_start(text, at);
    }
    return at;
  }

  bool holds(RegexStep::Place place, std::string_view text, std::size_t at) const noexcept {
    const bool end = at == text.size();
    switch (place) {
      case RegexStep::Place::line_begin:  // not after a newline at the end, as in Oniguruma
        return at == 0 || (text[at - 1] == '\n' && !end);
      case RegexStep::Place::line_end:
        return end || text[at] == '\n';
      case RegexStep::Place::text_begin:
        return at == 0;
      case RegexStep::Place::text_end:
        return end;
      case RegexStep::Place::last_line_end:
        return end || (at + 1 == text.size() && text[at] == '\n');
      default:
        break;
    }
    const bool before = at > 0 && word_.contains(decode_utf8(text, previous_start(text, at)).value);
    return before != (!end && word_.contains(decode_utf8(text, at).value));
  }

  bool repeat(const RegexStep& each, std::string_view text, std::size_t& at, std::size_t& step, Search& search) const {
    const CharSet& set = sets_[static_cast<std::size_t>(each.set)];
    std::size_t least = each.least == 0 ? at : kUnbounded;  // end of the fewest characters
    std::size_t end = at, count = 0;
    while (count < each.most && end < text.size()) {
      const CodePoint point = decode_utf8(text, end);
      if (!set.contains(point.value)) break;
      end += static_cast<std::size_t>(point.length);
      if (++count == each.least) least = end;
    }
    search.spend(count * set.cost());
    if (least == kUnbounded) return false;
    ++step;
    if (end > least && !each.possessive) search.keep({step, end, least});
    at = end;
    return true;
  }

  // Backtracks to the last choice above `bottom`. Returns false where there is none.
  static bool backtrack(std::string_view text, std::size_t& at, std::size_t& step, std::vector<Choice>& choices,
                        std::size_t bottom) {
    if (choices.size() == bottom) return false;
    Choice& last = choices.back();
    step = last.step;
    if (last.least != kUnbounded) last.at = previous_start(text, last.at);
    at = last.at;
    if (last.least == kUnbounded || last.at <= last.least) choices.pop_back();
    return true;
  }

  std::vector<RegexStep> steps_{RegexStep{}};
  std::vector<CharSet> sets_;
  CharSet word_;  // \w
  std::size_t slots_ = 0;
};

}  // namespace tenon::detail
