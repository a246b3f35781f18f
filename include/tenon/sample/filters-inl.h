#pragma once
#include <cmath>
#include <limits>

#include "tenon/core/exact_math.h"
#include "tenon/core/require.h"
#include "tenon/sample/filters.h"
#include "tenon/sample/strips.h"

namespace tenon {

TENON_INLINE void ScaledRow::reset(std::span<const float> row, float max, float temperature) {
  row_ = row;
  max_ = max;
  temperature_ = temperature;
  filled_ = known_ = false;
}

TENON_INLINE void ScaledRow::reset(std::span<const float> row, float max, float temperature, double total) {
  reset(row, max, temperature);
  total_ = total;
  known_ = true;
}

TENON_INLINE double ScaledRow::total() {
  if (!known_) {
    weights_.resize(row_.size());
    total_ = exp_terms(row_, max_, temperature_, weights_.data());
    filled_ = known_ = true;
  }
  return total_;
}

TENON_INLINE Weighted ScaledRow::at(TokenId id) const {
  const auto i = static_cast<std::size_t>(id);
  const float scaled = (row_[i] - max_) / temperature_;
  return {id, scaled, filled_ ? weights_[i] : exact::exp(scaled)};
}

TENON_INLINE bool Filters::any(const Options& o, std::size_t vocab) {
  return limits_rank(o, vocab) || o.top_p < 1 || o.min_p > 0 || o.typical_p < 1;
}

TENON_INLINE std::span<const Weighted> Filters::keep(ScaledRow& row, RankedRow& ranks, const Options& o) {
  std::size_t limit = row.size();
  if (limits_rank(o, row.size())) {
    limit = static_cast<std::size_t>(o.top_k);
    ranks.sort_first(limit);
  } else if (o.typical_p < 1) {
    row.total();
  }
  // top_p keeps the smallest set whose mass reaches top_p: a token stays while the tokens before it have less mass.
  // top_k keeps exactly k tokens. Among equal logits at the border it keeps lower ids; transformers keeps them all.
  // min_p is relative to the likeliest token, whose weight is 1.
  const double enough = o.top_p < 1 ? static_cast<double>(o.top_p) * mass_of_first(limit, row, ranks)
                                    : std::numeric_limits<double>::infinity();
  kept_.clear();
  double mass = 0;
  for (std::size_t rank = 0; rank < limit && mass < enough && ranks.has(rank); ++rank) {
    const Weighted w = row.at(ranks.id(rank));
    if (w.weight < o.min_p) break;
    kept_.push_back(w);
    mass += static_cast<double>(w.weight);
  }
  if (o.typical_p < 1) keep_typical(o.typical_p, mass);
  return kept_;
}

TENON_INLINE bool Filters::limits_rank(const Options& o, std::size_t vocab) {
  return o.top_k > 0 && static_cast<std::size_t>(o.top_k) < vocab;
}

TENON_INLINE double Filters::mass_of_first(std::size_t limit, ScaledRow& row, RankedRow& ranks) {
  if (limit >= row.size()) return row.total();
  double mass = 0;
  for (std::size_t rank = 0; rank < limit && ranks.has(rank); ++rank)
    mass += static_cast<double>(row.at(ranks.id(rank)).weight);
  return mass;
}

TENON_INLINE void Filters::keep_typical(float typical_p, double total) {
  const double log_total = exact::log(total);
  double entropy = 0;
  for (const Weighted& w : kept_)
    if (w.weight > 0)
      entropy = std::fma(static_cast<double>(w.weight) / total, log_total - static_cast<double>(w.scaled), entropy);
  nearness_.clear();
  for (const Weighted& w : kept_)
    nearness_.push_back(-static_cast<float>(std::fabs(log_total - static_cast<double>(w.scaled) - entropy)));
  nearest_.reset(nearness_);
  const double enough = static_cast<double>(typical_p) * total;
  double mass = 0;
  float border = 0;
  for (std::size_t i = 0; mass < enough && nearest_.has(i); ++i) {
    const auto rank = static_cast<std::size_t>(nearest_.id(i));
    border = nearness_[rank];
    mass += static_cast<double>(kept_[rank].weight);
  }
  std::size_t left = 0;
  for (std::size_t rank = 0; rank < kept_.size(); ++rank)
    if (nearness_[rank] >= border) kept_[left++] = kept_[rank];
  kept_.resize(left);
}

}  // namespace tenon
