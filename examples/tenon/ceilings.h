// What the machine can do at best, measured: bytes read from memory, and float32 operations, a second.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

#include "tenon/device/cpu.h"
#include "tenon/ops/cpu/kernels.h"

namespace program {

inline constexpr std::ptrdiff_t kStrip = 48 * 1024;  // floats

namespace portable {
using namespace tenon::cpu::portable;
inline constexpr int kSums = 4;
#include "ceilings.inc"
}  // namespace portable

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace avx2 {
using namespace tenon::cpu::avx2;
inline constexpr int kSums = 6;  // 12 of 16 registers
#include "ceilings.inc"
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")
#endif
namespace avx512 {
using namespace tenon::cpu::avx512;
inline constexpr int kSums = 16;
#include "ceilings.inc"
}  // namespace avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

// Call measure() before, between and after what is to be compared with it: clocks and neighbours change.
class Ceilings {
 public:
  explicit Ceilings(int threads) : cpu_({.threads = threads}), memory_(kBytes) {
    cpu_.pool().split(kBlocks, [&](int begin, int end) { std::fill(block(begin), block(end), 1.0f); });
  }

  void measure() {
    const double reading = seconds_of([&](int begin, int end) { read(begin, end); }, kBlocks);
    read_gb_s_ = std::max(read_gb_s_, kBytes / reading * 1e-9);
    const int threads = cpu_.threads();
    const double flops = static_cast<double>(threads) * static_cast<double>(rounds()) * sums() * 32;
    fma_gflops_ = std::max(fma_gflops_, flops / seconds_of([&](int, int) { multiply(); }, threads) * 1e-9);
  }

  // Starts afresh: on a shared machine the ceiling that counts is the one of the same seconds.
  void forget() { read_gb_s_ = fma_gflops_ = 0; }

  // The best so far.
  double read_gb_s() const { return read_gb_s_; }
  double fma_gflops() const { return fma_gflops_; }
  tenon::Isa isa() const { return cpu_.isa(); }

 private:
  static constexpr int kBlocks = 704;  // 528 MiB: many times the last cache
  static constexpr std::size_t kBytes = kBlocks * 4 * kStrip * sizeof(float);

  float* block(std::ptrdiff_t index) const { return reinterpret_cast<float*>(memory_.data()) + index * 4 * kStrip; }

  // About 10 ms; plain C++ may have a function of the C library for each multiply-add.
  long rounds() const { return isa() == tenon::Isa::portable ? 50'000 : 2'000'000; }

  template <class Body>
  double seconds_of(Body body, int count) {
    const auto begin = std::chrono::steady_clock::now();
    cpu_.pool().split(count, body);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void read(int begin, int end) {
    const float* data = block(begin);
    const std::ptrdiff_t count = end - begin;
#if defined(__x86_64__)
    if (isa() == tenon::Isa::avx512) return keep(avx512::read_streams(data, count));
    if (isa() == tenon::Isa::avx2) return keep(avx2::read_streams(data, count));
#endif
    keep(portable::read_streams(data, count));
  }

  void multiply() {
#if defined(__x86_64__)
    if (isa() == tenon::Isa::avx512) return keep(avx512::multiply_add(rounds(), 0.5f));
    if (isa() == tenon::Isa::avx2) return keep(avx2::multiply_add(rounds(), 0.5f));
#endif
    keep(portable::multiply_add(rounds(), 0.5f));
  }

  int sums() const {
#if defined(__x86_64__)
    if (isa() == tenon::Isa::avx512) return avx512::kSums;
    if (isa() == tenon::Isa::avx2) return avx2::kSums;
#endif
    return portable::kSums;
  }

  // A result that is stored is not optimised away.
  void keep(float value) { sink_.store(value, std::memory_order_relaxed); }

  tenon::Cpu cpu_;
  tenon::Cpu::Memory memory_;
  std::atomic<float> sink_{0};
  double read_gb_s_ = 0, fma_gflops_ = 0;
};

}  // namespace program
