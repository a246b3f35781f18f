#pragma once
#include <cstddef>

#include "tenon/core/exact_math.h"
#include "tenon/core/require.h"
#include "tenon/sample/logprobs.h"
#include "tenon/sample/ranking.h"
#include "tenon/sample/strips.h"

namespace tenon {

TENON_INLINE double log_sum_exp(std::span<const float> logits /* [vocab] */) {
  const float max = max_of(logits);
  return static_cast<double>(max) + exact::log(sum_exp(logits, max));
}

TENON_INLINE double log_softmax_at(std::span<const float> logits /* [vocab] */, TokenId id, double log_total) {
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - log_total;
}

TENON_INLINE double log_softmax_at(std::span<const float> logits /* [vocab] */, TokenId id) {
  return log_softmax_at(logits, id, log_sum_exp(logits));
}

TENON_INLINE std::vector<TokenLogprob> top_logprobs(std::span<const float> logits /* [vocab] */, int k,
                                                    double log_total) {
  std::vector<TokenLogprob> top;
  if (k <= 0) return top;
  RankedRow ranks;
  ranks.reset(logits);
  ranks.sort_first(static_cast<std::size_t>(k));
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(k) && ranks.has(rank); ++rank)
    top.push_back({ranks.id(rank), static_cast<float>(log_softmax_at(logits, ranks.id(rank), log_total))});
  return top;
}

TENON_INLINE std::vector<TokenLogprob> top_logprobs(std::span<const float> logits /* [vocab] */, int k) {
  return top_logprobs(logits, k, log_sum_exp(logits));
}

}  // namespace tenon
