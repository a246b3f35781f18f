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
    split,     // tries the next step, then `jump`
    jump,      // continues at `jump`
    look,      // lookahead: the steps up to `jump` must match here or, if `negated`, must not
    line_end,  // $: the end of the text, or before a newline
    match,
  };
  Kind kind = Kind::match;
  bool negated = false;
  bool possessive = false;  // repeat: possessive, gives no character back
  int set = 0, jump = 0;
  std::size_t least = 1, most = 1;
};

// A compiled expression and its matcher.
class Regex {
 public:
  static constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

  Regex() = default;
  Regex(std::vector<RegexStep> steps, std::vector<CharSet> sets) : steps_(std::move(steps)), sets_(std::move(sets)) {
    for (CharSet& set : sets_) set.finish();
  }

  // A choice to return to after a failure.
  struct Choice {
    std::size_t step, at;
    std::size_t least;  // repeat: end of the fewest characters it may keep; kUnbounded: a split
  };
  // Budget of steps for one text: kBaseSteps, and kStepsPerByte for each byte that an expression searches. A step is a
  // step of the expression or one character read. The pre-tokenizers of tests/tokenizer/data take at most 23 per byte.
  static constexpr std::size_t kBaseSteps = 10'000'000, kStepsPerByte = 64;

  // State of the matcher for one text. It is shared by all searches in the text, which need one allocation and one
  // budget.
  struct Search {
    std::vector<Choice> choices = {};
    std::size_t steps_left = kBaseSteps;

    // Adds the budget for a search through `bytes` more bytes.
    void allow(std::size_t bytes) noexcept { steps_left += kStepsPerByte * bytes; }
    void spend(std::size_t steps) {
      if (steps > steps_left)
        throw Error(Error::Kind::capacity, "text",
                    "the pre-tokenizer's expression takes too many steps: shorten the text or its repeated "
                    "characters, or change the Split in tokenizer.json");
      steps_left -= steps;
    }
  };

  // The leftmost match at or after text[from]; text is valid UTF-8. Expressions of known tokenizers take linear time.
  // Others can take quadratic or exponential time: error capacity if the budget of `search` is used up.
  std::optional<TextSpan> find(std::string_view text, std::size_t from, Search& search) const {
    while (from < text.size()) {
      search.choices.clear();
      if (const auto end = match_at(text, from, 0, search)) return TextSpan{from, *end};
      from = next_start(text, from, search);
    }
    return std::nullopt;
  }

 private:
  static std::size_t next(std::string_view text, std::size_t at) noexcept {
    return at + static_cast<std::size_t>(decode_utf8(text, at).length);
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
    search.spend(count);
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
    switch (each.kind) {
      case RegexStep::Kind::repeat:
        return repeat(each, text, at, step, search);
      case RegexStep::Kind::split:
        search.choices.push_back({target, at, kUnbounded});
        ++step;
        return true;
      case RegexStep::Kind::jump:
        step = target;
        return true;
      case RegexStep::Kind::look: {
        const bool found = match_at(text, at, step + 1, search).has_value();
        step = target;
        return found != each.negated;
      }
      default:
        ++step;
        return at == text.size() || text[at] == '\n';
    }
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
    search.spend(count);
    if (least == kUnbounded) return false;
    ++step;
    if (end > least && !each.possessive) search.choices.push_back({step, end, least});
    at = end;
    return true;
  }

  // Backtracks to the last choice above `bottom`. Returns false where there is none.
  static bool backtrack(std::string_view text, std::size_t& at, std::size_t& step, std::vector<Choice>& choices,
                        std::size_t bottom) {
    if (choices.size() == bottom) return false;
    Choice& last = choices.back();
    step = last.step;
    if (last.least == kUnbounded) {
      at = last.at;
      choices.pop_back();
      return true;
    }
    do --last.at;
    while ((static_cast<unsigned char>(text[last.at]) & 0xC0) == 0x80);
    at = last.at;
    if (last.at <= last.least) choices.pop_back();
    return true;
  }

  std::vector<RegexStep> steps_{RegexStep{}};
  std::vector<CharSet> sets_;
};

}  // namespace tenon::detail
