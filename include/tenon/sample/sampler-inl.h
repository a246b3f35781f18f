#pragma once
#include <algorithm>
#include <limits>
#include <string>

#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/core/require.h"
#include "tenon/sample/logprobs.h"
#include "tenon/sample/philox.h"
#include "tenon/sample/sampler.h"
#include "tenon/sample/strips.h"

namespace tenon {

TENON_INLINE Pick Sampler::sample(const SampleInput& in) {
  if (in.logits.empty() || !all_finite(in.logits))
    throw Error(Error::Kind::internal, "logits",
                "not finite before position " + std::to_string(in.position) + ": no token can be drawn from them");
  const std::span<const float> row = penalties_.apply(in);
  const float max = max_of(row);
  if (max == -std::numeric_limits<float>::infinity())
    throw Error(Error::Kind::invalid_request, "logits",
                "no token is allowed at position " + std::to_string(in.position) + " by the mask" +
                    (in.has_processor() ? ", the logits processor" : "") + " and logit_bias");
  Pick pick;
  pick.token = in.options.temperature == 0 ? static_cast<TokenId>(first_equal(row, max)) : draw(in, row, max);
  if (in.options.top_logprobs >= 0) {
    const double log_total = log_sum_exp(in.logits);
    pick.logprob = static_cast<float>(log_softmax_at(in.logits, pick.token, log_total));
    pick.top = top_logprobs(in.logits, in.options.top_logprobs, log_total);
  }
  return pick;
}

TENON_INLINE bool Sampler::processes(const Options& o) {
  return o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0 || !o.logit_bias.empty();
}

TENON_INLINE bool Sampler::draws_from_best(const Options& o, std::size_t vocab, std::size_t most) {
  if (o.temperature == 0) return true;
  const bool all_ranks = o.top_k == 0 || static_cast<std::size_t>(o.top_k) >= vocab;
  return all_ranks ? o.typical_p >= 1 : static_cast<std::size_t>(o.top_k) <= most;
}

TENON_INLINE std::optional<TokenId> Sampler::best_of_row(const SampleInput& in, std::span<const TokenLogit> best,
                                                         std::size_t vocab, bool all, double total) {
  const Options& o = in.options;
  if (best.empty()) return {};
  if (o.temperature == 0) return best.front().id;
  if (o.top_k > 0) best = best.first(std::min(best.size(), static_cast<std::size_t>(o.top_k)));
  const auto u = static_cast<double>(uniform(o.seed, in.position));
  few_.clear();
  for (const TokenLogit& each : best) few_.push_back(each.logit);
  const bool limited = o.top_k > 0 && static_cast<std::size_t>(o.top_k) < vocab;
  // Filters are to see a limit of ranks, and candidates no more than there are.
  if (limited) few_.resize(static_cast<std::size_t>(o.top_k) + 1, -std::numeric_limits<float>::infinity());
  ranks_.reset(few_);
  if (limited)
    scaled_.reset(few_, few_.front(), o.temperature);
  else
    scaled_.reset(few_, few_.front(), o.temperature, total);
  std::optional<TokenId> rank;
  if (limited || Filters::any(o, vocab)) {
    const std::span<const Weighted> kept = filters_.keep(scaled_, ranks_, o);
    if (limited || all || kept.size() < few_.size()) rank = draw_kept(u, kept);
  } else {
    rank = draw_any(u);
    if (!rank && all) rank = 0;
  }
  if (!rank) return {};
  return best[static_cast<std::size_t>(*rank)].id;
}

TENON_INLINE void Sampler::add_logprobs(const SampleInput& in, std::span<const TokenLogit> best, double log_total,
                                        Pick& pick) {
  const double of_all = static_cast<double>(best.front().logit) + exact::log(log_total);
  const auto logprob = [&](const TokenLogit& each) {
    return static_cast<float>(static_cast<double>(each.logit) - of_all);
  };
  pick.logprob =
      logprob(*std::find_if(best.begin(), best.end(), [&](const TokenLogit& each) { return each.id == pick.token; }));
  for (const TokenLogit& each : best.first(std::min(best.size(), static_cast<std::size_t>(in.options.top_logprobs)))) {
    pick.top.push_back({each.id, logprob(each)});
  }
}

TENON_INLINE TokenId Sampler::draw(const SampleInput& in, std::span<const float> row, float max) {
  const auto u = static_cast<double>(uniform(in.options.seed, in.position));
  ranks_.reset(row);
  scaled_.reset(row, max, in.options.temperature);
  if (Filters::any(in.options, row.size())) return draw_kept(u, filters_.keep(scaled_, ranks_, in.options));
  // Not empty: sums in two orders differ by 1e-11 at most, and u stays 6e-8 below 1.
  return draw_any(u).value_or(ranks_.id(0));
}

TENON_INLINE TokenId Sampler::draw_kept(double u, std::span<const Weighted> kept) {
  double total = 0, mass = 0;
  for (const Weighted& w : kept) total += static_cast<double>(w.weight);
  for (const Weighted& w : kept) {
    mass += static_cast<double>(w.weight);
    if (mass > u * total) return w.id;
  }
  return kept.front().id;  // not reached: u <= 1 - 2^-24, and the last sum is the total
}

TENON_INLINE std::optional<TokenId> Sampler::draw_any(double u) {
  const double target = u * scaled_.total();
  double mass = 0;
  for (std::size_t rank = 0; ranks_.has(rank); ++rank) {
    mass += static_cast<double>(scaled_.at(ranks_.id(rank)).weight);
    if (mass > target) return ranks_.id(rank);
  }
  return {};
}

}  // namespace tenon
