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

struct Pick {
  TokenId token = -1;
  float logprob = 0;              // of the raw softmax, if options.top_logprobs >= 0
  std::vector<TokenLogprob> top;  // the options.top_logprobs likeliest of the raw softmax
};

// A function of its input alone; what it keeps between rows is memory, not state. One per thread.
class Sampler {
 public:
  // Throws Error, which ends this request and no other, where the logits are not finite or no token is allowed.
  Pick sample(const SampleInput& in);

  // Whether logits are changed before a token is drawn, by anything but a mask.
  static bool processes(const Options& o);

  // Whether best_of_row() knows what to make of such options and of so many of the best.
  static bool draws_from_best(const Options& o, std::size_t vocab, std::size_t most);

  // sample()'s token where only the best processed logits of a row are known, in order of rank: as many as top_k, where
  // that limits ranks, or else as came to hand, of which they are `all` or not, with the sum of all weights of the row.
  // Empty where they do not decide. What in.options says of processing is done already, and in.logits is not read.
  std::optional<TokenId> best_of_row(const SampleInput& in, std::span<const TokenLogit> best, std::size_t vocab,
                                     bool all, double total);

  // What sample() says of a token beside it, where its row's logits are not processed and it is one of the best: at
  // least in.options.top_logprobs of them. log_total: the sum of exp(logit - the largest).
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
