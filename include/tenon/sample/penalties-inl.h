#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/sample/penalties.h"

namespace tenon {

TENON_INLINE std::span<const float> Penalties::apply(const SampleInput& in) {
  const Options& o = in.options;
  const bool repeats = o.repetition_penalty != 1 && !(in.prompt.empty() && in.generated.empty());
  const bool counts = (o.presence_penalty != 0 || o.frequency_penalty != 0) && !in.generated.empty();
  if (in.mask == nullptr && !in.has_processor() && o.logit_bias.empty() && !repeats && !counts) return in.logits;
  row_.assign(in.logits.begin(), in.logits.end());
  if (in.has_processor()) process(in);
  add_bias(o);
  if (repeats) penalise_repetition(in);
  if (counts) penalise_count(in);
  // Nothing above brings a banned token back, so masking last is masking first; and a bias of +inf stays masked.
  if (in.mask != nullptr) mask(in.mask);
  return row_;
}

TENON_INLINE void Penalties::process(const SampleInput& in) {
  (*in.processor)(row_, in.prompt, in.generated);
  for (float& logit : row_) {
    if (std::isnan(logit))
      throw Error(Error::Kind::invalid_request, "logits_processor",
                  "wrote NaN for token " + std::to_string(&logit - row_.data()));
    logit = std::min(logit, std::numeric_limits<float>::max());
  }
}

TENON_INLINE float Penalties::tamed(float logit) {
  return std::isnan(logit) ? kBanned : std::min(logit, std::numeric_limits<float>::max());
}

TENON_INLINE void Penalties::add_bias(const Options& o) {
  for (const auto& [id, bias] : o.logit_bias) {
    if (!in_row(id))
      throw Error(Error::Kind::invalid_request, "logit_bias",
                  "token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(row_.size()));
    at(id) = tamed(at(id) + bias);
  }
}

TENON_INLINE void Penalties::penalise_repetition(const SampleInput& in) {
  count(in.prompt);
  count(in.generated);
  const float penalty = in.options.repetition_penalty;
  for (const TokenId id : seen_) {
    const float logit = at(id);
    at(id) = tamed(logit < 0 ? logit * penalty : logit / penalty);
  }
  forget();
}

TENON_INLINE void Penalties::penalise_count(const SampleInput& in) {
  count(in.generated);
  for (const TokenId id : seen_) {
    const auto times = static_cast<float>(count_[static_cast<std::size_t>(id)]);
    at(id) = tamed(std::fma(-in.options.frequency_penalty, times, at(id)) - in.options.presence_penalty);
  }
  forget();
}

TENON_INLINE void Penalties::mask(const std::uint32_t* allowed /* [(vocab + 31) / 32] */) {
  for (std::size_t first = 0; first < row_.size(); first += 32) {
    const std::size_t here = std::min<std::size_t>(32, row_.size() - first);
    std::uint32_t banned = ~allowed[first / 32];
    if (allowed[first / 32] == 0) {  // most of a mask where little may come
      std::fill_n(row_.begin() + static_cast<std::ptrdiff_t>(first), here, kBanned);
      continue;
    }
    if (here < 32) banned &= (1u << here) - 1;
    for (; banned != 0; banned &= banned - 1)
      row_[first + static_cast<std::size_t>(std::countr_zero(banned))] = kBanned;
  }
}

TENON_INLINE void Penalties::count(std::span<const TokenId> tokens) {
  if (count_.size() < row_.size()) count_.resize(row_.size());
  for (const TokenId id : tokens)
    if (in_row(id) && count_[static_cast<std::size_t>(id)]++ == 0) seen_.push_back(id);
}

TENON_INLINE void Penalties::forget() {
  for (const TokenId id : seen_) count_[static_cast<std::size_t>(id)] = 0;
  seen_.clear();
}

}  // namespace tenon
