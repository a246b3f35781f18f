// A Prometheus histogram: how many values were at most each bound.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace serve {

class Histogram {
 public:
  // `bounds` ascend, and outlive the histogram.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void add(double value) {
    if (std::isnan(value)) return;  // it would make the sum one for ever
    const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
    sum_ += value;
  }

  std::span<const double> bounds() const { return bounds_; }
  std::span<const std::uint64_t> counts() const { return counts_; }  // [bounds + 1], of each interval alone
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

// LoRAX's: 35 of 0.15 ms x 1.5^i.
inline constexpr auto kLoraxSeconds = [] {
  std::array<double, 35> bounds{};
  double bound = 0.0001;
  for (double& each : bounds) each = bound *= 1.5;
  return bounds;
}();
inline constexpr std::array<double, 19> kTokenCounts = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4000, 5000, 8000, 10000, 20000, 50000, 100000, 200000};
// vLLM's; of the gaps three more, for models whose tokens take less than 10 ms.
inline constexpr std::array<double, 22> kFirstTokenSeconds = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
inline constexpr std::array<double, 22> kGapSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                                       0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1,     2.5,
                                                       5,     7.5,    10,    20,   40,    80};
inline constexpr std::array<double, 21> kRequestSeconds = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                                           30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};

}  // namespace serve
