// Measures the ceilings of the machine: bytes read from memory per second, and operations per second of each
// instruction that weight formats multiply with.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string_view>

#include "tenon/device/cpu.h"
#include "tenon/ops/cpu/dot_kernel_sets.h"
#include "tenon/ops/cpu/dot_kernels.h"
#include "tenon/ops/cpu/kernel_sets.h"
#include "tenon/ops/cpu/kernels.h"

namespace program {

inline constexpr std::ptrdiff_t kStrip = 48 * 1024;  // floats

namespace portable {
using namespace tenon::cpu::portable;
inline constexpr int kSums = 4;
#include "ceilings.inc"
}  // namespace portable

// The same targets as in ops/cpu/kernels.h. Code compiled for more features would not be inlined here, and the calls
// would be measured.
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace avx2 {
using namespace tenon::cpu::avx2;
inline constexpr int kSums = 6;  // 12 of 16 registers
#include "ceilings.inc"
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl")
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

// The instruction that a weight format multiplies with. Its peak bounds a format that is limited by arithmetic.
enum class Instruction { fma, bf16, vnni, amx, amx_bf16 };
inline constexpr int kInstructions = 5;

inline const char* to_string(Instruction i) {
  constexpr const char* kNames[kInstructions] = {"FMA", "bf16", "VNNI", "AMX", "AMX bf16"};
  return kNames[static_cast<int>(i)];
}

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic push  // GCC 12 warns of undefined operands in its own intrinsics (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
// multiply_add of ceilings.inc, for the instructions that multiply 64 bytes (vpdpbusd) or 32 bfloat16 (vdpbf16ps).
namespace avx512_vnni {
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) inline float multiply_add(long rounds, int factor) {
  __m512i sums[avx512::kSums];
  for (int i = 0; i < avx512::kSums; ++i) sums[i] = _mm512_set1_epi32(i);
  const __m512i f = _mm512_set1_epi8(static_cast<char>(factor));
  for (long r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < avx512::kSums; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], f, f);
  }
  for (int i = 1; i < avx512::kSums; ++i) sums[0] = _mm512_xor_si512(sums[0], sums[i]);
  return static_cast<float>(_mm512_cvtsi512_si32(sums[0]));
}
}  // namespace avx512_vnni

namespace avx512_bf16 {
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) inline float multiply_add(long rounds, float factor) {
  __m512 sums[avx512::kSums];
  for (int i = 0; i < avx512::kSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh f = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(factor));
  for (long r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < avx512::kSums; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], f, f);
  }
  for (int i = 1; i < avx512::kSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  return _mm512_cvtss_f32(sums[0]);
}
}  // namespace avx512_bf16

// 16 x 16 sums of 64 products each (32 of bfloat16), in four tile registers of zeros.
namespace amx {
inline constexpr int kSums = 4, kMultiplyAdds = 16 * 16 * 64;
__attribute__((target("avx512f,amx-tile,amx-int8,amx-bf16"))) inline float multiply_add(long rounds, bool pairs) {
  tenon::cpu::amx_dot::TileShapes shapes;
  shapes.take(32, 16);
  for (long r = 0; r < rounds && !pairs; ++r) {
    _tile_dpbsud(4, 0, 2);
    _tile_dpbsud(5, 0, 3);
    _tile_dpbsud(6, 1, 2);
    _tile_dpbsud(7, 1, 3);
  }
  for (long r = 0; r < rounds && pairs; ++r) {
    _tile_dpbf16ps(4, 0, 2);
    _tile_dpbf16ps(5, 0, 3);
    _tile_dpbf16ps(6, 1, 2);
    _tile_dpbf16ps(7, 1, 3);
  }
  alignas(64) int sums[256];
  _tile_stored(4, sums, 64);
  return static_cast<float>(sums[0]);
}
}  // namespace amx
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

// The best values of one or more measurements.
struct Ceiling {
  double read_gb_s = 0;
  std::array<double, kInstructions> peaks{};  // by Instruction, in 1e9 operations per second; a multiply-add is two

  double peak_gops(Instruction i) const { return peaks[static_cast<std::size_t>(i)]; }
  void add(const Ceiling& other) {
    read_gb_s = std::max(read_gb_s, other.read_gb_s);
    for (std::size_t i = 0; i < peaks.size(); ++i) peaks[i] = std::max(peaks[i], other.peaks[i]);
  }
};

// Call measure() before, between and after the runs to compare, and use the best of the same seconds: clock rates and
// other programs vary.
class Ceilings {
 public:
  explicit Ceilings(int threads) : cpu_({.threads = threads}), memory_(kBytes) {
    cpu_.pool().split(kBlocks, [&](int begin, int end) { std::fill(block(begin), block(end), 1.0f); });
  }

  // Takes about 60 ms.
  Ceiling measure() {
    Ceiling now;
    now.read_gb_s = kBytes / seconds_of([&](int begin, int end) { read(begin, end); }, kBlocks) * 1e-9;
    for (int i = 0; i < kInstructions; ++i) {
      const auto instruction = static_cast<Instruction>(i);
      if (!has(instruction)) continue;
      const double seconds = seconds_of([&](int, int) { multiply(instruction); }, cpu_.threads());
      now.peaks[static_cast<std::size_t>(i)] = cpu_.threads() * operations(instruction) / seconds * 1e-9;
    }
    return now;
  }

  // The instruction of a format's kernels on this processor. Without a fast instruction for the format, they use
  // multiply-adds of float32.
  Instruction instruction_of(std::string_view weights) const {
    using tenon::cpu::DotIsa;
    if (weights == "int8_act8" || weights == "int4_act8") {
      const DotIsa set = tenon::cpu::dot_isa<tenon::Int8Quads>(isa());
      return set == DotIsa::amx ? Instruction::amx : set == DotIsa::avx512 ? Instruction::vnni : Instruction::fma;
    }
    if (weights == "bfloat16_amx") {
      return tenon::cpu::dot_isa<tenon::BFloat16Blocks>(isa()) == DotIsa::amx ? Instruction::amx_bf16
                                                                              : Instruction::fma;
    }
    if (weights != "bfloat16_dot") return Instruction::fma;
    return tenon::cpu::dot_isa<tenon::BFloat16Pairs>(isa()) == DotIsa::avx512 ? Instruction::bf16 : Instruction::fma;
  }

  bool has(Instruction instruction) const {
    using tenon::cpu::DotIsa, tenon::cpu::has_dot_isa;
    if (instruction == Instruction::fma) return true;
    if (isa() != tenon::Isa::avx512) return false;
    if (instruction == Instruction::amx) return has_dot_isa<tenon::Int8Quads>(DotIsa::amx);
    if (instruction == Instruction::amx_bf16) return has_dot_isa<tenon::BFloat16Blocks>(DotIsa::amx);
    if (instruction == Instruction::vnni) return has_dot_isa<tenon::Int8Quads>(DotIsa::avx512);
    return has_dot_isa<tenon::BFloat16Pairs>(DotIsa::avx512);
  }

  tenon::Isa isa() const { return cpu_.isa(); }

 private:
  static constexpr int kBlocks = 704;  // 528 MiB: many times the last-level cache
  static constexpr std::size_t kBytes = kBlocks * 4 * kStrip * sizeof(float);

  float* block(std::ptrdiff_t index) const { return reinterpret_cast<float*>(memory_.data()) + index * 4 * kStrip; }

  // For about 10 ms. Portable C++ may call a function of the C library for each multiply-add.
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

  static bool is_amx(Instruction i) { return i == Instruction::amx || i == Instruction::amx_bf16; }

  void multiply([[maybe_unused]] Instruction instruction) {
#if defined(__x86_64__)
    if (is_amx(instruction)) return keep(amx::multiply_add(rounds() / 8, instruction == Instruction::amx_bf16));
    if (instruction == Instruction::vnni) return keep(avx512_vnni::multiply_add(rounds(), 1));
    if (instruction == Instruction::bf16) return keep(avx512_bf16::multiply_add(rounds(), 0.5f));
    if (isa() == tenon::Isa::avx512) return keep(avx512::multiply_add(rounds(), 0.5f));
    if (isa() == tenon::Isa::avx2) return keep(avx2::multiply_add(rounds(), 0.5f));
#endif
    keep(portable::multiply_add(rounds(), 0.5f));
  }

  // The operations of one call of multiply().
  double operations(Instruction instruction) const {
#if defined(__x86_64__)
    if (is_amx(instruction)) {
      const int multiply_adds = instruction == Instruction::amx ? amx::kMultiplyAdds : amx::kMultiplyAdds / 2;
      return 2.0 * multiply_adds * amx::kSums * static_cast<double>(rounds() / 8);
    }
#endif
    const double multiply_adds = instruction == Instruction::vnni ? 64 : instruction == Instruction::bf16 ? 32 : 16;
    return 2 * multiply_adds * sums() * static_cast<double>(rounds());
  }

  // The number of registers that accumulate sums in a round.
  int sums() const {
#if defined(__x86_64__)
    if (isa() == tenon::Isa::avx512) return avx512::kSums;
    if (isa() == tenon::Isa::avx2) return avx2::kSums;
#endif
    return portable::kSums;
  }

  // Stores a result, so that its computation is not optimised away.
  void keep(float value) { sink_.store(value, std::memory_order_relaxed); }

  tenon::Cpu cpu_;
  tenon::Cpu::Memory memory_;
  std::atomic<float> sink_{0};
};

}  // namespace program
