// How an answer goes on if it is the one that its request predicts.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/core/draft.h"
#include "tenon/draft/suffix_match.h"

namespace tenon {

/// Guesses what follows the answer so far in the prediction. Where the answer has left the prediction, it is taken up
/// again after the longest end of the answer, of at least 3 tokens, that stands in it.
inline void guess_predicted(std::span<const TokenId> answer, std::span<const TokenId> prediction, DraftWriter& out) {
  constexpr int kFewest = 3, kLongest = 32;
  const bool is_begin =
      answer.size() <= prediction.size() && std::equal(answer.begin(), answer.end(), prediction.begin());
  const std::size_t from = is_begin ? answer.size() : detail::after_longest_end(answer, prediction, kFewest, kLongest);
  if (!is_begin && from == 0) return;
  for (const TokenId token : prediction.subspan(from))
    if (!out.add(token)) return;
}

}  // namespace tenon
