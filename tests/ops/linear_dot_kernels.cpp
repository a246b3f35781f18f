// Every set of instructions that multiplies rounded activations, also those that a processor passes over for a better
// one: the bits of plain C++, and sums of the largest codes without overflow.
#include <boost/test/unit_test.hpp>

#include <array>
#include <tuple>

#include "linear_problem.h"
#include "tenon/ops/cpu/dot_kernel_sets.h"
#include "tenon/ops/cpu/dot_kernels.h"
#include "tenon/ops/cpu/panel_work.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/int4_act8.h"
#include "tenon/weights/int8_act8.h"

BOOST_AUTO_TEST_SUITE(ops_linear_dot_kernels)

using namespace tenon;
using namespace tenon::test;
using cpu::DotIsa;

using Formats = std::tuple<ZeroPointInt8Act8, GroupInt4Act8Of<32>, GroupInt4Act8Of<64>, GroupInt4Act8Of<128>,
                           BFloat16Dot, BFloat16Amx>;

namespace {

// All sets for a layout but plain C++.
template <class Layout>
constexpr std::array<std::pair<DotIsa, const char*>, 5> kSets{{{DotIsa::neon, "NEON with dot products"},
                                                               {DotIsa::avx2, "AVX2"},
                                                               {DotIsa::avx2_vnni, "AVX-VNNI"},
                                                               {DotIsa::avx512, "AVX-512 with VNNI"},
                                                               {DotIsa::amx, "AMX, or Linux's leave to use it"}}};
template <>
constexpr std::array<std::pair<DotIsa, const char*>, 4> kSets<BFloat16Pairs>{{{DotIsa::neon, "NEON with dot products"},
                                                                              {DotIsa::avx2, "AVX2"},
                                                                              {DotIsa::avx512_fma, "AVX-512 with VNNI"},
                                                                              {DotIsa::avx512, "AVX-512 with BF16"}}};
template <>
constexpr std::array<std::pair<DotIsa, const char*>, 4> kSets<BFloat16Blocks>{
    {{DotIsa::neon, "NEON with dot products"},
     {DotIsa::avx2, "AVX2"},
     {DotIsa::avx512_fma, "AVX-512 with VNNI"},
     {DotIsa::amx, "AMX, or Linux's leave to use it"}}};

// The sets of these that this processor has. Names the missing ones on standard output.
template <class Layout>
const std::vector<DotIsa>& dot_isas() {
  static const std::vector<DotIsa> all = [] {
    std::vector<DotIsa> found;
    for (const auto& [isa, name] : kSets<Layout>) {
      if (cpu::has_dot_isa<Layout>(isa))
        found.push_back(isa);
      else
        std::printf("skipped: %s, which this processor has not\n", name);
    }
    std::fflush(stdout);
    return found;
  }();
  return all;
}

// The first `rows` rows of x times the weight, by one set's kernels.
template <class Layout>
Matrix product(DotIsa isa, const Layout& weight, const Matrix& x, int rows) {
  const auto& kernels = cpu::dot_kernels_of<Layout>(isa);
  const cpu::TokenTiles tiles{rows, kernels.tile_tokens(rows)};
  const cpu::DotForm form = kernels.form(weight);
  const auto tokens = static_cast<std::size_t>(rows);
  std::vector<std::uint32_t> units(tokens * static_cast<std::size_t>(form.units));
  std::vector<std::int32_t> sums(tokens * static_cast<std::size_t>(form.groups));
  std::vector<float> scales(tokens);
  Matrix y(rows, weight.rows, weight.rows + 3);
  const LinearArgs<Bare<Layout>> args{.x = x.view(0, rows), .weight = {weight}, .y = y.view()};
  const cpu::DotJob job{tiles,       form,          kernels.side(rows),  units.data(),
                        sums.data(), scales.data(), cpu::panel_job(args)};
  for (int i = 0; i < tiles.count(); ++i) {
    const cpu::DotTile tile = job.tile(i);
    kernels.round_tokens(args.x.rows_from(tiles.begin(i), tile.tokens), form, tile);
  }
  kernels.multiply(job, weight, 0, static_cast<int>(panel_count(weight.rows)), 0);
  return y;
}

// Whether the first rows of a matrix equal these, to the bit.
bool begins(const Matrix& all, const Matrix& rows) {
  for (int r = 0; r < rows.rows; ++r) {
    if (!same_bits(all.row(r), rows.row(r), all.cols)) return false;
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(every_set_of_instructions_has_the_bits_of_plain_code, P, Formats) {
  using Layout = std::decay_t<decltype(std::declval<typename P::View>().panels())>;
  for (const int in : {1, 31, 33, 100, 257, 768}) {
    const Matrix x = random_matrix(70, in, static_cast<std::uint64_t>(in));
    const Packed<P> packed(random_matrix(37, in, 5));
    const Matrix all = product(DotIsa::portable, packed.view().panels(), x, 70);
    for (int rows = 1; rows <= 70; rows += rows < 40 ? 1 : 10) {
      for (const DotIsa isa : dot_isas<Layout>()) {
        BOOST_TEST_REQUIRE(begins(all, product(isa, packed.view().panels(), x, rows)),
                           "set " << static_cast<int>(isa) << ": " << in << " columns, " << rows << " rows");
      }
    }
  }
}

// The inverse test: one different code is detected.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_code_that_differs_is_seen, P, Formats) {
  using Layout = std::decay_t<decltype(std::declval<typename P::View>().panels())>;
  const Matrix x = random_matrix(20, 33, 1);
  Matrix weights = random_matrix(20, 33, 2);
  const Packed<P> packed(weights);
  weights.row(19)[32] = -weights.row(19)[32];
  const Packed<P> other(weights);
  for (const DotIsa isa : dot_isas<Layout>()) {
    for (const int rows : {5, 20}) {
      BOOST_TEST(
          !same_bits(product(isa, packed.view().panels(), x, rows), product(isa, other.view().panels(), x, rows)));
    }
  }
}

// Columns of 127 and of -127 times codes of 15 and of 255, with their sums in closed form.
BOOST_AUTO_TEST_CASE(sums_of_the_largest_codes_do_not_overflow) {
  constexpr int in = 776, out = 16;
  Matrix x(40, in, in, 127.0f);
  for (int k = 0; k < in; ++k) {
    x.row(1)[k] = -127.0f;
    x.row(2)[k] = k / 4 % 2 ? 127.0f : -127.0f;  // columns 0 to 3 of a word against 4 to 7
  }
  const std::vector<std::uint8_t> codes(static_cast<std::size_t>(in) * out, 255);
  const std::vector<float16> halves(static_cast<std::size_t>(in) * out, float16(1.0f));
  const std::vector<float> ones(out, 1.0f);
  const std::vector<std::int32_t> zero_points(out, 3);
  const auto check = [&](const auto& weight, float value) {
    for (const DotIsa isa : dot_isas<std::decay_t<decltype(weight)>>()) {
      for (int rows = 3; rows <= 40; ++rows) {
        const Matrix y = product(isa, weight, x, rows);
        for (int r = 0; r < rows; ++r) {
          const float sign = r == 1 ? -1.0f : r == 2 ? 0.0f : 1.0f;
          for (int o = 0; o < out; ++o) BOOST_TEST_REQUIRE(y.row(r)[o] == sign * value * 127.0f * in);
        }
      }
    }
  };
  for (const int group : {32, 64, 128}) check(Int4Quads{codes.data(), halves.data(), group, out, in}, 15.0f - 8.0f);
  check(
      Int8Quads{
          .codes = codes.data(), .scales = ones.data(), .zero_points = zero_points.data(), .rows = out, .cols = in},
      255.0f - 3.0f);
}

using Panels = std::tuple<Int8Quads, Int4Quads, BFloat16Pairs, BFloat16Blocks>;

BOOST_AUTO_TEST_CASE_TEMPLATE(a_device_takes_what_it_has_and_no_more_than_it_may, Layout, Panels) {
  BOOST_TEST((cpu::dot_isa<Layout>(Isa::portable) == DotIsa::portable));
  for (const Isa isa : isas()) {
    const DotIsa taken = cpu::dot_isa<Layout>(isa);
    BOOST_TEST(cpu::has_dot_isa<Layout>(taken));
    BOOST_TEST((isa == Isa::avx512 || taken <= DotIsa::avx2_vnni));
    const bool lacks_sdot = isa == Isa::neon && !cpu::dot_features().neon_dot;
    BOOST_TEST((isa == Isa::portable || lacks_sdot || taken != DotIsa::portable));
  }
}

BOOST_AUTO_TEST_CASE(every_processor_takes_what_it_has) {
  struct Processor {
    const char* name;
    cpu::DotFeatures features;
    DotIsa integers, pairs, blocks;
  };
  const auto with = [](Isa isa, auto... members) {
    cpu::DotFeatures features{isa};
    ((features.*members = true), ...);
    return features;
  };
  using F = cpu::DotFeatures;
  cpu::DotFeatures xeon =
      with(Isa::avx512, &F::avx_vnni, &F::avx512_vnni, &F::avx512_bf16, &F::amx_int8, &F::amx_bf16, &F::slow_bf16);
  xeon.may_use_tiles = [] { return true; };
  cpu::DotFeatures refused = xeon, narrow = xeon, unpaired = xeon;
  refused.may_use_tiles = [] { return false; };
  narrow.isa = Isa::avx2;
  unpaired.avx512_bf16 = false;  // as under some hypervisors: rounding to bfloat16 is an instruction of AVX-512
  for (const Processor& each :
       {Processor{"Haswell", with(Isa::avx2, &F::slow_bf16), DotIsa::avx2, DotIsa::avx2, DotIsa::avx2},
        {"Cortex-A72", with(Isa::neon), DotIsa::portable, DotIsa::portable, DotIsa::portable},
        {"Neoverse N1", with(Isa::neon, &F::neon_dot), DotIsa::neon, DotIsa::neon, DotIsa::neon},
        {"Skylake-X", with(Isa::avx512, &F::slow_bf16), DotIsa::avx2, DotIsa::avx2, DotIsa::avx2},
        {"Cascade Lake, Ice Lake", with(Isa::avx512, &F::avx512_vnni, &F::slow_bf16), DotIsa::avx512,
         DotIsa::avx512_fma, DotIsa::avx512_fma},
        {"Zen 4", with(Isa::avx512, &F::avx512_vnni, &F::avx512_bf16), DotIsa::avx512, DotIsa::avx512,
         DotIsa::avx512_fma},
        {"Alder Lake", with(Isa::avx2, &F::avx_vnni, &F::slow_bf16), DotIsa::avx2_vnni, DotIsa::avx2, DotIsa::avx2},
        {"a Xeon with AMX", xeon, DotIsa::amx, DotIsa::avx512_fma, DotIsa::amx},
        {"the same without AVX-512's BF16", unpaired, DotIsa::amx, DotIsa::avx512_fma, DotIsa::avx512_fma},
        {"the same without Linux's leave", refused, DotIsa::avx512, DotIsa::avx512_fma, DotIsa::avx512_fma},
        {"the same, and its user wants AVX2", narrow, DotIsa::avx2_vnni, DotIsa::avx2, DotIsa::avx2}}) {
    BOOST_TEST((cpu::dot_isa<Int8Quads>(each.features.isa, each.features) == each.integers), each.name);
    BOOST_TEST((cpu::dot_isa<Int4Quads>(each.features.isa, each.features) == each.integers), each.name);
    BOOST_TEST((cpu::dot_isa<BFloat16Pairs>(each.features.isa, each.features) == each.pairs), each.name);
    BOOST_TEST((cpu::dot_isa<BFloat16Blocks>(each.features.isa, each.features) == each.blocks), each.name);
  }
  // Tiles have no room for other groups of int4.
  for (const int group : {32, 64, 128}) {
    BOOST_TEST((cpu::dot_isa<Int4Quads>(Isa::avx512, xeon, {.group = group}) == DotIsa::amx), group);
  }
  for (const int group : {8, 48, 96, 256}) {
    BOOST_TEST((cpu::dot_isa<Int4Quads>(Isa::avx512, xeon, {.group = group}) == DotIsa::avx512), group);
  }
}

// The permission for tiles holds for the whole process and cannot be returned.
BOOST_AUTO_TEST_CASE(tiles_are_asked_for_where_they_would_be_used) {
  static int asked;
  const auto asks = [](auto layout, Isa isa, bool amx) {
    asked = 0;
    cpu::DotFeatures features{.isa = Isa::avx512, .avx_vnni = true, .avx512_vnni = true, .avx512_bf16 = true};
    features.amx_int8 = features.amx_bf16 = amx;
    features.may_use_tiles = [] { return ++asked > 0; };
    (void)cpu::dot_isa(isa, features, layout);
    return asked > 0;
  };
  for (const Isa isa : {Isa::portable, Isa::avx2}) {
    BOOST_TEST((!asks(Int8Quads{}, isa, true) && !asks(Int4Quads{}, isa, true) && !asks(BFloat16Blocks{}, isa, true)));
  }
  BOOST_TEST((asks(Int8Quads{}, Isa::avx512, true) && asks(Int4Quads{}, Isa::avx512, true) &&
              asks(BFloat16Blocks{}, Isa::avx512, true)));
  BOOST_TEST((!asks(BFloat16Pairs{}, Isa::avx512, true) && !asks(Int4Quads{.group = 256}, Isa::avx512, true)));
  BOOST_TEST((!asks(Int8Quads{}, Isa::avx512, false) && !asks(BFloat16Blocks{}, Isa::avx512, false)));
}

// A row of a tile register is then one cache line.
BOOST_AUTO_TEST_CASE(rounded_tokens_begin_with_a_line) {
  for (const int groups : {0, 1, 3, 24}) {
    for (const int tokens : {1, 13, 16, 33}) {
      const cpu::DotMemory memory =
          cpu::dot_memory({.columns = 4, .units = 48, .group = 32, .groups = groups, .factor = -8}, tokens);
      const auto n = static_cast<std::size_t>(tokens), g = static_cast<std::size_t>(groups);
      BOOST_TEST((memory.sums >= n && memory.x >= memory.sums + g * n && memory.size >= memory.x + 48 * n));
      BOOST_TEST((memory.x % 16 == 0 && memory.size % 16 == 0));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
