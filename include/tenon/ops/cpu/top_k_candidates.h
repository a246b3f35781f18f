// Vocabulary rows whose logit, known approximately, may be among the k largest of a hidden row.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tenon/core/panels.h"
#include "tenon/ops/cpu/quantised_rows.h"
#include "tenon/ops/cpu/top_k.h"

namespace tenon::cpu {

/// Errors and lengths of some matrix rows, and the largest of each.
struct PieceBounds {
  const float *errors, *lengths;  ///< [n]
  float error = 0, length = 0;

  PieceBounds(const Int8Approximation& weight, int first_row, int n)
      : errors(weight.errors + first_row), lengths(weight.lengths + first_row) {
    for (int i = 0; i < n; ++i) {
      error = std::max(error, errors[i]);
      length = std::max(length, lengths[i]);
    }
  }
};

/// Collects candidates for the k largest logits from approximate logits. Gives up if there are very many, if an
/// approximate logit is not finite, or if exact sums might overflow: the exact pass then decides.
class TopKCandidates {
 public:
  void reset(int count) {
    least_.reset(count);
    kept_.clear();
    gave_up_ = false;
  }

  /// approximate: [n], of ids from first_id on. largest: the largest of them, or NaN if one is not finite.
  void offer(const float* approximate, int n, TokenId first_id, float largest, const PieceBounds& piece,
             const RowBounds& row) {
    if (std::isnan(largest) || !(row.sum < kMostSum) || !std::isfinite(row.rounding_error)) gave_up_ = true;
    if (gave_up_) return;
    if (most(largest, row.error(piece.error, piece.length)) < least_.floor()) return;  // no other of them can be larger
    for (int i = 0; i < n; ++i) {
      const float error = row.error(piece.errors[i], piece.lengths[i]);
      const float at_most = most(approximate[i], error), at_least = approximate[i] - error - slack(approximate[i]);
      if (at_most < least_.floor()) continue;
      kept_.push_back({at_most, first_id + i});
      least_.offer(&at_least, 1, first_id + i, at_least);
    }
    if (kept_.size() > kMostCandidates) drop();
    gave_up_ = kept_.size() > kMostCandidates;
  }
  void give_up() { gave_up_ = true; }
  bool gave_up() const { return gave_up_; }

  void add(const TopKCandidates& other) {
    gave_up_ = gave_up_ || other.gave_up_;
    least_.add(other.least_);
    kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
  }

  /// The candidates with upper bounds of their logits, largest first.
  const std::vector<TokenLogit>& take() {
    least_.drop();
    drop();
    std::sort(kept_.begin(), kept_.end(), ranks_before);
    return kept_;
  }

 private:
  // Per row: bounds memory, far above the number that may be read exactly.
  static constexpr std::size_t kMostCandidates = 4096;
  // Bound on |x|_1. Codes up to 2^16 and zero points are summed before they are scaled, and 2^17 times this bound is
  // far from overflow.
  static constexpr float kMostSum = 0x1p100f;

  static float slack(float approximate) { return std::fabs(approximate) * 0x1p-20f; }
  // A sum of n weights that overflows has an error bound of (2 n + 64) 2^-24 2^128 or more, from roundings alone. Such
  // a row is always a candidate.
  static float most(float approximate, float error) {
    return error < 0x1p108f ? approximate + error + slack(approximate) : std::numeric_limits<float>::infinity();
  }

  void drop() {
    std::erase_if(kept_, [&](const TokenLogit& each) { return each.logit < least_.floor(); });
  }

  TopK least_;                    // lower bounds of the logits
  std::vector<TokenLogit> kept_;  // upper bounds of the logits
  bool gave_up_ = false;
};

}  // namespace tenon::cpu
