// linear over formats that round activations: the bits of one definition in any batch, on any number of threads, in any
// instruction set. The loss is what the definition of rounding says, and a token that is not finite spoils only itself.
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <tuple>

#include "linear_problem.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/int4_act8.h"
#include "tenon/weights/int8_act8.h"

BOOST_AUTO_TEST_SUITE(ops_linear_dot)

using namespace tenon;
using namespace tenon::test;

using Formats = std::tuple<ZeroPointInt8Act8, GroupInt4Act8Of<32>, GroupInt4Act8Of<64>, GroupInt4Act8Of<128>,
                           BFloat16Dot, BFloat16Amx>;
using Integers = std::tuple<ZeroPointInt8Act8, GroupInt4Act8Of<32>, GroupInt4Act8Of<64>, GroupInt4Act8Of<128>>;
using OfPairs = std::tuple<BFloat16Dot, BFloat16Amx>;

namespace {

template <class P>
constexpr bool kIsOfPairs = std::is_same_v<P, BFloat16Dot> || std::is_same_v<P, BFloat16Amx>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- the definition in plain code

// A row of x: integers and a scale, or bfloat16 numbers.
struct Rounded {
  std::vector<float> values;
  float scale = 1;
};
Rounded rounded_to_int8(const float* x, int n) {
  Rounded r{std::vector<float>(static_cast<std::size_t>(n)), int8_scale(x, n)};
  for (int k = 0; k < n && r.scale > 0; ++k) {
    const float inverse = 1.0f / r.scale;
    r.values[static_cast<std::size_t>(k)] = std::nearbyint(x[k] * inverse);
  }
  return r;
}
Rounded rounded(const Int8Quads&, const float* x, int n) { return rounded_to_int8(x, n); }
Rounded rounded(const Int4Quads&, const float* x, int n) { return rounded_to_int8(x, n); }
Rounded rounded_to_bfloat16(const float* x, int n) {
  Rounded r;
  for (int k = 0; k < n; ++k)
    r.values.push_back(std::fpclassify(x[k]) == FP_SUBNORMAL ? std::copysign(0.0f, x[k])
                                                             : static_cast<float>(bfloat16(x[k])));
  return r;
}
Rounded rounded(const BFloat16Pairs&, const float* x, int n) { return rounded_to_bfloat16(x, n); }
Rounded rounded(const BFloat16Blocks&, const float* x, int n) { return rounded_to_bfloat16(x, n); }

std::int64_t whole(const Rounded& x, int k) { return static_cast<std::int64_t>(x.values[static_cast<std::size_t>(k)]); }

float product(const Int8Quads& w, int row, const Rounded& x) {
  float total = 0;
  for (int begin = 0; begin < w.cols; begin += 65536) {
    std::int64_t sum = 0;
    for (int k = begin; k < std::min(begin + 65536, w.cols); ++k) {
      sum += (w.codes[((row / 16 * w.quads() + k / 4) * 16 + row % 16) * 4 + k % 4] - w.zero_points[row]) * whole(x, k);
    }
    total += static_cast<float>(sum);
  }
  return std::fma(std::fma(total, w.scales[row], 0.0f), x.scale, 0.0f);
}
float product(const Int4Quads& w, int row, const Rounded& x) {
  float total = 0;
  for (int g = 0; g < w.groups(); ++g) {
    std::int64_t sum = 0;
    for (int k = g * w.group; k < std::min((g + 1) * w.group, w.cols); ++k) {
      const int byte = w.codes[((row / 16 * w.words() + k / 8) * 16 + row % 16) * 4 + k % 4];
      sum += ((k % 8 < 4 ? byte & 15 : byte >> 4) - 8) * whole(x, k);
    }
    total = std::fma(static_cast<float>(sum), static_cast<float>(w.scales[(row / 16 * w.groups() + g) * 16 + row % 16]),
                     total);
  }
  return std::fma(total, x.scale, 0.0f);
}
template <class Layout>
float pair_weight(const Layout& w, int row, int k) {
  return static_cast<float>(w.codes[((row / 16 * w.pairs() + k / 2) * 16 + row % 16) * 2 + k % 2]);
}
// Nothing here is subnormal.
float product(const BFloat16Pairs& w, int row, const Rounded& x) {
  const auto at = [&](int k) { return pair_weight(w, row, k); };
  float sum = 0;
  for (int k = 0; k < w.cols; k += 2) {
    const auto i = static_cast<std::size_t>(k);
    sum = k + 1 < w.cols ? std::fma(at(k + 1), x.values[i + 1], sum) : sum + 0.0f;
    sum = std::fma(at(k), x.values[i], sum);
  }
  return sum;
}
float product(const BFloat16Blocks& w, int row, const Rounded& x) {
  float sum = 0;
  for (int begin = 0; begin < w.cols; begin += 32) {
    float chains[2] = {0, 0};
    for (int k = begin; k < begin + 32; ++k) {
      const bool is = k < w.cols;  // zeros after the last column
      chains[k % 2] = std::fma(is ? pair_weight(w, row, k) : 0.0f, is ? x.values[static_cast<std::size_t>(k)] : 0.0f,
                               chains[k % 2]);
    }
    sum += chains[0] + chains[1];
  }
  return sum;
}

// Rows of different sizes, one of zeros.
Matrix uneven(const Matrix& m) {
  Matrix w = m;
  for (int r = 0; r < w.rows; ++r) {
    for (int c = 0; c < w.cols; ++c) w.row(r)[c] = r % 16 == 3 ? 0.0f : std::ldexp(w.row(r)[c], r % 7 - 3);
  }
  return w;
}

template <class P>
struct Products : Problem {
  Packed<P> packed;
  Matrix products;  // by definition, of every row

  Products(int inputs, int outputs)
      : Problem(inputs, outputs), packed(uneven(weight)), products(kMostRows, outputs, outputs) {
    const auto panels = packed.view().panels();
    for (int r = 0; r < kMostRows; ++r) {
      const Rounded row = rounded(panels, x.row(r), in);
      for (int o = 0; o < out; ++o) products.row(r)[o] = product(panels, o, row);
    }
  }
  // With the epilogue.
  Matrix truth(const Epilogue& e) const { return finished(products, e); }
};

constexpr std::array kFewRows = {1, 2, 4, 5, 6, 7, 8, 12, 13, 25, 129};
const std::vector<int>& many_rows() {
  static const std::vector<int> all = [] {
    std::vector<int> rows;
    for (int r = 1; r <= 40; ++r) rows.push_back(r);
    rows.push_back(kMostRows);
    return rows;
  }();
  return all;
}

}  // namespace

// ---------------------------------------------------------------- bits

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_have_the_bits_of_the_definition, P, Formats) {
  std::size_t number = 0;
  for (const int in : {33, 1, 3, 5, 31, 100, 768}) {
    for (const int out : {33, 1, 15, 17, 131}) {
      if (in == 768 && out > 17) continue;  // plain C++ is slow
      const Products<P> p(in, out);
      const bool all = number++ == 0;  // every epilogue and batch for one shape
      for (std::size_t i = 0; i < (all ? std::size(kEpilogues) : 1); ++i) {
        const Epilogue& e = kEpilogues[(number + i) % std::size(kEpilogues)];
        const Matrix truth = p.truth(e);
        const auto& batches = all && i < 2 ? std::span<const int>(many_rows()) : std::span<const int>(kFewRows);
        for_each_cpu(
            [&](Cpu& device) {
              const auto view = p.packed.view();
              const int bad = first_variant_batch(
                  p, view, e, truth, [&](const auto& args) { linear(device, args); }, batches);
              BOOST_TEST(bad == 0, name_of(device) << ": " << in << " -> " << out << " differs in a batch of " << bad);
            },
            all ? 3 : 2);
      }
    }
  }
}

// The inverse test: the same comparison catches a scale shared by the batch.
BOOST_AUTO_TEST_CASE(a_scale_of_the_whole_batch_is_caught) {
  const Products<ZeroPointInt8Act8> p(33, 17);
  Cpu device({.threads = 1});
  const auto shared = [&](const auto& args) {
    float largest = 0;
    for (int r = 0; r < args.x.rows; ++r) {
      for (int k = 0; k < 33; ++k) largest = std::max(largest, std::fabs(args.x.row(r)[k]));
    }
    const auto panels = args.weight.panels();
    for (int r = 0; r < args.x.rows; ++r) {
      Rounded row{{}, largest / 127};
      for (int k = 0; k < 33; ++k) row.values.push_back(std::nearbyint(args.x.row(r)[k] * (1.0f / row.scale)));
      for (int o = 0; o < 17; ++o) args.y.row(r)[o] = product(panels, o, row);
    }
  };
  BOOST_TEST(first_variant_batch(p, p.packed.view(), kEpilogues[0], p.products, shared, many_rows()) == 2);
}

// ---------------------------------------------------------------- values

// Integers: sums are exact. A conversion, a scale or one fused multiply-add per group, another scale, and the rounding
// of at() itself, 2^-24 each. Pairs: at most one rounding per product.
BOOST_AUTO_TEST_CASE_TEMPLATE(products_are_those_of_the_weights_and_the_rounded_tokens, P, Formats) {
  constexpr int rows = 14, out = 37;
  for (const int in : {1, 5, 33, 100, 768}) {
    const Products<P> p(in, out);
    const auto view = p.packed.view();
    const bool pairs = kIsOfPairs<P>;
    const double roundings = pairs ? in + 1 : in / 32 + 6;
    // Whether everything that `op` computes lies within the bound of float64 sums over at().
    const auto within = [&](auto&& op) {
      Matrix y = p.output(rows);
      op(p.args(view, kEpilogues[0], 0, rows, y));
      for (int r = 0; r < rows; ++r) {
        const Rounded x = rounded(view.panels(), p.x.row(r), in);
        for (int o = 0; o < out; ++o) {
          double expected = 0, size = 0;
          for (int k = 0; k < in; ++k) {
            const double term = static_cast<double>(view.at(o, k)) * x.values[static_cast<std::size_t>(k)] * x.scale;
            expected += term;
            size += std::fabs(term);
          }
          if (!(std::fabs(expected - y.row(r)[o]) <= 0x1p-24 * 1.01 * roundings * size)) return false;
        }
      }
      return true;
    };
    const auto changed = [&](Cpu& device, auto&& change) {
      return within([&](auto args) {
        Matrix x(rows, in, in);
        for (int r = 0; r < rows; ++r) {
          for (int k = 0; k < in; ++k) x.row(r)[k] = change(args.x, r, k);
        }
        args.x = x.view();
        linear(device, args);
      });
    };
    for (const Isa isa : isas()) {
      Cpu device({.threads = 1, .isa = isa});
      BOOST_TEST(changed(device, [](const auto& x, int r, int k) { return x.row(r)[k]; }),
                 to_string(isa) << ", " << in << " inputs");
      // The inverse tests: a missing last column, columns one place off, rows one place off, tokens that are not
      // rounded.
      BOOST_TEST(!changed(device, [](const auto& x, int r, int k) { return k + 1 < x.cols ? x.row(r)[k] : 0.0f; }));
      BOOST_TEST((in == 1 || !changed(device, [](const auto& x, int r, int k) { return x.row(r)[(k + 1) % x.cols]; })));
      BOOST_TEST(!changed(device, [](const auto& x, int r, int k) { return x.row((r + 1) % x.rows)[k]; }));
      BOOST_TEST((!within([&](const auto& args) {
        for (int r = 0; r < rows; ++r) {
          for (int o = 0; o < out; ++o) {
            double sum = 0;
            for (int k = 0; k < in; ++k) sum += static_cast<double>(args.weight.at(o, k)) * args.x.row(r)[k];
            args.y.row(r)[o] = static_cast<float>(sum);
          }
        }
      }) || (in == 1 && !pairs)));  // with one column, the largest is exact
    }
  }
}

// A user's policy may have other groups than the library's, including some that do not divide a block of rounded
// columns.
BOOST_AUTO_TEST_CASE(groups_of_any_whole_words_have_the_bits_of_the_definition) {
  Random random(6);
  for (const int in : {9, 40, 257, 768}) {
    for (const int group : {8, 24, 48, 256, 512}) {
      Problem p(in, 33);
      std::vector<std::uint8_t> codes(3 * static_cast<std::size_t>((in + 7) / 8) * 64);
      std::vector<float16> scales(3 * static_cast<std::size_t>((in + group - 1) / group) * 16);
      for (auto& code : codes) code = static_cast<std::uint8_t>(random.below(256));
      for (auto& scale : scales) scale = float16(0.5f + random.uniform());
      const Bare<Int4Quads> weight{{codes.data(), scales.data(), group, 33, in}};
      Matrix truth(kMostRows, 33, 33);
      for (int r = 0; r < kMostRows; ++r) {
        const Rounded row = rounded(weight.packed, p.x.row(r), in);
        for (int o = 0; o < 33; ++o) truth.row(r)[o] = product(weight.packed, o, row);
      }
      for_each_cpu(
          [&](Cpu& device) {
            const int bad = first_variant_batch(
                p, weight, kEpilogues[0], truth, [&](const auto& args) { linear(device, args); }, kFewRows);
            BOOST_TEST(bad == 0, name_of(device) << ": " << in << " columns in groups of " << group
                                                 << " differ in a batch of " << bad);
          },
          2);
    }
  }
}

// Sums of 255 * 127 over more columns than an int32 holds, at both ends of the codes.
BOOST_AUTO_TEST_CASE(wide_rows_of_int8_do_not_overflow) {
  for (const int in : {65'536, 65'537, 140'001}) {
    Matrix x(13, in, in, 3.0f), weights(17, in, in, 1.0f);
    for (int k = 0; k < in; ++k) {
      x.row(1)[k] = -3.0f;
      x.row(2)[k] = k % 3 == 0 ? 3.0f : -3.0f;
      weights.row(1)[k] = -1.0f;
      weights.row(2)[k] = k < in / 2 ? 1.0f : -1.0f;
    }
    const Packed<ZeroPointInt8Act8> packed(weights);
    const auto view = packed.view();
    for (const Isa isa : isas()) {
      Cpu device({.threads = 2, .isa = isa});
      for (const int rows : {1, 3, 13}) {
        Matrix y(rows, 17, 17);
        linear(device, LinearArgs<ZeroPointInt8Act8::View>{.x = x.view(0, rows), .weight = view, .y = y.view()});
        for (int r = 0; r < rows; ++r) {
          const Rounded row = rounded(view.panels(), x.row(r), in);
          for (int o = 0; o < 17; ++o)
            BOOST_TEST_REQUIRE(y.row(r)[o] == product(view.panels(), o, row), to_string(isa) << ": " << r << ", " << o);
        }
        BOOST_TEST(y.row(0)[0] == static_cast<float>(3.0 * in), boost::test_tools::tolerance(1e-5f));
      }
    }
  }
}

// Tokens of zeros, and of numbers too small for a scale, are zeros. The largest numbers stay finite.
BOOST_AUTO_TEST_CASE_TEMPLATE(tokens_of_any_size_have_a_scale, P, Integers) {
  constexpr int in = 100, out = 17;
  Matrix weights = random_matrix(out, in, 2), x = random_matrix(4, in, 1);
  for (int k = 0; k < in; ++k) {
    x.row(0)[k] = k % 2 ? 0.0f : -0.0f;
    x.row(1)[k] *= 0x1p-126f;
    x.row(2)[k] *= 0x1p-118f;
    x.row(3)[k] = k == 7 ? std::numeric_limits<float>::max() : x.row(3)[k] * 0x1p120f;
  }
  const Packed<P> packed(weights);
  for (const Isa isa : isas()) {
    Cpu device({.threads = 1, .isa = isa});
    Matrix y(4, out, out);
    linear(device, LinearArgs<typename P::View>{.x = x.view(), .weight = packed.view(), .y = y.view()});
    for (int o = 0; o < out; ++o) {
      BOOST_TEST((y.row(0)[o] == 0 && y.row(1)[o] == 0 && y.row(2)[o] != 0 && std::isfinite(y.row(3)[o])));
      const double expected = static_cast<double>(packed.view().at(o, 7)) * x.row(3)[7];
      // a step is 2.7e36 = 2^121, and few other numbers reach one
      BOOST_TEST(std::fabs(y.row(3)[o] - expected) < 0x1p122);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_token_that_is_not_finite_spoils_itself_alone, P, Formats) {
  const Products<P> clean(77, 48);
  Products<P> p(77, 48);
  const Epilogue& e = kEpilogues[7];
  const Matrix truth = clean.truth(e);
  for (int r = 1; r < kMostRows; r += 2) {
    p.x.row(r)[r % 77] = r % 4 == 1 ? kNaN : kInfinity;
    if (r % 8 == 3) p.x.row(r)[(r + 9) % 77] = -kInfinity;
  }
  for_each_cpu(
      [&](Cpu& device) {
        for (const int rows : {2, 5, 6, 7, 12, 13, 40, 129}) {
          Matrix y = p.output(rows);
          linear(device, p.args(p.packed.view(), e, 0, rows, y));
          for (int r = 0; r < rows; r += 2) BOOST_REQUIRE(same_bits(y.row(r), truth.row(r), 48));
          for (int r = 1; r < rows; r += 2) {
            for (int o = 0; o < 48; ++o) {
              // int8 has no infinity. Times a weight of 0, bfloat16's infinity is NaN, too; gelu turns its negative one
              // into 0.
              if (!kIsOfPairs<P> || r % 4 == 1) BOOST_REQUIRE(std::isnan(y.row(r)[o]));
            }
          }
        }
      },
      2);
}

// ---------------------------------------------------------------- rounding

namespace {

// The rows of x as one tile by the kernels, row by row. units: [rows, units], sums: [rows, groups].
struct Tile {
  std::vector<std::uint32_t> units;
  std::vector<std::int32_t> sums;
  std::vector<float> scales;
};
template <class Layout>
Tile rounded_tile(Isa isa, const Layout& layout, const Matrix& x) {
  const auto& kernels = cpu::dot_kernels_for(isa, layout);
  const cpu::DotForm form = kernels.form(layout);
  const auto rows = static_cast<std::size_t>(x.rows), units = static_cast<std::size_t>(form.units),
             groups = static_cast<std::size_t>(form.groups);
  GuardedFloats packed(rows * units), sums(rows * groups), scales(rows);  // no byte after them may be written
  auto* words = reinterpret_cast<std::uint32_t*>(packed.data());
  auto* ints = reinterpret_cast<std::int32_t*>(sums.data());
  const auto side = static_cast<std::size_t>(kernels.side(x.rows));
  kernels.round_tokens(x.view(), form, {x.rows, kernels.side(x.rows), words, ints, scales.data()});
  Tile tile;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t u = 0; u < units; ++u) tile.units.push_back(words[(u / side * rows + r) * side + u % side]);
    for (std::size_t g = 0; g < groups; ++g) tile.sums.push_back(ints[g * rows + r]);
    tile.scales.push_back(scales.data()[r]);
  }
  return tile;
}
template <class Layout>
int most_tokens(Isa isa, const Layout& layout = {}) {
  return cpu::dot_kernels_for(isa, layout).tile_tokens(1000);
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_become_the_nearest_whole_numbers) {
  for (const Isa isa : isas()) {
    for (int rows = 1; rows <= most_tokens<Int8Quads>(isa); ++rows) {
      for (const int cols : {1, 3, 4, 15, 16, 33, 40, 64, 255, 256, 257, 513, 1030}) {
        Matrix x = random_matrix(rows, cols, static_cast<std::uint64_t>(cols), cols + 2, 4.0f);
        for (int k = 0; k < cols && k < 200; ++k) x.row(0)[k] = 0.5f * static_cast<float>(k % 2 ? -k : k);  // ties
        if (cols > 254) x.row(0)[200] = 127.0f;
        const auto check = [&](const auto& layout, int group, int factor) {
          const Tile tile = rounded_tile(isa, layout, x);
          const int units = cpu::dot_form(layout).units, groups = cpu::dot_form(layout).groups;
          for (int r = 0; r < rows; ++r) {
            const Rounded row = rounded(layout, x.row(r), cols);
            BOOST_TEST_REQUIRE(same_bits(&tile.scales[static_cast<std::size_t>(r)], &row.scale, 1));
            std::vector<std::int32_t> sums(static_cast<std::size_t>(groups));
            for (int k = 0; k < 4 * units; ++k) {
              const std::uint32_t unit = tile.units[static_cast<std::size_t>(r * units + k / 4)];
              const int expected = k < cols ? static_cast<int>(whole(row, k)) : 0;
              BOOST_TEST_REQUIRE(static_cast<std::int8_t>(unit >> (k % 4 * 8) & 255u) == expected,
                                 to_string(isa) << ", column " << k << " of " << cols);
              if (k < cols) sums[static_cast<std::size_t>(k / group)] += factor * expected;
            }
            for (int g = 0; g < groups; ++g)
              BOOST_TEST_REQUIRE(tile.sums[static_cast<std::size_t>(r * groups + g)] ==
                                 sums[static_cast<std::size_t>(g)]);
          }
        };
        check(Int8Quads{.rows = 1, .cols = cols}, 65536, -1);
        for (const int group : {32, 64, 128, 24, 48, 256}) {
          const Int4Quads layout{.group = group, .rows = 1, .cols = cols};
          if (rows <= most_tokens(isa, layout)) check(layout, group, -8);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(tokens_become_the_nearest_bfloat16, P, OfPairs) {
  using Layout = std::decay_t<decltype(std::declval<typename P::View>().panels())>;
  Random random(4);
  for (const Isa isa : isas()) {
    for (const int cols : {1, 2, 15, 16, 17, 127, 128, 129, 1001}) {
      const int rows = most_tokens<Layout>(isa);
      Matrix x(rows, cols, cols);
      for (int r = 0; r < rows; ++r) {
        for (int k = 0; k < cols; ++k) {  // any bits, or a tie
          const auto bits = static_cast<std::uint32_t>(random.next());
          x.row(r)[k] = std::bit_cast<float>(random.below(4) ? bits : (bits & 0xffff0000u) | 0x8000u);
        }
      }
      const Layout layout{.rows = 1, .cols = cols};
      const Tile tile = rounded_tile(isa, layout, x);
      // A pair is a unit, or each of its columns is one, as float32, the second first.
      const cpu::DotForm form = cpu::dot_kernels_for(isa, layout).form(layout);
      const bool paired = form.columns == 2;
      for (int r = 0; r < rows; ++r) {
        for (int k = 0; k < form.units * form.columns; ++k) {
          const std::uint32_t unit = tile.units[static_cast<std::size_t>(r * form.units + (paired ? k / 2 : k ^ 1))];
          const auto bits = static_cast<std::uint16_t>(unit >> (paired ? k % 2 * 16 : 16));
          if (!paired) BOOST_TEST_REQUIRE((unit & 0xffffu) == 0u);
          const float value = k < cols ? x.row(r)[k] : 0.0f;
          const float flushed = std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
          BOOST_TEST_REQUIRE(bits == bfloat16(flushed).bits, to_string(isa) << ": " << value);
        }
      }
    }
  }
}

// ---------------------------------------------------------------- the arithmetic of pairs

namespace {

// Sixteen rows of a few columns, one whole block and a part, of hostile numbers: y for every instruction set.
template <class P>
struct Hostile {
  static constexpr int kCols = std::is_same_v<P, BFloat16Amx> ? 36 : 6;
  Matrix x{12, kCols, kCols};
  std::vector<bfloat16> codes = std::vector<bfloat16>(16 * kCols);

  // Products and sums are about 2^middle. In every third row they cancel. Zeros and the ends of the range are among
  // them.
  Hostile(std::uint64_t seed, int middle) {
    Random random(seed);
    const auto number = [&](int exponent) {
      static constexpr std::uint32_t kSpecial[] = {0,           0x80000000u, 0x00010000u, 0x80400000u,
                                                   0x00800000u, 0x807f0000u, 0x7f7f0000u};
      if (random.below(12) == 0) return std::bit_cast<float>(kSpecial[static_cast<std::size_t>(random.below(7))]);
      const float value = std::ldexp(1.0f + std::fabs(random.uniform()), exponent + random.below(13) - 6);
      return random.below(2) ? value : -value;
    };
    const int half = middle / 2;
    for (int r = 0; r < 12; ++r) {
      for (int k = 0; k < kCols; ++k) x.row(r)[k] = number(half);
      if (r % 3 == 0) {
        for (int k = 1; k < kCols; k += 2) x.row(r)[k] = -x.row(r)[k - 1];
      }
    }
    for (int r = 0; r < 16; ++r) {
      for (int k = 0; k < kCols; ++k)
        at(r, k) = bfloat16(k % 2 && r % 2 ? static_cast<float>(at(r, k - 1)) : number(middle - half));
    }
  }
  bfloat16& at(int row, int col) { return codes[static_cast<std::size_t>(col / 2 * 32 + row * 2 + col % 2)]; }

  Matrix product(Isa isa) const {
    Cpu device({.threads = 1, .isa = isa});
    const typename P::View view{{codes.data(), 16, kCols}};
    Matrix y(12, 16, 16);
    linear(device, LinearArgs<typename P::View>{.x = x.view(), .weight = view, .y = y.view()});
    return y;
  }
};

bool alike(const Matrix& a, const Matrix& b) {
  for (int r = 0; r < a.rows; ++r) {
    for (int o = 0; o < a.cols; ++o) {
      if (!(same_bits(a.row(r) + o, b.row(r) + o, 1) || (std::isnan(a.row(r)[o]) && std::isnan(b.row(r)[o]))))
        return false;
    }
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(pairs_are_multiplied_alike_everywhere, P, OfPairs) {
  int zeros = 0, small = 0, finite = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    constexpr int kMiddles[] = {-126, -130, -122, -149, -110, 0, 126};
    const Hostile<P> problem(seed, kMiddles[seed % 7]);
    const Matrix truth = problem.product(Isa::portable);
    for (int r = 0; r < 12; ++r) {
      for (int o = 0; o < 16; ++o) {
        const float y = truth.row(r)[o];
        BOOST_TEST_REQUIRE(std::fpclassify(y) != FP_SUBNORMAL);
        zeros += y == 0;
        small += std::fabs(y) > 0 && std::fabs(y) < 0x1p-120f;
        finite += std::isfinite(y);
      }
    }
    for (const Isa isa : isas())
      BOOST_TEST_REQUIRE(alike(problem.product(isa), truth), to_string(isa) << ", seed " << seed);
  }
  const int enough = std::is_same_v<P, BFloat16Dot> ? 4000 : 1000;  // sums of 18 pairs are rarely small
  BOOST_TEST((zeros > 4000 && small > enough && finite > 60'000),
             zeros << ", " << small << ", " << finite);  // of 76,800
}

// A sum just below 2^-126 stays if it is so with unbounded exponents, else it is a zero. The sign of a zero is kept.
BOOST_AUTO_TEST_CASE_TEMPLATE(the_border_of_subnormal_numbers_is_where_rounding_says, P, OfPairs) {
  struct Case {
    float before;    // a product: the sum so far
    double product;  // the next product of the chain
    float expected;
  };
  constexpr bool kBlocks = std::is_same_v<P, BFloat16Amx>;
  constexpr std::size_t kBefore = kBlocks ? 0 : 1, kProduct = kBlocks ? 2 : 0;  // columns of one chain, in order
  constexpr int kCols = kBlocks ? 4 : 2;
  // 2^-126 - 2^-151 is a tie between 2^-126 and the number before it. Slightly less would round to that number.
  const Case cases[] = {{0x1p-126f, -0x1p-152, 0x1p-126f}, {0x1p-126f, -0x1p-151, 0x1p-126f},
                        {0x1p-126f, -0x1.02p-151, 0.0f},   {0x1p-126f, -0x1p-150, 0.0f},
                        {0x1p-126f, -0x1p-126, 0.0f},      {-0x1p-126f, 0x1p-151, -0x1p-126f},
                        {-0x1p-126f, 0x1.02p-151, -0.0f},  {-0x1p-126f, 0x1p-127, -0.0f}};
  for (const Case& c : cases) {
    // A zero's sign is lost when the other chain, a zero, is added.
    Matrix x(1, kCols, kCols, 1.0f), y(1, 16, 16), expected(1, 16, 16, kBlocks ? c.expected + 0.0f : c.expected);
    x.row(0)[kProduct] = 0x1p-75f;
    std::vector<bfloat16> codes(64);
    for (std::size_t r = 0; r < 16; ++r) {
      codes[kProduct / 2 * 32 + 2 * r] = bfloat16(static_cast<float>(std::ldexp(c.product, 75)));
      codes[2 * r + kBefore] = bfloat16(c.before);
    }
    for (const Isa isa : isas()) {
      Cpu device({.threads = 1, .isa = isa});
      linear(device, LinearArgs<typename P::View>{.x = x.view(), .weight = {{codes.data(), 16, kCols}}, .y = y.view()});
      BOOST_TEST(same_bits(y, expected), to_string(isa) << ": " << y.row(0)[0] << " is not " << c.expected);
    }
  }
}

// A tile's zeros after the last column count: two chains that are -0 become 0, and so does a previous sum of -0.
BOOST_AUTO_TEST_CASE(zeros_stand_behind_the_last_column_of_a_block) {
  constexpr int kCols = 66;
  Matrix x(1, kCols, kCols, 1.0f), y(1, 16, 16, 1.0f);
  std::vector<bfloat16> codes(16 * kCols);
  const auto set = [&](int col, float value) {
    for (int r = 0; r < 16; ++r) codes[static_cast<std::size_t>(col / 2 * 32 + r * 2 + col % 2)] = bfloat16(value);
  };
  set(0, 0x1.8p-126f);
  set(32, -0x1.cp-126f);  // the sum is subnormal: -0
  for (const int col : {64, 65}) {
    x.row(0)[col] = 0x1p-75f;
    set(col, -0x1p-75f);
  }
  for (const Isa isa : isas()) {
    Cpu device({.threads = 1, .isa = isa});
    for (const int cols : {64, kCols}) {
      linear(device, LinearArgs<BFloat16Amx::View>{
                         .x = {x.row(0), 1, cols, cols}, .weight = {{codes.data(), 16, cols}}, .y = y.view()});
      BOOST_TEST((y.row(0)[3] == 0 && std::signbit(y.row(0)[3]) == (cols == 64)), to_string(isa) << ", " << cols);
    }
  }
}

// Sets that multiply pairs by fused multiply-adds change a mode of the processor, and must restore it for other
// computations.
BOOST_AUTO_TEST_CASE_TEMPLATE(subnormal_numbers_are_numbers_again_afterwards, P, OfPairs) {
  Matrix x(3, 2, 2, 1.0f), w(16, 2, 2, 0.0f), bias(1, 16, 16, 0x1p-140f);
  const Packed<P> packed(w);
  for_each_cpu(
      [&](Cpu& device) {
        Matrix y(3, 16, 16);
        linear(device, LinearArgs<typename P::View>{
                           .x = x.view(), .weight = packed.view(), .bias = bias.row(0), .y = y.view()});
        for (int r = 0; r < 3; ++r) BOOST_TEST(y.row(r)[5] == 0x1p-140f);
        volatile float tiny = 0x1p-140f;
        BOOST_TEST(tiny * 0.5f == 0x1p-141f);
      },
      2);
}

// ---------------------------------------------------------------- memory

namespace {

Int8Quads guarded(Int8Quads w, std::vector<GuardedFloats>& keep) {
  const std::size_t rows = panel_count(w.rows) * 16;
  w.codes = guarded(w.codes, rows * static_cast<std::size_t>(w.quads()) * 4, keep);
  w.scales = guarded(w.scales, rows, keep);
  w.zero_points = guarded(w.zero_points, rows, keep);
  return w;
}
Int4Quads guarded(Int4Quads w, std::vector<GuardedFloats>& keep) {
  const std::size_t rows = panel_count(w.rows) * 16;
  w.codes = guarded(w.codes, rows * static_cast<std::size_t>(w.words()) * 4, keep);
  w.scales = guarded(w.scales, rows * static_cast<std::size_t>(w.groups()), keep);
  return w;
}
template <class Layout>
requires requires(const Layout& w) { w.pairs(); }
Layout guarded(Layout w, std::vector<GuardedFloats>& keep) {
  w.codes = guarded(w.codes, panel_count(w.rows) * 16 * static_cast<std::size_t>(w.pairs()) * 2, keep);
  return w;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(nothing_is_read_behind_its_end, P, Formats) {
  for (const int in : {1, 7, 32, 33, 100, 129}) {
    for (const int out : {1, 16, 33, 70}) {
      const Products<P> p(in, out);
      std::vector<GuardedFloats> keep;
      check_reads_end(p, guarded(p.packed.view().panels(), keep));
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(zero_rows_write_nothing, P, Formats) {
  const Products<P> p(16, 16);
  Cpu device({.threads = 2});
  Matrix y = p.output(1);
  linear(device, p.args(p.packed.view(), kEpilogues[1], 0, 0, y));
  BOOST_TEST(y.row(0)[0] == kGap);
}

BOOST_AUTO_TEST_SUITE_END()
