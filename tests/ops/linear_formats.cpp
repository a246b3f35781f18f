// linear over every weight format with float32 activations: the bits of one definition in any batch, on any number of
// threads, in any instruction set. Only the format's memory is read.
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <optional>
#include <tuple>

#include "linear_problem.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/float16.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/group_int8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/normal_float4.h"

BOOST_AUTO_TEST_SUITE(ops_linear_formats)

using namespace tenon;
using namespace tenon::test;

using Formats =
    std::tuple<Float32, BFloat16, Float16, Float8<E4M3>, Float8<E5M2>, ZeroPointInt8, ZeroPointInt8Of<PerTensor>,
               GroupInt4Of<32>, GroupInt4Of<64>, GroupInt4Of<128>, GroupInt8, NormalFloat4>;
// One format of each layout.
using Layouts = std::tuple<Float32, BFloat16, Float16, Float8<E4M3>, Float8<E5M2>, ZeroPointInt8, GroupInt4, GroupInt8,
                           NormalFloat4>;
using Codes = std::tuple<float, bfloat16, float16, float8<E4M3>, float8<E5M2>, std::int8_t>;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// ---- the definition (docs/numerics.md) in plain code: one chain of fused multiply-adds per output

// In sixteen strips, added in a tree.
float sum_of(const float* x, int n) {
  std::array<float, 16> strips{};
  for (int i = 0; i < n; ++i) strips[static_cast<std::size_t>(i % 16)] += x[i];
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) strips[i] += strips[i + half];
  }
  return strips[0];
}

template <class Code>
float product(const CodePanels<Code>& w, int row, const float* x) {
  float sum = 0;
  for (int k = 0; k < w.cols; ++k) sum = std::fma(static_cast<float>(w.panel(row / 16)[k * 16 + row % 16]), x[k], sum);
  const std::ptrdiff_t at = w.scale_at(row);
  if (w.zero_points) sum = std::fma(w.zero_points[at], -sum_of(x, w.cols), sum);
  return w.scales ? std::fma(sum, w.scales[at], 0.0f) : sum;  // + 0: a zero is never negative
}

// The factor of x in the chain of a group.
template <class Panels>
float nibble(const Panels& w, int row, int k) {
  return static_cast<float>(w.codes[(row / 16 * w.words() + k / 8) * 16 + row % 16] >> (k % 8 * 4) & 15u);
}
float factor(const Int4Panels& w, int row, int k) { return nibble(w, row, k); }
float factor(const NormalFloat4Panels& w, int row, int k) {
  return kNormalFloat4.values[static_cast<int>(nibble(w, row, k))];
}
float factor(const GroupInt8Panels& w, int row, int k) {
  return static_cast<float>(w.codes[(row / 16 * w.words() * 4 + k) * 16 + row % 16]);
}
template <class Panels>
float scale_of(const Panels& w, int row, int group) {
  return static_cast<float>(w.scales[(row / 16 * w.groups() + group) * 16 + row % 16]);
}

// One chain for each group, then one over the groups.
template <class Panels>
requires requires(Panels w) { w.groups(); }
float product(const Panels& w, int row, const float* x) {
  float total = 0;
  for (int g = 0; g < w.groups(); ++g) {
    const int first = g * w.group, last = std::min(first + w.group, w.cols);
    float sum = std::is_same_v<Panels, Int4Panels> ? -8.0f * sum_of(x + first, last - first) : 0.0f;
    for (int k = first; k < last; ++k) sum = std::fma(factor(w, row, k), x[k], sum);
    total = std::fma(sum, scale_of(w, row, g), total);
  }
  return total;
}

// Magnitudes of all terms of an output: the measure of rounding.
template <class Code>
double terms(const CodePanels<Code>& w, int row, const float* x) {
  const std::ptrdiff_t at = w.scale_at(row);
  const double zero = w.zero_points ? std::fabs(w.zero_points[at]) : 0, scale = w.scales ? std::fabs(w.scales[at]) : 1;
  double sum = 0;
  for (int k = 0; k < w.cols; ++k) {
    sum += (std::fabs(static_cast<float>(w.panel(row / 16)[k * 16 + row % 16])) + zero) * std::fabs(x[k]);
  }
  return sum * scale;
}
template <class Panels>
requires requires(Panels w) { w.groups(); }
double terms(const Panels& w, int row, const float* x) {
  const double zero = std::is_same_v<Panels, Int4Panels> ? 8 : 0;
  double sum = 0;
  for (int k = 0; k < w.cols; ++k)
    sum += (std::fabs(factor(w, row, k)) + zero) * std::fabs(scale_of(w, row, k / w.group) * x[k]);
  return sum;
}

// ---- problems

// Rows of different sizes, one of zeros, one of a single sign.
Matrix uneven(const Matrix& m) {
  Matrix w = m;
  for (int r = 0; r < w.rows; ++r) {
    for (int c = 0; c < w.cols; ++c)
      w.row(r)[c] = r % 16 == 3 ? 0.0f : std::ldexp(r % 16 == 5 ? std::fabs(w.row(r)[c]) : w.row(r)[c], r % 7 - 3);
  }
  return w;
}

template <class P>
struct Products : Problem {
  Packed<P> packed;
  Matrix products;  // by definition, of every row

  Products(int inputs, int outputs)
      : Problem(inputs, outputs), packed(uneven(weight)), products(kMostRows, outputs, outputs) {
    compute();
  }
  void compute() {
    for (int r = 0; r < kMostRows; ++r) {
      for (int o = 0; o < out; ++o) products.row(r)[o] = product(packed.view().panels(), o, x.row(r));
    }
  }
  // With the epilogue.
  Matrix truth(const Epilogue& e) const { return finished(products, e); }
};

constexpr std::array kFewRows = {1, 2, 4, 5, 6, 7, 12, 13, 25};
const std::vector<int>& many_rows() {
  static const std::vector<int> all = [] {
    std::vector<int> rows;
    for (int r = 1; r <= 40; ++r) rows.push_back(r);
    rows.push_back(kMostRows);
    return rows;
  }();
  return all;
}

template <class Code>
CodePanels<Code> guarded(CodePanels<Code> w, std::vector<GuardedFloats>& keep) {
  const std::size_t panels = panel_count(w.rows), scales = w.scale_stride == 0 ? 16 : panels * 16;
  w.codes = guarded(w.codes, panels * 16 * static_cast<std::size_t>(w.cols), keep);
  if (w.scales) w.scales = guarded(w.scales, scales, keep);
  if (w.zero_points) w.zero_points = guarded(w.zero_points, scales, keep);
  return w;
}
template <class Panels>
requires requires(Panels w) { w.groups(); }
Panels guarded(Panels w, std::vector<GuardedFloats>& keep) {
  w.codes = guarded(w.codes, panel_count(w.rows) * 64 / sizeof(*w.codes) * static_cast<std::size_t>(w.words()), keep);
  w.scales = guarded(w.scales, panel_count(w.rows) * 16 * static_cast<std::size_t>(w.groups()), keep);
  return w;
}

}  // namespace

// ---------------------------------------------------------------- bits

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_have_the_bits_of_the_definition, P, Formats) {
  struct Size {
    int in, out;
  };
  int number = 0;
  for (const Size size : {Size{100, 131},
                          {1, 1},
                          {7, 16},
                          {8, 64},
                          {31, 5},
                          {32, 48},
                          {33, 17},
                          {63, 80},
                          {65, 33},
                          {129, 31},
                          {200, 65}}) {
    const Products<P> p(size.in, size.out);
    const bool all = number++ == 0;
    const auto& batches = all ? std::span<const int>(many_rows()) : std::span<const int>(kFewRows);
    // One epilogue after another. The first shape takes all, one for each instruction set and thread count.
    std::array<std::optional<Matrix>, std::size(kEpilogues)> truths;
    int next = number;
    for_each_cpu(
        [&](Cpu& device) {
          const std::size_t i = static_cast<std::size_t>(all ? next++ : number) % std::size(kEpilogues);
          if (!truths[i]) truths[i] = p.truth(kEpilogues[i]);
          const int bad = first_variant_batch(
              p, p.packed.view(), kEpilogues[i], *truths[i], [&](const auto& args) { linear(device, args); }, batches);
          BOOST_TEST(bad == 0, name_of(device)
                                   << ": " << size.in << " -> " << size.out << " differs in a batch of " << bad);
        },
        all ? 3 : 1 + number % 3);
  }
}

// The inverse tests: the same comparison detects another order of summation, and one different code.
BOOST_AUTO_TEST_CASE_TEMPLATE(another_order_or_another_code_is_caught, P, Formats) {
  const Epilogue& plain = kEpilogues[0];
  Products<P> p(100, 33);
  Cpu device({.threads = 1});
  const auto caught = [&](auto&& weight) {
    return first_variant_batch(
        p, weight, plain, p.truth(plain), [&](const auto& args) { linear(device, args); }, kFewRows);
  };
  BOOST_TEST(caught(p.packed.view()) == 0);
  if constexpr (!std::is_same_v<P,
                                Float32>) {  // the order of float32 weights, without scales and sums of x
    BOOST_TEST(caught(Packed<ColumnMajor>(uneven(p.weight)).view()) == 1);
  }
  // A bit of column 99 of row 32, alone in its panel. It is the lowest bit, except for float32, whose lowest would be
  // lost in the sum. With four bits, column 99 is bits 12 to 15 of a word.
  auto* bytes = reinterpret_cast<unsigned char*>(p.packed.stored.data());
  using Panels = std::decay_t<decltype(p.packed.view().panels())>;
  if constexpr (std::is_same_v<Panels, Int4Panels> || std::is_same_v<Panels, NormalFloat4Panels>) {
    bytes[((2 * 13 + 12) * 16) * 4 + 1] ^= 0x10;
  } else if constexpr (std::is_same_v<P, GroupInt8>) {
    bytes[2 * 100 * 16 + 99 * 16] ^= 1;
  } else {
    const auto code = reinterpret_cast<const unsigned char*>(p.packed.view().panels().panel(2) + 99 * 16) - bytes;
    bytes[code + (std::is_same_v<P, Float32> ? 2 : 0)] ^= 1;
  }
  BOOST_TEST(caught(p.packed.view()) == 1);
}

// Weights and activations of every size: the bits are the same with subnormal numbers and with overflowing sums.
BOOST_AUTO_TEST_CASE_TEMPLATE(numbers_of_every_size_have_the_same_bits, P, Formats) {
  Products<P> p(77, 33);
  Random random(4);
  Matrix weights = p.weight;
  for (int o = 0; o < p.out; ++o) {
    for (int k = 0; k < p.in; ++k) weights.row(o)[k] = std::ldexp(random.uniform(), 15 - random.below(60));
  }
  for (int r = 0; r < kMostRows; ++r) {
    const int top = r % 4 == 0 ? -110 : r % 4 == 1 ? 100 : 20;
    for (int k = 0; k < p.in; ++k) p.x.row(r)[k] = std::ldexp(random.uniform(), top - random.below(40));
  }
  const Packed<P> packed(weights);
  const Matrix truth = alone(p, packed.view(), kEpilogues[0]);
  for_each_cpu(
      [&](Cpu& device) {
        const int bad = first_variant_batch(
            p, packed.view(), kEpilogues[0], truth, [&](const auto& args) { linear(device, args); }, kFewRows);
        BOOST_TEST(bad == 0, name_of(device) << " differs in a batch of " << bad);
      },
      1);
}

// A weight of every code, times 1: kernels widen a code to its meaning.
template <class Code, class Bits>
void check_every_code(int codes, float scale) {
  GuardedFloats stored(static_cast<std::size_t>(codes) * sizeof(Code) / sizeof(float)),
      scales(static_cast<std::size_t>(codes), scale);
  CodePanels<Code> panels;
  std::vector<Code> all(static_cast<std::size_t>(codes));
  for (int i = 0; i < codes; ++i) all[static_cast<std::size_t>(i)] = std::bit_cast<Code>(static_cast<Bits>(i));
  std::memcpy(stored.data(), all.data(), all.size() * sizeof(Code));
  panels.codes = reinterpret_cast<const Code*>(stored.data());
  panels.scales = scale != 0 ? scales.data() : nullptr;
  panels.rows = codes;
  panels.cols = 1;
  for (const Isa isa : isas()) {
    Cpu device({.threads = 1, .isa = isa});
    for (const int rows : {1, 2, 7}) {
      const Matrix x(rows, 1, 1, 1.0f);
      Matrix y(rows, codes, codes);
      linear(device, LinearArgs<Bare<CodePanels<Code>>>{.x = x.view(), .weight = {panels}, .y = y.view()});
      int wrong = 0;
      for (int i = 0; i < codes; ++i) {
        if constexpr (requires(Code c) { finite(c); }) {
          if (!finite(all[static_cast<std::size_t>(i)])) continue;
        }
        const float expected = static_cast<float>(all[static_cast<std::size_t>(i)]) * (scale != 0 ? scale : 1.0f);
        for (int r = 0; r < rows; ++r)
          wrong += !(y.row(r)[i] == expected || (std::isnan(expected) && std::isnan(y.row(r)[i])));
      }
      BOOST_TEST(wrong == 0, to_string(isa) << ", " << rows << " rows, scale " << scale << ": " << wrong << " codes");
    }
  }
}
BOOST_AUTO_TEST_CASE(every_code_is_widened_to_what_it_means) {
  check_every_code<std::int8_t, std::uint8_t>(256, 3.0f);
  check_every_code<float8<E4M3>, std::uint8_t>(256, 3.0f);
  check_every_code<float8<E5M2>, std::uint8_t>(256, 3.0f);
  check_every_code<float16, std::uint16_t>(65536, 0.0f);
  check_every_code<bfloat16, std::uint16_t>(65536, 0.0f);
}
// Without scales, a scale is 1, and any code may have scales (core/panels.h).
BOOST_AUTO_TEST_CASE(every_code_may_have_scales_and_none) {
  check_every_code<std::int8_t, std::uint8_t>(256, 0.0f);
  check_every_code<float8<E4M3>, std::uint8_t>(256, 0.0f);
  check_every_code<float8<E5M2>, std::uint8_t>(256, 0.0f);
  check_every_code<float16, std::uint16_t>(65536, 3.0f);
  check_every_code<bfloat16, std::uint16_t>(65536, 3.0f);
}

// A format of symmetric int8, or of bfloat16 with row scales, would be like this: the layout allows it, the library has
// none.
BOOST_AUTO_TEST_CASE_TEMPLATE(zero_points_and_scales_are_each_optional, Code, Codes) {
  const Problem p(37, 21);
  std::vector<Code> codes(2 * 16 * 37);
  Random random(8);
  for (Code& code : codes) code = static_cast<Code>(std::ldexp(random.uniform(), 6));
  const Matrix scales = random_matrix(1, 32, 9), zero_points = random_matrix(1, 32, 10, 0, 64.0f);
  for (const bool scaled : {false, true}) {
    for (const bool shifted : {false, true}) {
      for (const int stride : {0, 16}) {
        CodePanels<Code> panels;
        panels.codes = codes.data();
        panels.scales = scaled ? scales.row(0) : nullptr;
        panels.zero_points = shifted ? zero_points.row(0) : nullptr;
        panels.scale_stride = stride;
        panels.rows = p.out;
        panels.cols = p.in;
        Matrix truth(kMostRows, p.out, p.out);
        for (int r = 0; r < kMostRows; ++r) {
          for (int o = 0; o < p.out; ++o) truth.row(r)[o] = product(panels, o, p.x.row(r));
        }
        for_each_cpu(
            [&](Cpu& device) {
              const int bad = first_variant_batch(
                  p, Bare<CodePanels<Code>>{panels}, kEpilogues[0], truth,
                  [&](const auto& args) { linear(device, args); }, kFewRows);
              BOOST_TEST(bad == 0, name_of(device) << ", scales " << scaled << ", zero points " << shifted
                                                   << ": a batch of " << bad);
            },
            1);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_nibble_stands_for_its_code) {
  // Row o has code (o + column) % 16 and scale 1. Activations are powers of two, one column at a time.
  constexpr int cols = 40;
  Matrix weights(16, cols, cols);
  for (int o = 0; o < 16; ++o) {
    for (int k = 0; k < cols; ++k) weights.row(o)[k] = static_cast<float>((o + k) % 16 - 8);
  }
  const Packed<GroupInt4> packed(weights);
  for (const Isa isa : isas()) {
    Cpu device({.threads = 1, .isa = isa});
    for (const int rows : {1, 2, 7}) {
      for (int k = 0; k < cols; ++k) {
        Matrix x(rows, cols, cols, 0.0f), y(rows, 16, 16);
        for (int r = 0; r < rows; ++r) x.row(r)[k] = std::ldexp(1.0f, r);
        linear(device, LinearArgs<GroupInt4::View>{.x = x.view(), .weight = packed.view(), .y = y.view()});
        for (int r = 0; r < rows; ++r) {
          for (int o = 0; o < 16; ++o) BOOST_REQUIRE(y.row(r)[o] == std::ldexp(packed.view().at(o, k), r));
        }
      }
    }
  }
}

// ---------------------------------------------------------------- values

// Rounding of a chain of n operations is at most n u of the magnitudes of its terms (Higham, 2002, section 3.1), u =
// 2^-24. The terms are the codes' and the zero points' products, which may cancel. Here n is at most the columns + 8,
// and half as many again with short groups. It counts the columns, a sum of x in sixteen strips and its tree (one
// sixteenth of them and 4), the products with zero point, scale or group, and at()'s own two roundings.
BOOST_AUTO_TEST_CASE_TEMPLATE(products_are_those_of_the_weights, P, Formats) {
  for (const int in : {1, 8, 33, 100, 129, 768}) {
    const Products<P> p(in, 37);
    const auto view = p.packed.view();
    constexpr int rows = 14;
    // Whether everything that `op` computes for the rows lies within the bound of float64 sums over at().
    const auto within = [&](auto&& op) {
      Matrix y = p.output(rows);
      op(p.args(view, kEpilogues[0], 0, rows, y));
      for (int r = 0; r < rows; ++r) {
        for (int o = 0; o < p.out; ++o) {
          double expected = 0;
          for (int k = 0; k < in; ++k) expected += static_cast<double>(view.at(o, k)) * p.x.row(r)[k];
          if (!(std::fabs(expected - y.row(r)[o]) <= 0x1p-24 * 1.01 * (in + 8) * terms(view.panels(), o, p.x.row(r))))
            return false;
        }
      }
      return true;
    };
    for (const Isa isa : isas()) {
      Cpu device({.threads = 1, .isa = isa});
      BOOST_TEST(within([&](const auto& args) { linear(device, args); }), to_string(isa) << ", " << in << " inputs");
      // The inverse tests: a missing last column, columns one place off, rows one place off.
      const auto with_x = [&](auto&& change) {
        return within([&](auto args) {
          Matrix x = random_matrix(rows, in, 1);
          for (int r = 0; r < rows; ++r) {
            for (int k = 0; k < in; ++k) x.row(r)[k] = change(args.x, r, k);
          }
          args.x = x.view();
          linear(device, args);
        });
      };
      BOOST_TEST(with_x([](const auto& x, int r, int k) { return x.row(r)[k]; }));
      BOOST_TEST(!with_x([](const auto& x, int r, int k) { return k + 1 < x.cols ? x.row(r)[k] : 0.0f; }));
      BOOST_TEST((in == 1 || !with_x([](const auto& x, int r, int k) { return x.row(r)[(k + 1) % x.cols]; })));
      BOOST_TEST(!with_x([](const auto& x, int r, int k) { return x.row((r + 1) % x.rows)[k]; }));
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_neighbour_of_nan_and_infinity_changes_nothing, P, Formats) {
  Products<P> p(77, 48);
  const Epilogue& e = kEpilogues[7];
  const Matrix truth = p.truth(e);
  for (int r = 1; r < kMostRows; r += 2) {
    p.x.row(r)[r % 77] = r % 4 == 1 ? kNaN : std::numeric_limits<float>::infinity();
    if (r % 8 == 3) p.x.row(r)[(r + 9) % 77] = -std::numeric_limits<float>::infinity();
  }
  for_each_cpu(
      [&](Cpu& device) {
        for (const int rows : {2, 5, 6, 7, 12, 13, 40, 129}) {
          Matrix y = p.output(rows);
          linear(device, p.args(p.packed.view(), e, 0, rows, y));
          for (int r = 0; r < rows; r += 2) BOOST_REQUIRE(same_bits(y.row(r), truth.row(r), 48));
          for (int r = 1; r < rows; r += 2) BOOST_REQUIRE(!std::isfinite(y.row(r)[0]));
        }
      },
      2);
}

// ---------------------------------------------------------------- a user's own formats

namespace {

// Decodes panels itself, NaN where there are no rows. at() must not be called.
struct Decoding {
  const Matrix* weights;
  float at(int, int) const { throw std::logic_error("a format that decodes panels is not read weight by weight"); }
  void decode(int panel, float* out) const {
    for (int k = 0; k < weights->cols; ++k) {
      for (int i = 0; i < 16; ++i)
        out[k * 16 + i] = panel * 16 + i < weights->rows ? weights->row(panel * 16 + i)[k] : kNaN;
    }
  }
};
static_assert(DecodesPanels<Decoding> && !HasPanels<Decoding>);

// Has panels, so decode() must not be called.
struct Both : Float32::View {
  explicit Both(const Float32::View& view) : Float32::View(view) {}
  void decode(int, float*) const { throw std::logic_error("a format with panels is not asked to decode them"); }
};
static_assert(DecodesPanels<Both> && HasPanels<Both>);

}  // namespace

BOOST_AUTO_TEST_CASE(formats_of_ones_own_have_the_bits_of_float32) {
  for (const int in : {1, 77}) {
    for (const int out : {1, 17, 131}) {
      const Products<Float32> p(in, out);
      const Matrix weights = uneven(p.weight);
      const Packed<ColumnMajor> columns(weights);
      int number = 0;
      for_each_cpu(
          [&](Cpu& device) {
            const Epilogue& e = kEpilogues[static_cast<std::size_t>(number++) % std::size(kEpilogues)];
            const Matrix truth = p.truth(e);
            const auto check = [&](const auto& weight, const char* what) {
              const auto& batches =
                  in == 77 && out == 17 ? std::span<const int>(many_rows()) : std::span<const int>(kFewRows);
              const int bad = first_variant_batch(
                  p, weight, e, truth, [&](const auto& args) { linear(device, args); }, batches);
              BOOST_TEST(bad == 0, name_of(device) << ", " << what << ": " << in << " -> " << out
                                                   << " differs in a batch of " << bad);
            };
            check(columns.view(), "at");
            check(Decoding{&weights}, "decode");
            check(Both(p.packed.view()), "panels");
          },
          3);
    }
  }
}

// ---------------------------------------------------------------- memory

// Codes, scales, zero points, activations, their sums, bias, residual and outputs each end at a protected page.
BOOST_AUTO_TEST_CASE_TEMPLATE(nothing_is_read_behind_its_end, P, Formats) {
  for (const int in : {1, 7, 32, 33, 100, 129}) {
    for (const int out : {1, 16, 33, 70}) {
      Products<P> p(in, out);
      std::vector<GuardedFloats> keep;
      check_reads_end(p, guarded(p.packed.view().panels(), keep));
    }
  }
}

// Any run of panels gives the panels' own outputs and touches no others. Activations in tiles, and their sums, end at
// pages.
BOOST_AUTO_TEST_CASE_TEMPLATE(any_run_of_panels_is_the_same, P, Layouts) {
  constexpr int in = 43, out = 131, panels = 9;
  Products<P> p(in, out);
  const auto layout = p.packed.view().panels();
  using Layout = std::decay_t<decltype(layout)>;
  for (const Isa isa : isas()) {
    Cpu device({.threads = 1, .isa = isa});
    const auto& kernels = cpu::panel_kernels_for<Layout>(isa);
    for (const int rows : {1, 2, 6, 7, 9, 13, 16}) {
      const cpu::ActivationPacking packing = cpu::packing_of(layout);
      GuardedFloats packed(packing.floats(rows, in), kNaN);
      cpu::PanelJob job{rows,    in, out,     p.x.row(0), nullptr, p.bias.row(0), nullptr, Activation::none,
                        nullptr, 0,  nullptr, out};
      cpu::pack_tiles(p.x.view(0, rows), kernels, packing, 0, cpu::TokenTiles{rows, kernels.tile_tokens(rows)}.count(),
                      packed.data());
      cpu::read_packed(job, packing, packed.data());
      const std::size_t tiles = packing.packs(rows) ? static_cast<std::size_t>(rows * in) : 0;
      GuardedFloats x(tiles);
      if (tiles > 0) {
        std::memcpy(x.data(), packed.data(), tiles * sizeof(float));
        job.x = x.data();
      }
      GuardedFloats widened(static_cast<std::size_t>(kernels.widened_floats(rows, in)), kNaN);
      for (int first = 0; first < panels; ++first) {
        for (int last = first; last <= panels; ++last) {
          if (first % 2 == 0)
            job.widened = widened.size() > 0 ? widened.data() : nullptr;
          else
            job.widened = nullptr;  // as if it did not fit
          Matrix y(rows, out, out);
          job.y = y.row(0);
          kernels.multiply(job, layout, first, last, first * 16);
          for (int r = 0; r < rows; ++r) {
            for (int o = 0; o < out; ++o) {
              const float expected = o >= first * 16 && o < last * 16 ? p.products.row(r)[o] + p.bias.row(0)[o] : kGap;
              BOOST_REQUIRE(same_bits(y.row(r) + o, &expected, 1));
            }
          }
        }
      }
    }
  }
}

// Panels are kept widened if several tiles of tokens walk them, they are not float32, and they fit
// CpuTuning::widened_bytes.
BOOST_AUTO_TEST_CASE_TEMPLATE(panels_are_kept_widened_where_that_helps, P, Formats) {
  using Layout = std::decay_t<decltype(std::declval<typename P::View>().panels())>;
  for (const Isa isa : isas()) {
    const auto& kernels = cpu::panel_kernels_for<Layout>(isa);
    const int most = kernels.tile_tokens(kMostRows);
    constexpr bool kNarrow = !std::is_same_v<Layout, CodePanels<float>>;
    int several = most + 1;  // rows that no single tile takes
    while (kernels.tile_tokens(several) >= several) ++several;
    const std::ptrdiff_t column = kernels.widened_floats(several, 1);
    BOOST_TEST(column % 16 == 0);
    BOOST_TEST((column > 0) == kNarrow);
    for (const int rows : {1, 2, most - 1, most, several - 1}) BOOST_TEST(kernels.widened_floats(rows, 768) == 0, rows);
    BOOST_TEST(kernels.widened_floats(several, 768) == 768 * column);
    if (!kNarrow) continue;
    const int fits = static_cast<int>((std::ptrdiff_t{576} << 10) / (4 * column));
    BOOST_TEST(kernels.widened_floats(several, fits) == fits * column);
    BOOST_TEST(kernels.widened_floats(several, fits + 1) == 0);
  }
}

// Outputs may begin elsewhere: the weight's panel 2 as output 0.
BOOST_AUTO_TEST_CASE_TEMPLATE(panels_may_stand_for_other_outputs, P, Layouts) {
  Products<P> p(43, 64);
  const auto layout = p.packed.view().panels();
  using Layout = std::decay_t<decltype(layout)>;
  for (const Isa isa : isas()) {
    Cpu device({.threads = 1, .isa = isa});
    const auto& kernels = cpu::panel_kernels_for<Layout>(isa);
    const cpu::ActivationPacking packing = cpu::packing_of(layout);
    GuardedFloats packed(packing.floats(2, 43));
    Matrix y(2, 20, 20);
    cpu::PanelJob job{2, 43, 20, nullptr, nullptr, nullptr, nullptr, Activation::none, nullptr, 0, y.row(0), 20};
    cpu::pack_tiles(p.x.view(0, 2), kernels, packing, 0, 1, packed.data());
    cpu::read_packed(job, packing, packed.data());
    kernels.multiply(job, layout, 2, 4, 0);
    for (int r = 0; r < 2; ++r) BOOST_TEST(same_bits(y.row(r), p.products.row(r) + 32, 20));
  }
}

#if defined(__x86_64__)
using WidenedAhead = std::tuple<Float8<E4M3>, Float8<E5M2>>;
using CodesWidenedAhead = std::tuple<float8<E4M3>, float8<E5M2>>;
constexpr cpu::Widening kWidenings[] = {cpu::Widening::in_registers, cpu::Widening::by_integers,
                                        cpu::Widening::by_vectors};

// The way that a processor takes is a matter of speed. All ways exist with AVX-512 and read no further than the codes.
BOOST_AUTO_TEST_CASE_TEMPLATE(codes_widened_ahead_are_the_same, P, WidenedAhead) {
  if (best_isa() < Isa::avx512) return;  // isas() says so
  using Layout = std::decay_t<decltype(std::declval<typename P::View>().panels())>;
  const auto ways = [](cpu::Widening how) { return cpu::avx512::panel_table<Layout>(how).multiply; };
  BOOST_TEST((ways(kWidenings[0]) != ways(kWidenings[1]) && ways(kWidenings[1]) != ways(kWidenings[2]) &&
              ways(kWidenings[2]) != ways(kWidenings[0])));
  for (const int inputs : {1, 15, 16, 17, 18, 31, 33, 77, 768}) {
    Products<P> p(inputs, 37);
    std::vector<GuardedFloats> keep;
    const Layout layout = guarded(p.packed.view().panels(), keep);
    for (const cpu::Widening how : kWidenings) {
      const auto& kernels = cpu::avx512::panel_table<Layout>(how);
      for (const int rows : {6, 7, 8, 9, 12, 13, 15, 16, 17, 24, 25}) {
        const cpu::ActivationPacking packing = cpu::packing_of(layout);
        GuardedFloats packed(packing.floats(rows, inputs));
        Matrix y(rows, 37, 37);
        cpu::PanelJob job{rows,    inputs,           37,      nullptr, nullptr,  nullptr,
                          nullptr, Activation::none, nullptr, 0,       y.row(0), 37};
        cpu::pack_tiles(p.x.view(0, rows), kernels, packing, 0,
                        cpu::TokenTiles{rows, kernels.tile_tokens(rows)}.count(), packed.data());
        cpu::read_packed(job, packing, packed.data());
        GuardedFloats widened(static_cast<std::size_t>(kernels.widened_floats(rows, inputs)), kNaN);
        if (widened.size() > 0) job.widened = widened.data();
        kernels.multiply(job, layout, 0, 3, 0);
        for (int r = 0; r < rows; ++r)
          BOOST_TEST(same_bits(y.row(r), p.products.row(r), 37),
                     rows << " rows of " << inputs << ", way " << static_cast<int>(how));
      }
    }
  }
}

// A row for every code, in each column of a line.
BOOST_AUTO_TEST_CASE_TEMPLATE(every_code_widened_ahead_is_the_same, Code, CodesWidenedAhead) {
  if (best_isa() < Isa::avx512) return;
  std::vector<Code> codes;
  for (int panel = 0; panel < 16; ++panel) {
    for (int i = 0; i < 4 * 16; ++i)
      codes.push_back(std::bit_cast<Code>(static_cast<std::uint8_t>(panel * 16 + i % 16)));
  }
  CodePanels<Code> panels;
  panels.codes = codes.data();
  panels.rows = 256;
  panels.cols = 4;
  for (const int tokens : {8, 12}) {
    const Matrix x(4, tokens, tokens, 1.0f);  // [inputs, tokens]
    std::vector<Matrix> y(3, Matrix(tokens, 256, 256));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const cpu::PanelJob job{tokens,           4,       256, x.row(0),    nullptr, nullptr, nullptr,
                              Activation::none, nullptr, 0,   y[i].row(0), 256};
      cpu::avx512::panel_table<CodePanels<Code>>(kWidenings[i]).multiply(job, panels, 0, 16, 0);
    }
    BOOST_TEST(same_bits(y[0], y[1]));
    BOOST_TEST(same_bits(y[0], y[2]));
    BOOST_TEST(y[2].row(tokens - 1)[0x38] == 4 * static_cast<float>(std::bit_cast<Code>(std::uint8_t{0x38})));
  }
}
#endif

BOOST_AUTO_TEST_CASE(sums_of_groups_are_strips_and_a_tree) {
  for (const Isa isa : isas()) {
    const auto& kernels = cpu::panel_kernels_for<CodePanels<std::int8_t>>(isa);
    for (int n = 1; n <= 140; ++n) {
      const Matrix x = random_matrix(1, n, static_cast<std::uint64_t>(n));
      for (const int group : {32, 64, 128, n}) {
        const int groups = (n + group - 1) / group;
        Matrix out(groups, 1, 3);  // three apart
        kernels.sum_groups(x.row(0), n, group, -8.0f, out.row(0), 3);
        for (int g = 0; g < groups; ++g) {
          const float expected = -8.0f * sum_of(x.row(0) + g * group, std::min(group, n - g * group));
          BOOST_REQUIRE(same_bits(out.row(g), &expected, 1));
        }
        BOOST_REQUIRE(gaps_untouched(out));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
