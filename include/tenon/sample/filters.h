// From processed logits to the tokens that may be drawn: temperature, then top_k, top_p, min_p and typical_p, in the
// order of transformers 5.23 (GenerationMixin._get_logits_processor). Each filter sees the softmax of what the one
// before it left, and each leaves at least one token.
#pragma once
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "tenon/core/exact_math.h"
#include "tenon/core/request.h"
#include "tenon/sample/ranking.h"
#include "tenon/sample/strips.h"

namespace tenon {

// A token that may be drawn.
struct Weighted {
  TokenId id;
  float scaled;  // (logit - maximum) / temperature: never NaN, however small the temperature
  float weight;  // exp(scaled): its probability but for the common divisor
};

// The softmax of a row, undivided. Keeps its buffer between rows.
class ScaledRow {
 public:
  // `row` must outlive the weights asked for; `max` is its maximum, and finite.
  void reset(std::span<const float> row, float max, float temperature) {
    row_ = row;
    max_ = max;
    temperature_ = temperature;
    filled_ = known_ = false;
  }
  // Of a row that continues behind these, and whose total somebody has summed up.
  void reset(std::span<const float> row, float max, float temperature, double total) {
    reset(row, max, temperature);
    total_ = total;
    known_ = true;
  }
  std::size_t size() const { return row_.size(); }

  // The sum of all weights, which are computed on the way: 0.04 ms for 50,257 in a loop, 1.3 ms one at a time (built
  // without -mfma).
  double total() {
    if (!known_) {
      weights_.resize(row_.size());
      total_ = exp_terms(row_, max_, temperature_, weights_.data());
      filled_ = known_ = true;
    }
    return total_;
  }

  Weighted at(TokenId id) const {
    const auto i = static_cast<std::size_t>(id);
    const float scaled = (row_[i] - max_) / temperature_;
    return {id, scaled, filled_ ? weights_[i] : exact::exp(scaled)};
  }

 private:
  std::span<const float> row_;
  float max_ = 0, temperature_ = 1;
  bool filled_ = false, known_ = false;  // the weights, the total
  double total_ = 0;
  std::vector<float> weights_;  // [vocab] once filled_
};

class Filters {
 public:
  static bool any(const Options& o, std::size_t vocab) {
    return limits_rank(o, vocab) || o.top_p < 1 || o.min_p > 0 || o.typical_p < 1;
  }

  // The tokens that pass, in order of (logit descending, id ascending); valid until the next call.
  std::span<const Weighted> keep(ScaledRow& row, RankedRow& ranks, const Options& o) {
    std::size_t limit = row.size();
    if (limits_rank(o, row.size())) {
      limit = static_cast<std::size_t>(o.top_k);
      ranks.sort_first(limit);
    } else if (o.typical_p < 1) {
      row.total();
    }
    // top_p keeps the smallest set whose mass reaches top_p: a token stays while those before it have less.
    // top_k keeps exactly k, of equal logits at the border those of lower id (transformers keeps them all).
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

 private:
  static bool limits_rank(const Options& o, std::size_t vocab) {
    return o.top_k > 0 && static_cast<std::size_t>(o.top_k) < vocab;
  }

  static double mass_of_first(std::size_t limit, ScaledRow& row, RankedRow& ranks) {
    if (limit >= row.size()) return row.total();
    double mass = 0;
    for (std::size_t rank = 0; rank < limit && ranks.has(rank); ++rank)
      mass += static_cast<double>(row.at(ranks.id(rank)).weight);
    return mass;
  }

  // Meister et al., 2023: tokens whose surprise -ln p is nearest to the entropy, until their mass reaches typical_p.
  // The token that reaches it stays, and so does any that is as near in float32 (transformers' TypicalLogitsWarper).
  void keep_typical(float typical_p, double total) {
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

  std::vector<Weighted> kept_;
  std::vector<float> nearness_;  // by rank: minus the distance of the surprise from the entropy
  RankedRow nearest_;            // of nearness_; its ids are ranks
};

}  // namespace tenon
