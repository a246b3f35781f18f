// The largest logits of a row, kept while they come by.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tenon/core/panels.h"
#include "tenon/ops/args.h"

namespace tenon::cpu {

inline constexpr int kBestRows = 128;  // rows of hidden states that are walked together
// At most so many where a rough copy of the head is walked first: 50,257 x 768 on two cores of an EPYC 9004, float32
// alone and with the int8 pass: 2.7 and 0.9 ms of 1 row, 5.6 and 3.7 of 4, 8.2 and 3.9 of 8; beyond, arithmetic decides
// and not bytes.
inline constexpr int kRoughRows = 8;

// The best of the values that were offered, in whatever order, by (value descending, id ascending).
class BestLogits {
 public:
  void reset(int count) {
    count_ = static_cast<std::size_t>(count);
    floor_ = -std::numeric_limits<float>::infinity();
    kept_.clear();
    finite_ = true;
  }

  // values: [n], of ids first_id.. ; `largest` is the largest of them, NaN where one is not finite.
  void offer(const float* values, int n, TokenId first_id, float largest) {
    if (std::isnan(largest)) return not_finite();
    if (!(largest >= floor_)) return;
    for (int i = 0; i < n; ++i) {
      if (values[i] >= floor_) kept_.push_back({values[i], first_id + i});
    }
    if (kept_.size() >= 2 * count_) drop();
  }
  void not_finite() { finite_ = false; }

  // What a value must reach to be among the best so far, once there are enough of them.
  float floor() const { return floor_; }

  void add(const BestLogits& other) {
    finite_ = finite_ && other.finite_;
    kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
  }
  std::vector<TokenLogit> take() {
    if (!finite_) return {};
    drop();
    std::sort(kept_.begin(), kept_.end(), [](const TokenLogit& a, const TokenLogit& b) { return a.id < b.id; });
    return kept_;
  }

  // Keeps no more than the best, and raises the floor.
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

// Rows of a matrix whose logits, known to within an error each, may be among the best `count`. Gives up where more than
// a few thousand may be, or where what is rough is not finite: the exact pass then decides.
class Contenders {
 public:
  void reset(int count) {
    least_.reset(count);
    kept_.clear();
    gave_up_ = false;
  }

  // rough: [n], of ids first_id..; each is off by errors[i] * reach at most. largest: of rough, NaN where one is not
  // finite.
  void offer(const float* rough, const float* errors, float reach, int n, TokenId first_id, float largest) {
    if (std::isnan(largest) || !std::isfinite(reach)) gave_up_ = true;
    if (gave_up_) return;
    for (int i = 0; i < n; ++i) {
      // Rounded outwards, with room to spare; the smallest normal number for what each step loses below it.
      const float error = errors[i] * reach * 1.0001f + std::numeric_limits<float>::min();
      const float slack = std::fabs(rough[i]) * 0x1p-20f, least = rough[i] - error - slack;
      // Where errors are so large, exact sums might overflow though rough ones do not: such a row is looked at.
      const float most = error < 0x1p108f ? rough[i] + error + slack : std::numeric_limits<float>::infinity();
      if (most < least_.floor()) continue;
      kept_.push_back({most, first_id + i});
      least_.offer(&least, 1, first_id + i, least);
    }
    if (kept_.size() > kMostContenders) drop();
    gave_up_ = kept_.size() > kMostContenders;
  }
  bool gave_up() const { return gave_up_; }

  void add(const Contenders& other) {
    gave_up_ = gave_up_ || other.gave_up_;
    least_.add(other.least_);
    kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
  }

  // Ascending.
  std::vector<TokenId> take() {
    least_.drop();
    drop();
    std::vector<TokenId> ids;
    for (const TokenLogit& each : kept_) ids.push_back(each.id);
    std::sort(ids.begin(), ids.end());
    return ids;
  }

 private:
  static constexpr std::size_t kMostContenders = 4096;  // of GPT-2's 50,257 rows, read one by one: as dear as the exact pass

  void drop() {
    std::erase_if(kept_, [&](const TokenLogit& each) { return each.logit < least_.floor(); });
  }

  BestLogits least_;              // of what the logits are at least
  std::vector<TokenLogit> kept_;  // what they are at most
  bool gave_up_ = false;
};

// An upper bound of the sum of |x|.
inline float sum_of_magnitudes(const float* x /* [n] */, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += std::fabs(static_cast<double>(x[i]));
  sum *= 1.0 + 0x1p-20;
  constexpr double kLargest = std::numeric_limits<float>::max();
  return sum < kLargest ? static_cast<float>(sum) : std::numeric_limits<float>::infinity();
}

// A rough copy as a matrix of its own.
struct RoughView {
  CodePanels<std::int8_t> packed;
  const CodePanels<std::int8_t>& panels() const { return packed; }
};

}  // namespace tenon::cpu
