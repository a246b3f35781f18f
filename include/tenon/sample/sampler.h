// One row of logits in, one token out. Order: the user's processor, logit_bias, repetition penalty, presence and
// frequency penalties, mask (penalties.h). Then the likeliest token at temperature 0; else temperature, top_k, top_p,
// min_p, typical_p (filters.h) and a draw.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/core/views.h"
#include "tenon/sample/filters.h"
#include "tenon/sample/penalties.h"
#include "tenon/sample/ranking.h"

namespace tenon {

/// A picked token.
struct Pick {
  TokenId token = -1;
  float logprob = 0;              ///< of the raw softmax, if options.top_logprobs >= 0
  std::vector<TokenLogprob> top;  ///< the options.top_logprobs likeliest of the raw softmax
};

/// A pure function of its input. It keeps buffers between rows: one per thread.
class Sampler {
 public:
  /// Error where the logits are not finite or no token is allowed, and what the user's processor throws.
  Pick sample(const SampleInput& in);

  /// Whether the options change logits before a token is drawn.
  static bool processes(const Options& o);

  /// Whether best_of_row() can pick with these options from the `most` best logits.
  static bool draws_from_best(const Options& o, std::size_t vocab, std::size_t most);

  /// The token that sample() picks, from the best processed logits of a row, in order of rank. Where top_k limits
  /// ranks, `best` holds top_k of them. Else it holds some, or `all`, and `total` is the sum of all weights of the row.
  /// Empty where they do not decide. in.logits is not read, and in.options' penalties and biases were applied before.
  std::optional<TokenId> best_of_row(const SampleInput& in, std::span<const TokenLogit> best, std::size_t vocab,
                                     bool all, double total);

  /// Adds the log-probabilities that sample() gives, on a row whose logits are not processed. best: the picked token
  /// and at least the in.options.top_logprobs best. log_total: the sum of exp(logit - the largest).
  static void add_logprobs(const SampleInput& in, std::span<const TokenLogit> best, double log_total, Pick& pick);

 private:
  TokenId draw(const SampleInput& in, std::span<const float> row, float max);

  static TokenId draw_kept(double u, std::span<const Weighted> kept);

  // Walks the candidates in the order of the filters, and sorts no more of them than the walk needs.
  std::optional<TokenId> draw_any(double u);

  Penalties penalties_;
  ScaledRow scaled_;
  RankedRow ranks_;
  Filters filters_;
  std::vector<float> few_;  // of best_of_row()
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/sample/sampler-inl.h"
#endif
