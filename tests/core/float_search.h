// Parts that the tests of small floats share: a search for the nearest of all codes, and the float32 worth rounding.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "random.h"

namespace tenon::test {

inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// The values of the codes of one sign in ascending order, in float64: code 0 is 0. An infinity has the value of the
// next finite number.
class Codes {
 public:
  explicit Codes(std::vector<double> values) : values_(std::move(values)) {}

  // The nearest code by distance in float64, which is exact for neighbours; of two the even one. The last one for
  // larger values.
  std::uint32_t nearest(float x) const {
    const double magnitude = std::fabs(static_cast<double>(x));
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return static_cast<std::uint32_t>(values_.size() - 1);
    const auto up = static_cast<std::uint32_t>(above - values_.begin()), down = up - 1;
    const double to_up = *above - magnitude, to_down = magnitude - values_[down];
    return to_up < to_down || (to_up == to_down && up % 2 == 0) ? up : down;
  }
  const std::vector<double>& values() const { return values_; }

  // Each code and each tie between two, with the float32 at both sides, and random floats of every exponent.
  template <class Body>
  void for_each_interesting(Body&& body) const {
    const auto around = [&](double x) {
      const auto middle = static_cast<float>(x);
      for (const float near : {std::nextafterf(middle, 0.0f), middle, std::nextafterf(middle, HUGE_VALF)}) {
        if (!std::isfinite(near)) continue;
        body(near);
        body(-near);
      }
    };
    for (auto i = values_.begin(); i != values_.end(); ++i) {
      around(*i);
      if (std::next(i) != values_.end()) around((*i + *std::next(i)) / 2);
    }
    Random random(1);
    for (int i = 0; i < 300'000; ++i) {
      const float x = float_of(static_cast<std::uint32_t>(random.next()));
      if (std::isfinite(x)) body(x);
    }
    for (const std::uint32_t bits : {1u, 0x7fffffu, 0x800000u, 0x7f7fffffu}) {
      body(float_of(bits));
      body(float_of(bits | 0x80000000u));
    }
  }

 private:
  std::vector<double> values_;
};

}  // namespace tenon::test
