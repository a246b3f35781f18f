// The inner loops of matrix products that round activations, too: for AMX, for AVX-512 with VNNI and BF16, for AVX2
// with VNNI and without, and in plain C++. Beside ops/cpu/kernels.h, since only programs that name such a weight format
// should compile them.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include "tenon/core/elements.h"
#include "tenon/core/panels.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon::cpu {

// Columns whose products with codes of 255 int32 can sum: 65,536 * 255 * 127 < 2^31. Wider rows are summed in such
// blocks.
inline constexpr int kSumColumns = 65536;

// Units of a token that are rounded, and then laid between those of the others, while they are in the nearest cache.
inline constexpr int kRoundedUnits = 64;
// Bytes that may be written behind them, since groups are rounded in sixteens, and may be an odd number of eights.
inline constexpr int kRoundedBehind = 8;

// Units of a token that may lie side by side: a cache line, and a row of a tile register.
inline constexpr int kLineUnits = 16;

// What a layout makes of a token: units of four bytes, and sums of its columns in groups.
struct DotForm {
  int columns;        // of a unit
  int units;          // four bytes each; whole lines but for pairs without tiles, with zeros behind the last column
  int group, groups;  // columns that have a sum; groups 0: none have
  int factor;         // of these sums
};
constexpr int whole_lines(int units) { return (units + kLineUnits - 1) / kLineUnits * kLineUnits; }
inline DotForm dot_form(const Int8Quads& w) {
  return {4, whole_lines(w.quads()), kSumColumns, (w.cols + kSumColumns - 1) / kSumColumns, -1};
}
inline DotForm dot_form(const Int4Quads& w) { return {4, whole_lines(2 * w.words()), w.group, w.groups(), -8}; }
// Layouts of pairs of bfloat16, whose form depends on the instructions.
template <class Layout>
inline constexpr bool kOfPairs = std::is_same_v<Layout, BFloat16Pairs> || std::is_same_v<Layout, BFloat16Blocks>;

// Tokens that are multiplied together.
struct DotTile {
  int tokens, side;
  std::uint32_t* x;    // [units / side, tokens, side], see DotKernels
  std::int32_t* sums;  // [groups, tokens]
  float* scales;       // [tokens]
};

struct DotJob {
  TokenTiles tiles;
  DotForm form;
  int side;          // as the table's side() has it for the step, and so for each of its tiles
  std::uint32_t* x;  // tiles, one behind the other
  std::int32_t* sums;
  float* scales;
  PanelJob outputs;  // what finish_tile reads; its x is not read

  DotTile tile(int i) const {
    const std::ptrdiff_t begin = tiles.begin(i);
    return {tiles.begin(i + 1) - tiles.begin(i), side, x + begin * form.units, sums + begin * form.groups,
            scales + begin};
  }
};

// Where a step's scales, sums and units lie, one behind the other, in words of four bytes. Units begin with a cache
// line, and so does what follows them: rows of tile registers would else lie across two.
struct DotMemory {
  std::size_t sums, x, size;
};
inline DotMemory dot_memory(const DotForm& form, int tokens) {
  const auto lines = [](std::size_t words) { return (words + 15) / 16 * 16; };
  const auto n = static_cast<std::size_t>(tokens);
  const std::size_t x = lines(n * static_cast<std::size_t>(1 + form.groups));
  return {n, x, lines(x + n * static_cast<std::size_t>(form.units))};
}

// A table of its own for each layout, so that a program compiles those that it uses.
template <class Layout>
struct DotKernels {
  DotForm (*form)(const Layout&);  // what tokens become
  int (*tile_tokens)(int tokens);
  int (*side)(int tokens);  // units of a token that lie side by side in a step of so many: 1 or kLineUnits
  // Rounds the rows of x, as many as the tile has.
  void (*round_tokens)(MatrixView<const float> x, const DotForm&, const DotTile&);
  // The weight's panels first..last-1, whose outputs begin at first_output.
  void (*multiply)(const DotJob&, const Layout& weight, int first, int last, int first_output);
};

#if defined(__x86_64__)
// For as long as it lives, subnormal numbers are zeros, in and out: then fma is what vdpbf16ps does. Only around calls
// that are not inlined, across which compilers move no arithmetic.
class FlushedSubnormals {
 public:
  FlushedSubnormals() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | 0x0040u);
  }  // 0x0040: inputs, too
  ~FlushedSubnormals() { _mm_setcsr(before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
  unsigned before_;
};
#endif

namespace portable {
#include "tenon/ops/cpu/simd/dot_portable.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace portable

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace avx2_dot {
using namespace avx2;
#include "tenon/ops/cpu/simd/dot_ymm.inc"
//
#include "tenon/ops/cpu/simd/dot_avx2.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace avx2_dot
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avxvnni"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
#endif
namespace avx2_vnni {
using namespace avx2;
#include "tenon/ops/cpu/simd/dot_ymm.inc"
//
#include "tenon/ops/cpu/simd/dot_avx_vnni.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace avx2_vnni
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(                                                                               \
    __attribute__((target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16"))), \
    apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")
#pragma GCC diagnostic push  // as in ops/cpu/kernels.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
namespace avx512_dot {
using namespace avx512;
#include "tenon/ops/cpu/simd/dot_zmm.inc"
//
#include "tenon/ops/cpu/simd/dot_avx512.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace avx512_dot
namespace avx512_fma {
using namespace avx512;
#include "tenon/ops/cpu/simd/dot_zmm.inc"
//
#include "tenon/ops/cpu/simd/dot_avx512_fma.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace avx512_fma
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(                                                                                        \
    __attribute__((target(                                                                                           \
        "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16"))), \
    apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target( \
    "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16")
#endif
namespace amx_dot {
using namespace avx512_dot;
#include "tenon/ops/cpu/simd/dot_amx.inc"
}  // namespace amx_dot
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif
#endif

// Whose instructions multiply: a processor with AVX-512 may lack VNNI or BF16, and one without it may have AVX-VNNI.
enum class DotIsa { portable, avx2, avx2_vnni, avx512_fma, avx512, amx };

// Asks Linux for tile registers, once: leave is the whole process's from then on and cannot be given back. Each thread
// that has used them takes 8 KiB more, in the kernel and on its stack when a signal comes, and a sigaltstack() that is
// too small for that fails with ENOMEM. Linux refuses where a thread has such a stack already, and then everything is
// computed without.
inline bool request_tile_permission() {
#if defined(__x86_64__) && defined(__linux__)
  enum : long { kRequestPermission = 0x1023, kTileData = 18 };  // as Linux's arch/x86/xstate.rst names and numbers them
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

// What a processor has beside its Isa.
struct DotFeatures {
  Isa isa = Isa::portable;
  bool avx_vnni = false, avx512_vnni = false, avx512_bf16 = false;
  bool amx_int8 = false, amx_bf16 = false;
  bool slow_bf16 = false;  // two fused multiply-adds take half the time of vdpbf16ps (see simd/dot_avx512_fma.inc)
  bool (*may_use_tiles)() = request_tile_permission;  // called only where they would be used
};

// Asked once: cpuid takes a microsecond and more where a hypervisor answers.
inline const DotFeatures& dot_features() {
  static const DotFeatures features = [] {
    DotFeatures found{best_isa()};
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    found.avx_vnni =
        __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;  // not every compiler knows it by name
    found.avx512_vnni = __builtin_cpu_supports("avx512vnni");
    found.avx512_bf16 = __builtin_cpu_supports("avx512bf16");
    found.slow_bf16 = is_intel();
    constexpr unsigned kPairs = 1u << 22, kTiles = 1u << 24, kBytes = 1u << 25;  // AMX-BF16, AMX-TILE, AMX-INT8
    const bool tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTiles) != 0;
    found.amx_int8 = tiles && (d & kBytes) != 0;
    found.amx_bf16 = tiles && (d & kPairs) != 0;
#endif
    return found;
  }();
  return features;
}

// Whether the kernels of simd/dot_amx.inc take this weight.
template <class Layout>
bool fits_tile_registers(const Layout& weight) {
  if constexpr (std::is_same_v<Layout, Int4Quads>)
    return weight.group == 32 || weight.group == 64 || weight.group == 128;
  else
    return !std::is_same_v<Layout, BFloat16Pairs>;
}

// Both AVX-512 sets are compiled for VNNI and BF16, but only avx512_dot, for pairs, and amx_dot, for blocks of them,
// use BF16's instructions, which Ice Lake and Cascade Lake lack. Pairs in blocks are nothing for vdpbf16ps, whose sums
// are in another order.
template <class Layout>
bool has_dot_isa(DotIsa isa, const DotFeatures& features = dot_features(), const Layout& weight = {}) {
  constexpr bool kPairs = std::is_same_v<Layout, BFloat16Pairs>, kBlocks = std::is_same_v<Layout, BFloat16Blocks>;
  const bool vnni = features.isa == Isa::avx512 && features.avx512_vnni;
  const bool tiles = kBlocks ? features.amx_bf16 && features.avx512_bf16 : features.amx_int8;
  switch (isa) {
    case DotIsa::amx:
      return vnni && tiles && fits_tile_registers(weight) && features.may_use_tiles();
    case DotIsa::avx512:
      return !kBlocks && vnni && (!kPairs || features.avx512_bf16);
    case DotIsa::avx512_fma:
      return kOfPairs<Layout> && vnni;
    case DotIsa::avx2_vnni:
      return !kOfPairs<Layout> && features.isa >= Isa::avx2 && features.avx_vnni;
    case DotIsa::avx2:
      return features.isa >= Isa::avx2;
    case DotIsa::portable:
      break;
  }
  return true;
}

// The fastest one that a device with these instructions has for the weight.
template <class Layout>
DotIsa dot_isa(Isa isa, const DotFeatures& features = dot_features(), const Layout& weight = {}) {
  const auto first_of = [&](std::initializer_list<DotIsa> sets) {
    for (const DotIsa each : sets) {
      if (has_dot_isa(each, features, weight)) return each;
    }
    return DotIsa::portable;
  };
  if (isa == Isa::portable) return DotIsa::portable;
  if (isa == Isa::avx2) return first_of({DotIsa::avx2_vnni, DotIsa::avx2});
  if (features.slow_bf16)
    return first_of({DotIsa::amx, DotIsa::avx512_fma, DotIsa::avx512, DotIsa::avx2_vnni, DotIsa::avx2});
  return first_of({DotIsa::amx, DotIsa::avx512, DotIsa::avx512_fma, DotIsa::avx2_vnni, DotIsa::avx2});
}

// Templates also so that `extern template` can keep the sets in one translation unit of a program.
template <class Layout>
const DotKernels<Layout>& dot_kernels_of(DotIsa isa) {
#if defined(__x86_64__)
  if constexpr (!std::is_same_v<Layout, BFloat16Pairs>) {
    if (isa == DotIsa::amx) return amx_dot::dot_table<Layout>();
  }
  if constexpr (!std::is_same_v<Layout, BFloat16Blocks>) {
    if (isa == DotIsa::avx512) return avx512_dot::dot_table<Layout>();
  }
  if constexpr (kOfPairs<Layout>) {
    if (isa == DotIsa::avx512_fma) return avx512_fma::dot_table<Layout>();
  } else {
    if (isa == DotIsa::avx2_vnni) return avx2_vnni::dot_table<Layout>();
  }
  if (isa >= DotIsa::avx2) return avx2_dot::dot_table<Layout>();
#endif
  return portable::dot_table<Layout>();
}

template <class Layout>
const DotKernels<Layout>& dot_kernels_for(Isa isa, const Layout& weight) {
  return dot_kernels_of<Layout>(dot_isa(isa, dot_features(), weight));
}

}  // namespace tenon::cpu
