// Shared by bench/ops/linear.cpp and head.cpp: a matrix in a weight format, in enough copies that it is read from
// memory each time, and rates as fractions of the machine's ceilings.
#pragma once
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../../apps/common/ceilings.h"
#include "../formats.h"
#include "tenon/model/random.h"
#include "tenon/ops/cpu/all.h"
#include "tenon/weights/store.h"

namespace bench {

inline int threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

inline tenon::Cpu& device() {
  static tenon::Cpu cpu({.threads = threads()});
  return cpu;
}

inline program::Ceilings& ceilings() {
  static program::Ceilings all(threads());
  return all;
}

// Fills with numbers in -1/8 .. 1/8 that depend on the seed and index only.
inline void fill(float* out, std::size_t count, std::uint64_t seed) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(static_cast<int>(tenon::mix(seed + i) % 2001) - 1000) / 8000.0f;
  }
}

// Copies of one matrix, read in turn.
template <class P>
class Matrix {
 public:
  explicit Matrix(tenon::Shape shape) : shape_(shape) {
    const std::vector<tenon::Shape> one = {shape};
    tenon::WeightStore<P, tenon::Cpu> store(device(), one);
    store.add(device(), shape, [&](int first, int rows, float* out) {
      const auto cols = static_cast<std::size_t>(shape.cols);
      fill(out, static_cast<std::size_t>(rows) * cols, static_cast<std::size_t>(first) * cols);
    });
    bytes_ = store.contents().size();
    // The stride is an odd number of cache lines, so that copies do not map to the same sets of a cache.
    stride_ = (bytes_ / 64 + 1) / 2 * 128 + 64;
    copies_ = std::max<std::size_t>(8, kColdBytes / stride_ + 1);
    memory_ = tenon::Cpu::Memory(stride_ * copies_);
    for (std::size_t i = 0; i < copies_; ++i)
      std::memcpy(memory_.data() + i * stride_, store.contents().data(), bytes_);
  }

  typename P::View next() {
    at_ = (at_ + 1) % copies_;
    return P::view(shape_, {memory_.data() + at_ * stride_, bytes_});
  }
  double bytes() const { return static_cast<double>(bytes_); }
  double elements() const { return static_cast<double>(shape_.rows) * shape_.cols; }

 private:
  static constexpr std::size_t kColdBytes = 160u << 20;  // five times the last-level cache of an EPYC's core complex

  tenon::Shape shape_;
  std::size_t bytes_ = 0, stride_ = 0, copies_ = 0, at_ = 0;
  tenon::Cpu::Memory memory_;
};

// The matrix of this format and shape. Only the shape of the last call is kept, because all shapes would fill the
// memory.
template <class P>
Matrix<P>& cold(tenon::Shape shape) {
  static tenon::Shape made;
  static std::unique_ptr<Matrix<P>> matrix;
  if (!matrix || made != shape) {
    matrix.reset();
    matrix = std::make_unique<Matrix<P>>(shape);
    made = shape;
  }
  return *matrix;
}

// Times work(view of the next copy), which multiplies `tokens` rows.
template <class P, class Work>
void measure(benchmark::State& state, std::string_view format, Matrix<P>& matrix, int tokens, Work&& work) {
  using Clock = std::chrono::steady_clock;
  program::Ceiling ceiling = ceilings().measure();
  const auto begin = Clock::now();
  for (auto _ : state) work(matrix.next());
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  ceiling.add(ceilings().measure());
  const double runs_s = static_cast<double>(state.iterations()) / seconds;
  const double gops = 2e-9 * matrix.elements() * tokens * runs_s, gb_s = 1e-9 * matrix.bytes() * runs_s;
  state.SetItemsProcessed(state.iterations() * tokens);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(matrix.bytes()));
  state.counters["GOP/s"] = gops;
  if constexpr (tenon::HasInt8Approximation<typename P::View>)
    return;  // most of these bytes and operations belong to another format
  state.counters["frac_stream"] = gb_s / ceiling.read_gb_s;
  state.counters["frac_peak"] = gops / ceiling.peak_gops(ceilings().instruction_of(format));
}

}  // namespace bench
