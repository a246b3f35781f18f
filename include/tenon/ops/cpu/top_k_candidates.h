// Rows of a head whose logits, known roughly, may be among the best of a row of hidden states.
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

// The errors and lengths of some rows of a matrix, and the largest of each.
struct PieceBounds {
  const float *errors, *lengths;  // [n]
  float error = 0, length = 0;

  PieceBounds(const Int8Approximation& weight, int first_row, int n)
      : errors(weight.errors + first_row), lengths(weight.lengths + first_row) {
    for (int i = 0; i < n; ++i) {
      error = std::max(error, errors[i]);
      length = std::max(length, lengths[i]);
    }
  }
};

// Rows of the matrix that may be among the best `count`, kept while rough logits come by. Gives up where there are very
// many, where what is rough is not finite, or where exact sums might overflow on the way to what is: the exact pass
// then decides.
class TopKCandidates {
 public:
  void reset(int count) {
    least_.reset(count);
    kept_.clear();
    gave_up_ = false;
  }

  // rough: [n], of ids first_id..; largest: of them, NaN where one is not finite.
  void offer(const float* approximate, int n, TokenId first_id, float largest, const PieceBounds& piece,
             const RowBounds& row) {
    if (std::isnan(largest) || !(row.sum < kMostSum) || !std::isfinite(row.rounding_error)) gave_up_ = true;
    if (gave_up_) return;
    if (most(largest, row.error(piece.error, piece.length)) < least_.floor()) return;  // no other of them can be more
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

  // With what each logit is at most, largest first.
  const std::vector<TokenLogit>& take() {
    least_.drop();
    drop();
    std::sort(kept_.begin(), kept_.end(), ranks_before);
    return kept_;
  }

 private:
  // Of one row: bounds memory, far above what may be read exactly.
  static constexpr std::size_t kMostCandidates = 4096;
  // Of |x|: codes, at most 2^16, and zero points are summed before they are scaled, and 2^17 times this is far from
  // overflow.
  static constexpr float kMostSum = 0x1p100f;

  static float slack(float approximate) { return std::fabs(approximate) * 0x1p-20f; }
  // A sum of n weights that overflows has an error of (2 n + 64) 2^-24 2^128 and more, for roundings alone: such a row
  // is looked at.
  static float most(float approximate, float error) {
    return error < 0x1p108f ? approximate + error + slack(approximate) : std::numeric_limits<float>::infinity();
  }

  void drop() {
    std::erase_if(kept_, [&](const TokenLogit& each) { return each.logit < least_.floor(); });
  }

  TopK least_;                    // of what the logits are at least
  std::vector<TokenLogit> kept_;  // what they are at most
  bool gave_up_ = false;
};

}  // namespace tenon::cpu
