// Prompt lookup (Saxena, 2023): a text that repeats itself goes on as it did before.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/core/concepts.h"

namespace tenon {

/// Looks for the longest end of the text that stood in it before, and guesses what followed there; the latest one if
/// several are equally long. A repetition up to the end of the text goes on with its own guesses. Each draft reads the
/// whole text once.
struct PromptLookup {
  int ngram = 3;     ///< fewest tokens that must agree
  int longest = 32;  ///< agreement beyond these is not looked for

  void draft(const DraftState& state, DraftWriter& out) const {
    const std::span<const TokenId> text = state.text;
    const std::size_t end = text.size(), from = best_end(text);
    if (from == 0) return;
    const std::size_t period = end - from;
    const std::size_t most = static_cast<std::size_t>(std::max(out.room(), 0));
    for (std::size_t i = 0; i < most && out.add(text[from + i % period]); ++i) {
    }
  }

 private:
  // One past the earlier occurrence of the text's end; 0: there is none.
  std::size_t best_end(std::span<const TokenId> text) const {
    const std::size_t end = text.size();
    std::size_t best = 0, length = static_cast<std::size_t>(std::max(ngram, 1)) - 1;
    for (std::size_t at = end - 1; at > length && length < static_cast<std::size_t>(longest); --at) {
      if (text[at - 1] != text[end - 1]) continue;
      std::size_t same = 1;
      while (same < at && same < static_cast<std::size_t>(longest) && text[at - 1 - same] == text[end - 1 - same])
        ++same;
      if (same <= length) continue;
      length = same;
      best = at;
    }
    return best;
  }
};
static_assert(DraftPolicy<PromptLookup>);

}  // namespace tenon
