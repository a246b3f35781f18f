// One row of logits in, one token out. Order: mask, logit_bias, repetition_penalty, presence and frequency penalties
// (penalties.h); then the likeliest token if the temperature is 0, else temperature, top_k, top_p, min_p, typical_p
// (filters.h) and a draw.
#pragma once
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/core/request.h"
#include "tenon/sample/filters.h"
#include "tenon/sample/logprobs.h"
#include "tenon/sample/penalties.h"
#include "tenon/sample/philox.h"
#include "tenon/sample/ranking.h"
#include "tenon/sample/strips.h"

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
  Pick sample(const SampleInput& in) {
    if (in.logits.empty() || !all_finite(in.logits))
      throw Error(Error::Kind::internal, "logits",
                  "not finite before position " + std::to_string(in.position) + ": no token can be drawn from them");
    const std::span<const float> row = penalties_.apply(in);
    const float max = max_of(row);
    if (max == -std::numeric_limits<float>::infinity())
      throw Error(Error::Kind::invalid_request, "logits",
                  "no token is allowed at position " + std::to_string(in.position) + " by the mask and logit_bias");
    Pick pick;
    pick.token = in.options.temperature == 0 ? static_cast<TokenId>(first_equal(row, max)) : draw(in, row, max);
    if (in.options.top_logprobs >= 0) {
      const double log_total = log_sum_exp(in.logits);
      pick.logprob = static_cast<float>(log_softmax_at(in.logits, pick.token, log_total));
      pick.top = top_logprobs(in.logits, in.options.top_logprobs, log_total);
    }
    return pick;
  }

 private:
  TokenId draw(const SampleInput& in, std::span<const float> row, float max) {
    const auto u = static_cast<double>(uniform(in.options.seed, in.position));
    ranks_.reset(row);
    scaled_.reset(row, max, in.options.temperature);
    if (!Filters::any(in.options, row.size())) return draw_any(u);
    const std::span<const Weighted> kept = filters_.keep(scaled_, ranks_, in.options);
    double total = 0, mass = 0;
    for (const Weighted& w : kept) total += static_cast<double>(w.weight);
    for (const Weighted& w : kept) {
      mass += static_cast<double>(w.weight);
      if (mass > u * total) return w.id;
    }
    return kept.front().id;  // not reached: u <= 1 - 2^-24, and the last sum is the total
  }

  // Walks the whole vocabulary in the order of the filters, and sorts no more of it than the walk needs.
  TokenId draw_any(double u) {
    const double target = u * scaled_.total();
    double mass = 0;
    for (std::size_t rank = 0; ranks_.has(rank); ++rank) {
      mass += static_cast<double>(scaled_.at(ranks_.id(rank)).weight);
      if (mass > target) return ranks_.id(rank);
    }
    return ranks_.id(0);  // not reached: sums in two orders differ by 1e-11 at most, and u stays 6e-8 below 1
  }

  Penalties penalties_;
  ScaledRow scaled_;
  RankedRow ranks_;
  Filters filters_;
};

}  // namespace tenon
