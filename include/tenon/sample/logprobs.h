// Log-probabilities of the unprocessed softmax: what the model itself says, before any penalty or temperature.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tenon/core/exact_math.h"
#include "tenon/core/request.h"
#include "tenon/sample/ranking.h"
#include "tenon/sample/strips.h"

namespace tenon {

// ln sum exp(x), in the fixed order of sample/strips.h. The logits must be finite.
inline double log_sum_exp(std::span<const float> logits /* [vocab] */) {
  const float max = max_of(logits);
  return static_cast<double>(max) + exact::log(sum_exp(logits, max));
}

// ln softmax(logits)[id], given log_sum_exp(logits).
inline double log_softmax_at(std::span<const float> logits /* [vocab] */, TokenId id, double log_total) {
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - log_total;
}
inline double log_softmax_at(std::span<const float> logits /* [vocab] */, TokenId id) {
  return log_softmax_at(logits, id, log_sum_exp(logits));
}

// The k likeliest tokens (all, if the vocabulary is smaller), likeliest first, ties in order of their ids.
inline std::vector<TokenLogprob> top_logprobs(std::span<const float> logits /* [vocab] */, int k, double log_total) {
  std::vector<TokenLogprob> top;
  if (k <= 0) return top;
  RankedRow ranks;
  ranks.reset(logits);
  ranks.sort_first(static_cast<std::size_t>(k));
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(k) && ranks.has(rank); ++rank)
    top.push_back({ranks.id(rank), static_cast<float>(log_softmax_at(logits, ranks.id(rank), log_total))});
  return top;
}
inline std::vector<TokenLogprob> top_logprobs(std::span<const float> logits /* [vocab] */, int k) {
  return top_logprobs(logits, k, log_sum_exp(logits));
}

}  // namespace tenon
