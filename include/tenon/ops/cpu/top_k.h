// The k largest logits of a row, collected in any order.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tenon/ops/args.h"

namespace tenon::cpu {

/// Keeps the k best of the offered values by (value descending, id ascending).
class TopK {
 public:
  void reset(int count) {
    count_ = static_cast<std::size_t>(count);
    floor_ = -std::numeric_limits<float>::infinity();
    kept_.clear();
    finite_ = true;
  }

  /// values: [n], of ids from first_id on. largest: the largest of them, or NaN if one is not finite.
  void offer(const float* values, int n, TokenId first_id, float largest) {
    if (std::isnan(largest)) return not_finite();
    if (!(largest >= floor_)) return;
    for (int i = 0; i < n; ++i) {
      if (values[i] >= floor_) kept_.push_back({values[i], first_id + i});
    }
    if (kept_.size() >= 2 * count_) drop();
  }
  void not_finite() { finite_ = false; }

  /// Lower bound of the k best so far; -infinity until k values are known.
  float floor() const { return floor_; }

  /// Adds what another collector kept.
  void add(const TopK& other) {
    finite_ = finite_ && other.finite_;
    kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
  }
  /// The best in order of ids; empty if a value was not finite.
  std::vector<TokenLogit> take() {
    if (!finite_) return {};
    drop();
    std::sort(kept_.begin(), kept_.end(), [](const TokenLogit& a, const TokenLogit& b) { return a.id < b.id; });
    return kept_;
  }

  /// Drops all but the k best and raises the floor.
  void drop() {
    if (kept_.size() < count_) return;
    std::nth_element(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count_) - 1, kept_.end(), ranks_before);
    kept_.resize(count_);
    floor_ = kept_.back().logit;
  }

 private:
  std::size_t count_ = 1;
  float floor_ = 0;
  bool finite_ = true;
  std::vector<TokenLogit> kept_;
};

}  // namespace tenon::cpu
