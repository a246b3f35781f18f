// The laws of WeightPolicy. The bytes of a matrix do not depend on how its rows are split into blocks. `at` reads what
// `linear` multiplies with. A row of a product depends on that row alone.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/device/cpu.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/all.h"
#include "tenon/testing/fits.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

// One matrix in a format, in memory of a device whose memory is the host's.
template <class P, class D>
class WeightTrial {
 public:
  WeightTrial(D& device, Shape shape, Violations& broken) : device_(device), shape_(shape), broken_(broken) {
    Random random(static_cast<std::uint64_t>(shape.rows * 1000 + shape.cols));
    for (int r = 0; r < shape.rows; ++r) {
      const float size = r % 7 == 3 ? 0.0f : std::ldexp(1.0f, -r % 5);  // some rows are all zeros
      for (int c = 0; c < shape.cols; ++c) {
        values_.push_back(size * static_cast<float>(random.between(-1000, 1000) + random.between(-1000, 1000)) / 2000);
      }
    }
    range_.add(values_);
    memory_ = device.allocate(bytes() + kGuard);
    encode(memory_, shape.rows);
  }

  void run() {
    blocks();
    const View view = P::view(shape_, {memory_.data(), bytes()});
    read(view);
    multiply(view);
  }

 private:
  using View = typename P::View;
  static constexpr std::size_t kGuard = 64;

  std::size_t bytes() const { return P::bytes(shape_); }
  std::size_t at(int row, int col) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(shape_.cols) + static_cast<std::size_t>(col);
  }

  // The rows in blocks, the last first.
  void encode(typename D::Memory& memory, int block) {
    std::memset(memory.data() + bytes(), 0x5a, kGuard);
    const std::span<std::byte> packed(memory.data(), bytes());
    for (int first = (shape_.rows - 1) / block * block; first >= 0; first -= block) {
      const auto count = static_cast<std::size_t>(std::min(block, shape_.rows - first));
      const auto rows = std::span<const float>(values_).subspan(at(first, 0), count * at(1, 0));
      if constexpr (EncodesWithRange<P>)
        P::encode(shape_, first, rows, packed, range_);
      else
        P::encode(shape_, first, rows, packed);
    }
    note(broken_,
         std::all_of(memory.data() + bytes(), memory.data() + bytes() + kGuard,
                     [](std::byte b) { return b == std::byte{0x5a}; }),
         "weights: encode writes no more than bytes(shape)");
  }

  void blocks() {
    for (const int block : {16, 32}) {
      auto memory = device_.allocate(bytes() + kGuard);
      encode(memory, block);
      note(broken_, std::memcmp(memory.data(), memory_.data(), bytes()) == 0,
           "weights: blocks of rows, in any order, give the bytes of the whole");
    }
  }

  // A format may round, by at most a quarter of the largest weight of the row, or of the matrix if it has one scale.
  void read(const View& view) {
    const float all = std::max(-range_.least, range_.largest);
    for (int r = 0; r < shape_.rows; ++r) {
      float largest = 0;
      for (int c = 0; c < shape_.cols; ++c) largest = std::max(largest, std::fabs(values_[at(r, c)]));
      for (int c = 0; c < shape_.cols; ++c) {
        const float off = std::fabs(view.at(r, c) - values_[at(r, c)]);
        note(broken_, off <= 0.25f * (EncodesWithRange<P> ? all : largest), "weights: at reads what encode was given");
      }
    }
  }

  // y = W x of the rows first..first+count-1 of x.
  std::vector<float> product(const View& view, const std::vector<float>& x, int first, int count) {
    std::vector<float> y(static_cast<std::size_t>(count) * static_cast<std::size_t>(shape_.rows));
    linear(device_,
           LinearArgs<View>{.x = {x.data() + std::ptrdiff_t{first} * shape_.cols, count, shape_.cols, shape_.cols},
                            .weight = view,
                            .y = {y.data(), count, shape_.rows, shape_.rows}});
    return y;
  }

  // |y - W x| is at most `most` times the sum of the weights' magnitudes times the largest |x|, because a format may
  // round activations, too.
  void near(const View& view, const std::vector<float>& x, const std::vector<float>& y, double most) {
    for (int r = 0; r < static_cast<int>(x.size() / at(1, 0)); ++r) {
      for (int o = 0; o < shape_.rows; ++o) {
        double sum = 0, weights = 0, largest = 0;
        for (int k = 0; k < shape_.cols; ++k) {
          const auto w = static_cast<double>(view.at(o, k)), value = static_cast<double>(x[at(r, k)]);
          sum += w * value;
          weights += value == 0 ? 0 : std::fabs(w);
          largest = std::max(largest, std::fabs(value));
        }
        const auto got = static_cast<double>(y[static_cast<std::size_t>(r * shape_.rows + o)]);
        note(broken_, std::fabs(got - sum) <= most * weights * largest + 1e-6,
             "weights: linear multiplies with what at reads");
      }
    }
  }

  void multiply(const View& view) {
    constexpr int kRows = 33;
    std::vector<float> units(at(shape_.cols, 0), 0.0f), x;
    for (int k = 0; k < shape_.cols; ++k) units[at(k, k)] = 1.0f;
    near(view, units, product(view, units, 0, shape_.cols), 0.02);  // one weight each
    Random random(3);
    for (std::size_t i = 0; i < at(kRows, 0); ++i) x.push_back(static_cast<float>(random.between(-1000, 1000)) / 500);
    const auto whole = product(view, x, 0, kRows);
    near(view, x, whole, 0.01);
    for (const int count : {1, 2, 3, 5, 8, 17}) {
      for (int first = 0; first + count <= kRows; first += count) {
        const auto y = product(view, x, first, count);
        note(broken_, std::memcmp(y.data(), whole.data() + first * shape_.rows, y.size() * sizeof(float)) == 0,
             "weights: a row of a product has the same bits in any number of rows");
      }
    }
  }

  D& device_;
  Shape shape_;
  Violations& broken_;
  std::vector<float> values_;  // [rows, cols]
  ValueRange range_;
  typename D::Memory memory_;
};

}  // namespace detail

/// Encodes matrices of odd shapes and multiplies with them, on a device whose memory is the host's. Returns the broken
/// laws.
template <class P, DevicePolicy D>
Violations weight_laws(D& device) {
  detail::must_fit<Weights<P>>();
  Violations broken;
  if constexpr (detail::fits<Weights<P>>) {
    try {
      for (const Shape shape : {Shape{1, 7}, {16, 32}, {33, 65}, {48, 129}, {100, 300}}) {
        detail::WeightTrial<P, D>(device, shape, broken).run();
      }
    } catch (const std::exception& e) {
      broken.push_back(std::string("weights: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

/// On the CPU.
template <class P>
Violations weight_laws() {
  Cpu device({.threads = 2});
  return weight_laws<P>(device);
}

}  // namespace tenon::testing
