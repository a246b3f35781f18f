// Log-probabilities of the raw softmax: those of the model itself, before any processor, penalty or temperature.
#pragma once
#include <span>
#include <vector>

#include "tenon/core/request.h"

namespace tenon {

/// ln sum exp(x), in the fixed order of sample/strips.h. The logits must be finite.
double log_sum_exp(std::span<const float> logits /* [vocab] */);

/// ln softmax(logits)[id]. log_total: log_sum_exp(logits).
double log_softmax_at(std::span<const float> logits /* [vocab] */, TokenId id, double log_total);
double log_softmax_at(std::span<const float> logits /* [vocab] */, TokenId id);

/// The k likeliest tokens (all, if the vocabulary is smaller), likeliest first, ties in order of their ids.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits /* [vocab] */, int k, double log_total);
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits /* [vocab] */, int k);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/sample/logprobs-inl.h"
#endif
