// The kernels themselves: known answers that no compiler flag may change, memory that they may touch, and their
// thresholds. This program must pass when built with -O0, -O3, -march=native, -ffp-contract=fast, by g++ and clang++.
// So the bits are a property of the library, not of a build.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include "helpers.h"
#include "tenon/ops/cpu/attention.h"
#include "tenon/ops/cpu/dot_kernel_sets.h"
#include "tenon/ops/cpu/linear.h"
#include "tenon/ops/cpu/norm.h"
#include "tenon/ops/cpu/rotary.h"
#include "tenon/ops/cpu/store_kv.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_kernels)

using namespace tenon;
using namespace tenon::test;

namespace {

// FNV-1a over the bits of floats.
struct Digest {
  std::uint64_t value = 0xcbf29ce484222325;
  void add(const float* x, int n) {
    for (int i = 0; i < n; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(x[i]);
      for (int shift = 0; shift < 32; shift += 8) value = (value ^ ((bits >> shift) & 255)) * 0x100000001b3;
    }
  }
  void add(const Matrix& m) {
    for (int r = 0; r < m.rows; ++r) add(m.row(r), m.cols);
  }
};

std::string hex(const float* x, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%af, ", static_cast<double>(x[i]));
    text += buffer;
  }
  return text;
}

template <std::size_t N>
void check(const char* what, const std::array<float, N>& expected, const float* actual) {
  BOOST_TEST(same_bits(expected.data(), actual, static_cast<int>(N)),
             what << " is " << hex(actual, static_cast<int>(N)));
}
void check(const char* what, std::uint64_t expected, const Digest& actual) {
  BOOST_TEST(expected == actual.value, what << " is 0x" << std::hex << actual.value);
}

using Elements = std::tuple<float, bfloat16, std::int8_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr std::array<float, 10> kX = {-87.0f, -10.0f, -2.5f, -1.0f, -0.125f, 0x1p-20f, 0.3333333432674408f,
                                      1.0f,   3.0f,   20.0f};

}  // namespace

BOOST_AUTO_TEST_CASE(known_answers_of_functions) {
  for (const Isa isa : isas()) {
    const auto& kernels = cpu::kernels_for(isa);
    BOOST_TEST_CONTEXT(to_string(isa)) {
      auto y = kX;
      kernels.exp_row(kX.data(), 10, y.data());
      check("exp",
            std::array{0x1.666d0ep-126f, 0x1.7cd79cp-15f, 0x1.50385cp-4f, 0x1.78b564p-2f, 0x1.c3d6a2p-1f, 0x1.00001p+0f,
                       0x1.6546dcp+0f, 0x1.5bf0a8p+1f, 0x1.415e5cp+4f, 0x1.ceb088p+28f},
            y.data());
      y = kX;
      kernels.activate_row(y.data(), 10, Activation::gelu_new);
      check("gelu_new",
            std::array{-0x1.667cdcp-121f, -0x1.47c8fap-123f, -0x1.ee47fcp-7f, -0x1.453d2p-3f, -0x1.cd1196p-5f,
                       0x1.00000ep-21f, 0x1.ae7424p-3f, 0x1.aeb0b8p-1f, 0x1.7f88dp+1f, 0x1.4p+4f},
            y.data());
      y = kX;
      kernels.activate_row(y.data(), 10, Activation::gelu);
      check("gelu",
            std::array{0x0p+0f, 0x0p+0f, -0x1.fcb24p-7f, -0x1.44ed0cp-3f, -0x1.cd116cp-5f, 0x1.00000cp-21f,
                       0x1.ae761ep-3f, 0x1.aec4bcp-1f, 0x1.7f7b4cp+1f, 0x1.4p+4f},
            y.data());
      y = kX;
      kernels.activate_row(y.data(), 10, Activation::none);
      check("none", kX, y.data());

      const Matrix x = random_matrix(1, 20000, 11, 20000, 16.0f);
      Matrix out(1, 20000, 20000);
      Digest digest;
      kernels.exp_row(x.row(0), 20000, out.row(0));
      digest.add(out);
      for (const Activation activation : {Activation::gelu_new, Activation::gelu}) {
        out = x;
        kernels.activate_row(out.row(0), 20000, activation);
        digest.add(out);
      }
      check("the digest of functions", 0xab0d67717742ba4b, digest);

      y = kX;
      kernels.activate_row(y.data(), 10, Activation::silu);
      check("silu",
            std::array{-0x1.e73c4p-120f, -0x1.dc07fcp-12f, -0x1.8464d6p-3f, -0x1.136562p-2f, -0x1.e00aa6p-5f,
                       0x1.000008p-21f, 0x1.8db388p-3f, 0x1.764d5p-1f, 0x1.6dc9dap+1f, 0x1.4p+4f},
            y.data());
      Digest of_gates;
      for (const Activation activation : {Activation::silu, Activation::relu, Activation::gelu}) {
        kernels.gate_row(x.row(0), x.row(0) + 10000, 10000, activation, out.row(0));
        of_gates.add(out);
      }
      check("the digest of gates", 0xdb970cab6d5dd4f, of_gates);
    }
  }
}

BOOST_AUTO_TEST_CASE(known_answers_of_layer_norm) {
  constexpr std::array<float, 5> x = {0.5f, -1.25f, 3.0f, 0.0f, 7.5f}, gain = {1.0f, 0.5f, 2.0f, -1.0f, 0.25f},
                                 bias = {0.0f, 0.125f, -1.0f, 0.1f, 2.0f};
  for (const Isa isa : isas()) {
    BOOST_TEST_CONTEXT(to_string(isa)) {
      std::array<float, 5> y;
      cpu::kernels_for(isa).layer_norm_row(x.data(), gain.data(), bias.data(), 5, 1e-5f, y.data());
      check("layer_norm", std::array{-0x1.def7bp-2f, -0x1.90841p-2f, -0x1.4a52acp-2f, 0x1.7543aep-1f, 0x1.394a5p+1f},
            y.data());
      Digest digest;
      for (const int width : kWidths) {
        const Matrix rows = random_matrix(3, width, 1), weights = random_matrix(2, width, 2);
        Matrix out(1, width, width);
        for (int r = 0; r < 3; ++r) {
          cpu::kernels_for(isa).layer_norm_row(rows.row(r), weights.row(0), weights.row(1), width, 1e-5f, out.row(0));
          digest.add(out);
        }
      }
      check("the digest of layer_norm", 0x2dc0297b7bd7183c, digest);
    }
  }
}

BOOST_AUTO_TEST_CASE(known_answers_of_rms_norm) {
  constexpr std::array<float, 5> x = {0.5f, -1.25f, 3.0f, 0.0f, 7.5f}, gain = {1.0f, 0.5f, 2.0f, -1.0f, 0.25f};
  for (const Isa isa : isas()) {
    BOOST_TEST_CONTEXT(to_string(isa)) {
      std::array<float, 5> y;
      cpu::kernels_for(isa).rms_norm_row(x.data(), gain.data(), 5, 1e-5f, y.data());
      check("rms_norm", std::array{0x1.179aep-3f, -0x1.5d8198p-3f, 0x1.a3685p+0f, -0.0f, 0x1.062132p-1f}, y.data());
      Digest digest;
      for (const int width : kWidths) {
        const Matrix rows = random_matrix(3, width, 1), weights = random_matrix(1, width, 2);
        Matrix out(1, width, width);
        for (int r = 0; r < 3; ++r) {
          cpu::kernels_for(isa).rms_norm_row(rows.row(r), weights.row(0), width, 1e-5f, out.row(0));
          digest.add(out);
        }
      }
      check("the digest of rms_norm", 0xb99d94801ac4a5d7, digest);
    }
  }
}

BOOST_AUTO_TEST_CASE(known_answers_of_rotary_positions) {
  constexpr std::array<float, 4> frequencies = {1.0f, 0x1.99999ap-4f, 0x1.47ae14p-7f, 0x1.0624dep-10f};
  const Matrix x = random_matrix(1, 3 * 80, 1), many = random_matrix(1, 40, 2);
  for (const Isa isa : isas()) {
    BOOST_TEST_CONTEXT(to_string(isa)) {
      const auto& kernels = cpu::kernels_for(isa);
      std::array<float, 8> angles;
      kernels.rotary_angles_row(12345, frequencies.data(), 4, angles.data());
      check("rotary_angles",
            std::array{0x1.c870e4p-4f, -0x1.fa8f2cp-1f, -0x1.32f582p-1f, 0x1.f38184p-1f, -0x1.fccfa2p-1f,
                       0x1.29c532p-3f, -0x1.99c7d8p-1f, -0x1.c1ac34p-3f},
            angles.data());
      Digest digest;
      for (const int position : {0, 1, 4095, 131071, 2000000000}) {
        Matrix turn(1, 80, 80), y = x;
        kernels.rotary_angles_row(position, many.row(0), 40, turn.row(0));
        kernels.rotate_row(turn.row(0), 3, 40, y.row(0));
        digest.add(turn);
        digest.add(y);
      }
      check("the digest of rotary positions", 0x7bce059e4ad5bcfe, digest);
    }
  }
}

BOOST_AUTO_TEST_CASE(known_answers_of_linear) {
  const Matrix x = random_matrix(7, 77, 1), w = random_matrix(31, 77, 2), bias = random_matrix(1, 31, 3),
               residual = random_matrix(7, 31, 4);
  const Packed<Float32> panels(w);
  const Packed<ColumnMajor> columns(w);
  for (const Isa isa : isas()) {
    for (int threads = 1; threads <= 2; ++threads) {
      Cpu device({.threads = threads, .isa = isa});
      BOOST_TEST_CONTEXT(to_string(isa) << ", " << threads << " threads") {
        Digest digest;
        for (const int rows : {1, 2, 7}) {
          for (const Activation activation : {Activation::none, Activation::gelu_new, Activation::gelu}) {
            Matrix y(rows, 31, 31), by_element = y;
            linear(device, LinearArgs<Float32::View>{.x = x.view(0, rows),
                                                     .weight = panels.view(),
                                                     .bias = bias.row(0),
                                                     .activation = activation,
                                                     .residual = residual.view(),
                                                     .y = y.view()});
            linear(device, LinearArgs<ColumnMajor::View>{.x = x.view(0, rows),
                                                         .weight = columns.view(),
                                                         .bias = bias.row(0),
                                                         .activation = activation,
                                                         .residual = residual.view(),
                                                         .y = by_element.view()});
            digest.add(y);
            BOOST_TEST(same_bits(y, by_element));
            if (rows == 1 && activation == Activation::none)
              check("linear",
                    std::array{0x1.763dd8p-2f, -0x1.40d19cp+0f, -0x1.5d3234p-1f, 0x1.a564dcp-1f, 0x1.c315dap+0f,
                               -0x1.d2300ep+0f, -0x1.9ff448p-2f, -0x1.3a00a8p-3f},
                    y.row(0));
          }
        }
        check("the digest of linear", 0xd57dc974caa3e7d3, digest);
      }
    }
  }
}

namespace {

// Head 0 of the last row by flash attention, and digests of both attentions, over keys and values stored as E.
template <class E>
void check_attention(const std::array<float, 8>& last, std::uint64_t flash_digest, std::uint64_t direct_digest,
                     int window = 0, const float* slopes = nullptr) {
  constexpr int length = 330, head_dim = 20;
  const Matrix q = random_matrix(length, 2 * head_dim, 1, 2 * head_dim, 4.0f), k = random_matrix(length, head_dim, 2),
               v = random_matrix(length, head_dim, 3);
  using View = typename TestKvOf<E>::View;
  for (const Isa isa : isas()) {
    Cpu device({.threads = 2, .isa = isa});
    TestKvOf<E> kv({.layers = 1, .heads = 1, .head_dim = head_dim, .positions = length}, 1);
    Batch batch;
    append(batch, 0, 0, length);
    kv.see(batch.view());
    store_kv(device, StoreKvArgs<View>{batch.view(), k.view(), v.view(), kv.view(), 0, 1, head_dim});
    BOOST_TEST_CONTEXT(to_string(isa)) {
      Matrix flash(length, 2 * head_dim, 2 * head_dim), direct = flash;
      const AttentionArgs<View> args{batch.view(), q.view(), kv.view(),    0,      2,     1,
                                     head_dim,     0.25f,    flash.view(), window, slopes};
      auto other = args;
      other.out = direct.view();
      attention(device, FlashAttention{}, args);
      attention(device, DirectAttention{}, other);
      check("flash attention", last, flash.row(length - 1));
      Digest of_flash, of_direct;
      of_flash.add(flash);
      of_direct.add(direct);
      check("the digest of flash attention", flash_digest, of_flash);
      check("the digest of direct attention", direct_digest, of_direct);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(known_answers_of_attention) {
  check_attention<float>({0x1.68febcp-5f, 0x1.0ed6b8p-4f, 0x1.93f21ap-5f, -0x1.c28172p-4f, 0x1.4f36p-3f, 0x1.a7bfecp-6f,
                          0x1.1ea8bcp-4f, 0x1.78690ep-6f},
                         0x61844bbaad0da4e7, 0xd65b0f37e6cc7c6f);
}
BOOST_AUTO_TEST_CASE(known_answers_of_attention_over_bfloat16) {
  check_attention<bfloat16>({0x1.65cbc8p-5f, 0x1.0f885cp-4f, 0x1.932a6cp-5f, -0x1.c13b92p-4f, 0x1.4f1fdep-3f,
                             0x1.ac97cep-6f, 0x1.1d5e28p-4f, 0x1.7f831ep-6f},
                            0xb3d3ad8f8b769bb1, 0x96aec77fe9ad3927);
}
BOOST_AUTO_TEST_CASE(known_answers_of_attention_over_float16) {
  check_attention<float16>({0x1.68005ep-5f, 0x1.0ec10cp-4f, 0x1.932192p-5f, -0x1.c28c98p-4f, 0x1.4f1d72p-3f,
                            0x1.a83a88p-6f, 0x1.1e76e4p-4f, 0x1.79bfc8p-6f},
                           0x3f25a26e0fb5a21e, 0xc10e505aa5f1c4fd);
}
BOOST_AUTO_TEST_CASE(known_answers_of_attention_over_int8) {
  check_attention<std::int8_t>({0x1.6549d8p-5f, 0x1.0b794ap-4f, 0x1.8c6c7ep-5f, -0x1.c4f376p-4f, 0x1.4f5d4cp-3f,
                                0x1.ac63b6p-6f, 0x1.1cc5f8p-4f, 0x1.7be05cp-6f},
                               0xc69738ebc837272f, 0x4018b251d3e8356f);
}

BOOST_AUTO_TEST_CASE(known_answers_of_attention_with_window_and_slopes) {
  constexpr std::array<float, 2> slopes = {0.0625f, 0x1.6a09e6p-6f};
  check_attention<float>({-0x1.0a63cp-2f, 0x1.1d404ep-3f, 0x1.6eb73p-3f, -0x1.005b94p-1f, 0x1.0efc3ep-3f,
                          0x1.441ffcp-7f, -0x1.5dfa56p-10f, -0x1.455f9ep-2f},
                         0x11e35abc55979e83, 0xa2993d9fc8b5efce, 100, slopes.data());
  check_attention<bfloat16>({-0x1.09d6bap-2f, 0x1.1de148p-3f, 0x1.6e4b76p-3f, -0x1.0072ecp-1f, 0x1.0eb3c4p-3f,
                             0x1.55c2e2p-7f, -0x1.7172bap-10f, -0x1.452d92p-2f},
                            0xc0b9cf471b35b828, 0xcb1a100010fc14a0, 100, slopes.data());
  check_attention<std::int8_t>({-0x1.0ab4eep-2f, 0x1.1d04a6p-3f, 0x1.6e0426p-3f, -0x1.0125cap-1f, 0x1.13ecc8p-3f,
                                0x1.55dda4p-7f, -0x1.b1c9b6p-10f, -0x1.463e52p-2f},
                               0x67054f87de358964, 0x296276425015850, 100, slopes.data());
}

// The inverse test of known answers: one different bit is detected.
BOOST_AUTO_TEST_CASE(a_digest_sees_one_bit) {
  Matrix m = random_matrix(3, 50, 1);
  Digest before, after;
  before.add(m);
  m.row(2)[49] = std::nextafterf(m.row(2)[49], 9.0f);
  after.add(m);
  BOOST_TEST(before.value != after.value);
}

// Both sides of every threshold are among the row counts of all equivalence tests.
BOOST_AUTO_TEST_CASE(row_counts_hold_both_sides_of_every_threshold) {
  std::vector<int> thresholds = {4};  // rows.h: rows from which threads share the work
  for (const auto& [wide, most] : {
         std::array{cpu::portable::kWideTokens, cpu::portable::kTokens},
#if defined(__x86_64__)
             std::array{cpu::avx2::kWideTokens, cpu::avx2::kTokens},
             std::array{cpu::avx512::kWideTokens, cpu::avx512::kTokens}, std::array {
           cpu::avx512::kTokens, cpu::avx512::kLoneTokens
         }
#endif
       }) {
    for (const int path : {1, wide, most, 2 * most}) thresholds.push_back(path);
  }
  // dot.inc: of pairs and bytes, then of groups
  for (const auto& [wide, most] : {
         std::array{cpu::portable::kDotWideTokens, cpu::portable::kDotTokens},
             std::array{cpu::portable::kGroupWideTokens, cpu::portable::kGroupTokens},
#if defined(__x86_64__)
             std::array{cpu::avx2_dot::kDotWideTokens, cpu::avx2_dot::kDotTokens},
             std::array{cpu::avx2_dot::kGroupWideTokens, cpu::avx2_dot::kGroupTokens},
             std::array{cpu::avx2_vnni::kDotWideTokens, cpu::avx2_vnni::kDotTokens},
             std::array{cpu::avx2_vnni::kGroupWideTokens, cpu::avx2_vnni::kGroupTokens},
             std::array{cpu::avx512_dot::kDotWideTokens, cpu::avx512_dot::kDotTokens}, std::array {
           cpu::avx512_dot::kGroupWideTokens, cpu::avx512_dot::kGroupTokens
         }
#endif
       }) {
    for (const int path : {wide, most, 2 * most}) thresholds.push_back(path);
  }
  thresholds.push_back(cpu::kAttentionRows);
  thresholds.push_back(cpu::kAttentionQueries);
  for (const int t : thresholds) {
    for (const int rows : {std::max(1, t - 1), t, t + 1}) {
      BOOST_TEST((std::find(std::begin(kRows), std::end(kRows), rows) != std::end(kRows)),
                 rows << " rows are not tested");
    }
  }
  for (const Isa isa : isas()) {
    const auto tile = cpu::panel_kernels_for<CodePanels<float>>(isa).tile_tokens;
    for (int rows = 1; rows < kMostRows; ++rows) {
      if (tile(rows) == tile(rows + 1)) continue;
      BOOST_TEST((std::find(thresholds.begin(), thresholds.end(), rows) != thresholds.end()),
                 "the tile changes behind " << rows);
    }
  }
}

BOOST_AUTO_TEST_CASE(tiles_of_tokens_cover_all_rows_evenly) {
  for (int tokens = 1; tokens <= 300; ++tokens) {
    for (const int most : {1, 4, 6, 12, 16}) {
      const cpu::TokenTiles tiles{tokens, most};
      BOOST_REQUIRE(tiles.begin(0) == 0);
      BOOST_REQUIRE(tiles.begin(tiles.count()) == tokens);
      for (int i = 0; i < tiles.count(); ++i) {
        const int size = tiles.begin(i + 1) - tiles.begin(i);
        BOOST_REQUIRE((size >= tokens / tiles.count() && size <= most && size <= tokens / tiles.count() + 1));
      }
    }
  }
}

// Reads and writes end where the memory ends, before a protected page.
BOOST_AUTO_TEST_CASE(rows_are_interleaved_within_their_memory) {
  for (const Isa isa : isas()) {
    for (int count = 1; count <= 17; ++count) {
      for (const int units : {1, 3, 15, 16, 17, 31, 48, 67}) {
        const Matrix rows = random_matrix(count, units, static_cast<std::uint64_t>(count * 100 + units), units + 3);
        const GuardedFloats out(static_cast<std::size_t>(count * units));
        cpu::kernels_for(isa).interleave(rows.row(0), rows.stride, units, count, out.data());
        for (int u = 0; u < units; ++u) {
          for (int r = 0; r < count; ++r)
            BOOST_TEST_REQUIRE(same_bits(out.data() + u * count + r, rows.row(r) + u, 1), to_string(isa));
        }
      }
    }
  }
}

// Any run of panels gives the panels' own outputs and reads no more than it must: weights, rows and bias end at a page.
BOOST_AUTO_TEST_CASE(any_run_of_panels_is_the_same) {
  constexpr int in = 20, out = 131, panels = 9;
  const Matrix x = random_matrix(13, in, 1), w = random_matrix(out, in, 2), bias = random_matrix(1, out, 3),
               residual = random_matrix(13, out, 4);
  const Packed<Float32> packed(w);
  for (const Isa isa : isas()) {
    const auto& kernels = cpu::panel_kernels_for<CodePanels<float>>(isa);
    for (const int rows : {1, 2, 6, 7, 8, 9, 12, 13}) {
      // Tiles of [in, tokens], as pack_tiles lays them out.
      GuardedFloats tiles(static_cast<std::size_t>(rows * in));
      const cpu::TokenTiles of{rows, kernels.tile_tokens(rows)};
      float* next = tiles.data();
      for (int i = 0; i < of.count(); ++i) {
        for (int k = 0; k < in; ++k) {
          for (int r = of.begin(i); r < of.begin(i + 1); ++r) *next++ = x.row(r)[k];
        }
      }
      const auto run = [&](int first, int last) {
        Matrix y(rows, out, out);
        cpu::PanelJob job{rows,
                          in,
                          out,
                          tiles.data(),
                          nullptr,
                          bias.row(0),
                          nullptr,
                          Activation::gelu_new,
                          residual.row(0),
                          residual.stride,
                          y.row(0),
                          y.stride};
        kernels.multiply(job, packed.view().panels(), first, last, first * kPanelRows);
        return y;
      };
      const Matrix whole = run(0, panels);
      for (int first = 0; first < panels; ++first) {
        for (int last = first; last <= panels; ++last) {
          const Matrix y = run(first, last);
          for (int r = 0; r < rows; ++r) {
            for (int o = 0; o < out; ++o) {
              const bool meant = o >= first * 16 && o < last * 16;
              BOOST_REQUIRE(same_bits(y.row(r) + o, meant ? whole.row(r) + o : &kGap, 1));
            }
          }
        }
      }
    }
  }
}

// Scratch, scores, queries, slopes, cache and output end at protected pages.
BOOST_AUTO_TEST_CASE_TEMPLATE(attention_stays_within_its_memory, E, Elements) {
  using View = typename TestKvOf<E>::View;
  for (const int head_dim : {1, 4, 15, 16, 17, 20, 64, 80, 128, 256}) {
    constexpr int length = 19, heads = 2;
    TestKvOf<E> kv({.layers = 1, .heads = 1, .head_dim = head_dim, .positions = length}, 1);
    const Matrix k = random_matrix(length, head_dim, 1), v = random_matrix(length, head_dim, 2),
                 q = random_matrix(length, heads * head_dim, 3);
    const Matrix slopes = random_matrix(1, heads, 4);
    Batch batch;
    append(batch, 0, 0, length);
    kv.see(batch.view());
    const auto view = kv.view();
    reference::store_kv(StoreKvArgs<View>{batch.view(), k.view(), v.view(), view, 0, 1, head_dim});
    for (const Isa isa : isas()) {
      for (const int window : {0, 5}) {
        const auto& kernels = cpu::attention_kernels_for<E>(isa);
        Matrix out(length, heads * head_dim, heads * head_dim);
        const AttentionArgs<View> args{batch.view(),
                                       q.view(),
                                       view,
                                       0,
                                       heads,
                                       1,
                                       head_dim,
                                       0.25f,
                                       out.view(),
                                       window,
                                       window > 0 ? slopes.row(0) : nullptr};
        GuardedFloats scratch(cpu::attention_scratch(length * heads, head_dim), kNaN);
        const cpu::KernelTiles<View> tiles(args, nullptr);
        kernels.flash_rows(cpu::flash_job(args, {0, 0, length, 0, 0, heads}, tiles), scratch.data());
        for (int i = 0; i < length * heads; ++i) {
          const int r = i / heads, h = i % heads;
          const float* flash = out.row(r) + h * head_dim;                                 // [head_dim]
          for (int d = 0; d < head_dim; ++d) BOOST_REQUIRE(std::fabs(flash[d]) <= 1.0f);  // a mean of values
          GuardedFloats scores(64, kNaN), little_scratch(cpu::attention_scratch(1, head_dim), kNaN);
          Matrix direct = out;
          auto other = args;
          other.out = direct.view();
          kernels.direct_row(cpu::flash_job(other, {0, r, 1, 0, h, 1}, tiles), scores.data(), little_scratch.data());
          for (int d = 0; d < head_dim; ++d)
            BOOST_REQUIRE(std::fabs(direct.row(r)[h * head_dim + d] - flash[d]) <= 1e-6f);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_best_instruction_set_is_the_default) {
  BOOST_TEST((Cpu{}.isa() == best_isa()));
  if (best_isa() != Isa::portable) BOOST_TEST(&cpu::kernels_for(Isa::portable) != &cpu::kernels_for(best_isa()));
}

BOOST_AUTO_TEST_SUITE_END()
