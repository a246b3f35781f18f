// Prompt lookup (Saxena, 2023): a text that repeats itself goes on as it did before.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/draft/suffix_match.h"

namespace tenon {

/// Looks for the longest end of the text that stood in it before, and guesses what followed there; the latest one if
/// several are equally long. A repetition up to the end of the text goes on with its own guesses. Each draft reads the
/// whole text once.
struct PromptLookup {
  int ngram = 2;     ///< fewest tokens that must agree
  int longest = 32;  ///< agreement beyond these is not looked for

  void draft(const DraftState& state, DraftWriter& out) const {
    const std::span<const TokenId> text = state.text;
    const std::size_t end = text.size();
    const std::size_t from = detail::after_longest_end(text, text.first(end - 1), ngram, longest);
    if (from == 0) return;
    const std::size_t period = end - from;
    const std::size_t most = static_cast<std::size_t>(std::max(out.room(), 0));
    for (std::size_t i = 0; i < most && out.add(text[from + i % period]); ++i) {
    }
  }
};
static_assert(DraftPolicy<PromptLookup>);

}  // namespace tenon
