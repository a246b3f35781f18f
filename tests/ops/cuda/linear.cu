// Matrix products have the CPU's bits: in every format, with every epilogue, in any batch.
#define BOOST_TEST_MODULE tenon ops cuda linear
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <tuple>
#include <utility>

#include "../draw_reference.h"
#include "../linear_problem.h"
#include "problem.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

using Formats =
    std::tuple<Float32, BFloat16, Float16, Float8<E4M3>, Float8<E5M2>, ZeroPointInt8, ZeroPointInt8Of<PerTensor>,
               GroupInt4, GroupInt4Of<64>, GroupInt4Of<128>, BFloat16Dot, ZeroPointInt8Act8, GroupInt4Act8,
               GroupInt4Act8Of<64>, GroupInt4Act8Of<128>, GroupInt8, NormalFloat4>;

static_assert(!tenon::cuda::HasProduct<BFloat16Amx::View> && tenon::cuda::HasProduct<BFloat16Dot::View>,
              "a GPU has no tiles of AMX's order");

// A product's operands on both sides.
template <class P>
class BothSides {
 public:
  // x: [kMostRows, p.in]
  BothSides(Cpu& cpu, Cuda& cuda, const Problem& p, const Matrix& x)
      : cpu_(cpu),
        cuda_(cuda),
        p_(p),
        host_x_(x),
        packed_(p.weight),
        there_(cuda, packed_),
        x_(cuda, x),
        bias_(cuda, p.bias),
        deltas_(cuda, p.deltas),
        residual_(cuda, p.residual),
        delta_(cuda, rows_of(p, deltas_)) {}

  // Compares the first rows of x.
  bool have_the_same_bits(const Epilogue& e, int rows) {
    Matrix y = p_.output(rows);
    auto args = p_.args(packed_.view(), e, 0, rows, y);
    args.x = host_x_.view(0, rows);
    const DeviceMatrix device_y(cuda_, y);
    LinearArgs<typename P::View> there{.x = x_.view(0, rows),
                                       .weight = there_.view(),
                                       .bias = e.bias ? bias_.row(0) : nullptr,
                                       .delta = e.delta ? delta_.data() : nullptr,
                                       .activation = e.activation,
                                       .y = device_y.view()};
    if (e.residual == Residual::other) there.residual = residual_.view(0, rows);
    if (e.residual == Residual::in_place) there.residual = device_y.view();
    linear(cpu_, args);
    linear(cuda_, there);
    return device_y == y;
  }

 private:
  static std::vector<const float*> rows_of(const Problem& p, const DeviceMatrix& deltas) {
    std::vector<const float*> delta;
    for (int r = 0; r < kMostRows; ++r) delta.push_back(p.delta[static_cast<std::size_t>(r)] ? deltas.row(r) : nullptr);
    return delta;
  }

  Cpu& cpu_;
  Cuda& cuda_;
  const Problem& p_;
  const Matrix& host_x_;
  Packed<P> packed_;
  DevicePacked<P> there_;
  DeviceMatrix x_, bias_, deltas_, residual_;
  OnDevice<const float*> delta_;
};

BOOST_AUTO_TEST_CASE_TEMPLATE(products, P, Formats) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  int number = 0;
  for (const int in : {1, 17, 64, 77, 128, 129, 192, 768}) {
    for (const int out : {1, 16, 48, 131}) {
      const Problem p(in, out);
      BothSides<P> sides(cpu, cuda, p, p.x);
      const Epilogue& e = plain_epilogue(number++);
      for (const int rows : {1, 3, 8, 9, 32, 33, 65, 129}) {
        BOOST_TEST_REQUIRE(sides.have_the_same_bits(e, rows), in << " -> " << out << ", " << rows << " rows");
      }
    }
  }
}

// Stages are refilled many times. Rows of 3,200 columns use bulk copies in blocks of eight rows or fewer, and copies by
// all threads otherwise; the weights of few-row products are refilled, too.
BOOST_AUTO_TEST_CASE_TEMPLATE(many_columns, P, Formats) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  for (const int in : {3200, 3201}) {
    const Problem p(in, 131);
    const Matrix columns = random_matrix(kMostRows, in, 9, 3204, 4.0f);
    BothSides<P> sides(cpu, cuda, p, columns);
    for (const int rows : {1, 2, 7, 8, 20, 129}) {
      BOOST_TEST_REQUIRE(sides.have_the_same_bits(kEpilogues[0], rows), in << " -> 131, " << rows << " rows");
    }
  }
}

// Blocks of every shape, which follows the numbers of rows and outputs. Rows of 300 columns allow copies of sixteen
// bytes.
BOOST_AUTO_TEST_CASE_TEMPLATE(shapes_of_blocks, P, Formats) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  const int processors = cuda.processors();
  int number = 0;
  for (const auto& [panels, rows] : {std::pair{processors - 2, 1},
                                     {2 * processors + 1, 2},
                                     {processors - 2, 8},
                                     {processors + 1, 8},
                                     {3 * processors / 4, 64},
                                     {processors + 1, 70},
                                     {processors + 1, 129},
                                     {8 * processors, 129}}) {
    for (const int in : {77, 300}) {
      const Problem p(in, 16 * panels - 11);
      const Matrix columns = random_matrix(kMostRows, in, 9, 304, 4.0f);
      BothSides<P> sides(cpu, cuda, p, columns);
      const Epilogue& e = plain_epilogue(number++);
      BOOST_TEST_REQUIRE(sides.have_the_same_bits(e, rows), in << " -> " << p.out << ", " << rows << " rows");
    }
  }
}

namespace tenon::test {
struct Plain {  // has no panels(); types of kernels may not be local
  Float32::View whole;
  TENON_HD float at(int row, int col) const { return whole.at(row, col); }
};
}  // namespace tenon::test

BOOST_AUTO_TEST_CASE(a_format_with_at_alone) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  for (const auto& [in, rows] : {std::pair{77, 20}, {1600, 1}, {1601, 1}, {1600, 8}, {1600, 20}}) {
    const Problem p(in, 48);
    const Packed<Float32> packed(p.weight);
    const DevicePacked<Float32> device_packed(cuda, packed);
    const Matrix columns = random_matrix(kMostRows, in, 9, 1604, 4.0f);
    Matrix y = p.output(rows);
    const DeviceMatrix x(cuda, columns), device_y(cuda, y);
    auto args = p.args(packed.view(), kEpilogues[0], 0, rows, y);
    args.x = columns.view(0, rows);
    linear(cpu, args);
    linear(cuda, LinearArgs<Plain>{.x = x.view(0, rows), .weight = {device_packed.view()}, .y = device_y.view()});
    BOOST_TEST((device_y == y), in << " columns, " << rows << " rows");
  }
}

BOOST_AUTO_TEST_CASE(panels_that_cannot_be_copied_are_refused) {
  Cuda device;
  const DeviceMatrix x(device, Matrix(1, 8, 8)), y(device, Matrix(1, 16, 16));
  const OnDevice<float> codes(device, std::vector<float>(8 * 16 + 1));
  CodePanels<float> panels;
  panels.codes = codes.data() + 1, panels.rows = 16, panels.cols = 8;
  const tenon::cuda::CodeColumns<float> weight{{}, panels};
  const cpu::PanelJob job{.tokens = 1, .inputs = 8, .outputs = 16, .x = x.row(0), .y = y.row(0), .y_stride = 16};
  BOOST_CHECK_EXCEPTION(tenon::cuda::linear_columns(device, job, x.view(), weight), Error,
                        [](const Error& e) { return e.where() == "weights"; });
}

// Integer sums begin anew after 65,536 columns, and continue over a kernel's chunks before that.
using Integers = std::tuple<ZeroPointInt8Act8, GroupInt4Act8, GroupInt4Act8Of<128>>;
BOOST_AUTO_TEST_CASE_TEMPLATE(long_rows_of_integers, P, Integers) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  for (const int in : {1'030, 3'072, 66'000}) {
    Matrix x = random_matrix(20, in, 1, in + 3, 4.0f);
    for (int c = 0; c < in; ++c) x.row(2)[c] = 0.0f;
    for (int c = 0; c < in; ++c) x.row(3)[c] = 3.0f;  // sums at their largest
    const Matrix weight = random_matrix(17, in, 2);
    const Packed<P> packed(weight);
    const DevicePacked<P> device_packed(cuda, packed);
    const DeviceMatrix device_x(cuda, x);
    for (const int rows : {4, 20}) {
      Matrix y(rows, 17, 20);
      const DeviceMatrix device_y(cuda, y);
      using View = typename P::View;
      linear(cpu, LinearArgs<View>{.x = x.view(0, rows), .weight = packed.view(), .y = y.view()});
      linear(cuda, LinearArgs<View>{.x = device_x.view(0, rows), .weight = device_packed.view(), .y = device_y.view()});
      BOOST_TEST((device_y == y), in << " columns, " << rows << " rows");
    }
  }
}

// The best of a row, with ties and values that are not finite.
using Heads = std::tuple<Float32, ZeroPointInt8Act8>;
BOOST_AUTO_TEST_CASE_TEMPLATE(heads, P, Heads) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  constexpr int kRows = 40, kWidth = 33, kVocab = 70'000;  // more tiles than one sort takes
  Matrix weight = random_matrix(kVocab, kWidth, 2);
  std::memcpy(weight.row(700), weight.row(13), kWidth * sizeof(float));  // equal logits
  std::memcpy(weight.row(69'999), weight.row(500), kWidth * sizeof(float));
  Matrix hidden = random_matrix(kRows, kWidth, 1);
  std::fill_n(hidden.row(3), kWidth, 0.0f);  // all logits are 0
  hidden.row(4)[5] = std::numeric_limits<float>::quiet_NaN();
  for (int c = 0; c < kWidth; ++c) hidden.row(6)[c] = weight.row(13)[c];  // the tie wins
  const Packed<P> packed(weight);
  const DevicePacked<P> device_packed(cuda, packed);
  const DeviceMatrix device_hidden(cuda, hidden);
  for (const int count : {1, 5, 256, 300}) {  // the host finds 300
    std::vector<int> counts(kRows, count);
    if (count > 1) counts[0] = 1;
    if (count > 5) counts[1] = 77;
    std::vector<std::vector<TokenLogit>> here(kRows), there(kRows);
    using View = typename P::View;
    head_best(cpu, HeadBestArgs<View>{hidden.view(), packed.view(), kVocab, counts.data(), here.data()});
    head_best(cuda,
              HeadBestArgs<View>{device_hidden.view(), device_packed.view(), kVocab, counts.data(), there.data()});
    for (std::size_t r = 0; r < kRows; ++r) {
      BOOST_TEST_REQUIRE(here[r].size() == there[r].size(), "row " << r);
      for (std::size_t i = 0; i < here[r].size(); ++i) {
        BOOST_TEST((here[r][i].id == there[r][i].id && same_bits(&here[r][i].logit, &there[r][i].logit, 1)),
                   "row " << r);
      }
    }
  }
}

// Picks left on the device, and fetched while more is launched: the best, or a draw among the best; -1 for a row that
// is not finite.
BOOST_AUTO_TEST_CASE(picks_stay_on_the_device) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  constexpr int kRows = 9, kWidth = 33;
  for (const int vocab : {1, 255, 4'096, 50'257}) {
    const Packed<Float32> packed(random_matrix(vocab, kWidth, 2));
    const DevicePacked<Float32> device_packed(cuda, packed);
    Matrix hidden = random_matrix(kRows, kWidth, 1);
    std::fill_n(hidden.row(3), kWidth, 0.0f);
    hidden.row(4)[5] = std::numeric_limits<float>::infinity();
    const DeviceMatrix device_hidden(cuda, hidden);
    const OnDevice<TokenId> picks(cuda, std::vector<TokenId>(kRows, 77));
    std::vector<PickRow> greedy(kRows), drawn(kRows);
    for (std::size_t r = 0; r < kRows; r += 2) {
      drawn[r] = {.best = std::min(vocab, r == 0 ? kMostBest : static_cast<int>(3 * r)),
                  .temperature = 0.3f * static_cast<float>(1 + r),
                  .top_p = r % 4 == 0 ? 0.8f : 1.0f,
                  .min_p = r % 3 == 0 ? 0.05f : 0.0f,
                  .u = 0.11 * static_cast<double>(r)};
    }
    using View = Float32::View;
    for (const auto& rows : {greedy, drawn}) {
      std::vector<int> counts;
      for (const PickRow& row : rows) counts.push_back(row.best);
      std::vector<std::vector<TokenLogit>> best(kRows);
      head_best(cpu, HeadBestArgs<View>{hidden.view(), packed.view(), vocab, counts.data(), best.data()});
      cuda.begin_step();
      head_pick(cuda, HeadPickArgs<View>{device_hidden.view(), device_packed.view(), vocab, rows, picks.data()});
      Cuda::Later later;
      cuda.fetch_later(static_cast<const TokenId*>(picks.data()), kRows, later);
      head_pick(cuda, HeadPickArgs<View>{device_hidden.view(0, 1), device_packed.view(), vocab,
                                         std::span(rows).first(1), picks.data() + kRows - 1});
      const auto* const there = reinterpret_cast<const TokenId*>(later.wait());
      for (std::size_t r = 0; r < kRows; ++r) {
        std::sort(best[r].begin(), best[r].end(), ranks_before);
        BOOST_TEST(there[r] == picked(best[r], rows[r]), "row " << r << " of " << vocab);
      }
      BOOST_TEST(there[3] == 0);
      BOOST_TEST(there[4] == -1);
      BOOST_TEST(picks.values().back() == there[0]);
    }
  }
}

namespace {

// Rows of every kind, over the tokens of a vocabulary.
struct MixedDraws {
  std::vector<DrawRow> draws;  // [rows]
  std::vector<TokenLogit> biases;
  std::vector<SeenToken> seen;
  std::vector<std::uint32_t> masks;

  MixedDraws(std::size_t rows, int vocab, Random& random) : draws(rows) {
    for (std::size_t r = 0; r < draws.size(); ++r) {
      DrawRow& draw = draws[r];
      if (r % 7 == 6) continue;  // nothing is wanted
      draw.best = r % 3 == 0 ? 1 : r % 3 == 1 ? 20 : 256;
      draw.temperature = r % 3 == 1 ? 0.0f : 0.25f * static_cast<float>(1 + r);
      draw.log_total = r % 5 < 2;
      if (r % 2 == 0) draw.repetition_penalty = 1.3f;
      if (r % 4 == 1) draw.presence_penalty = 0.7f;
      if (r % 5 == 2) draw.frequency_penalty = -0.3f;
      draw.first_bias = static_cast<int>(biases.size());
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      if (r % 4 == 3) biases.insert(biases.end(), {{1.5f, 3}, {-kInfinity, 7}, {kInfinity, 11}, {-100.0f, 39}});
      draw.biases = static_cast<int>(biases.size()) - draw.first_bias;
      draw.first_seen = static_cast<int>(seen.size());
      for (TokenId id = static_cast<TokenId>(r % 3); id < 40; id += 3) seen.push_back({id, random.below(4)});
      draw.seen = static_cast<int>(seen.size()) - draw.first_seen;
      if (r % 3 == 2 || r == 9) {
        draw.mask = static_cast<int>(masks.size()) / ((vocab + 31) / 32);
        for (int w = 0; w < (vocab + 31) / 32; ++w)
          masks.push_back(r == 9 ? 0u : r % 2 ? 0x10u : static_cast<std::uint32_t>(random.next()));
      }
    }
  }
};

}  // namespace

// Rows of every kind prepared for a draw: their best and their totals, to the bit.
BOOST_AUTO_TEST_CASE(draws) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  constexpr int kRows = 24, kWidth = 33;
  Random random(8);
  for (const int vocab : {40, 301, 4'096, 70'001}) {
    const Packed<Float32> packed(random_matrix(vocab, kWidth, 2, 0, 4.0f));
    const DevicePacked<Float32> device_packed(cuda, packed);
    Matrix hidden = random_matrix(kRows, kWidth, 1);
    std::fill_n(hidden.row(3), kWidth, 0.0f);
    hidden.row(4)[5] = std::numeric_limits<float>::infinity();
    const DeviceMatrix device_hidden(cuda, hidden);
    MixedDraws m(kRows, vocab, random);
    std::vector<DrawRow>& draws = m.draws;
    std::vector<std::vector<TokenLogit>> best(kRows);
    std::vector<double> totals(kRows), log_totals(kRows);
    using View = Float32::View;
    const HeadDrawArgs<View> args{
        device_hidden.view(), device_packed.view(), vocab, draws, m.biases, m.seen, m.masks, best.data(),
        totals.data(),        log_totals.data()};
    cuda.begin_step();
    head_draw(cuda, args);
    Matrix logits(kRows, vocab, vocab);
    head(cpu, HeadArgs<View>{hidden.view(), packed.view(), logits.view()});
    for (std::size_t r = 0; r < kRows; ++r) {
      const float* row = logits.row(static_cast<int>(r));
      const Drawn expected = drawn(std::vector<float>(row, row + vocab), draws[r], args);
      BOOST_TEST_REQUIRE(best[r].size() == expected.best.size(), "row " << r << " of " << vocab);
      for (std::size_t i = 0; i < best[r].size(); ++i) {
        BOOST_TEST((best[r][i].id == expected.best[i].id && best[r][i].logit == expected.best[i].logit),
                   "row " << r << ", rank " << i);
      }
      if (!expected.best.empty()) BOOST_TEST(totals[r] == expected.total, "row " << r << " of " << vocab);
      if (!expected.best.empty() && draws[r].log_total)
        BOOST_TEST(log_totals[r] == expected.log_total, "row " << r << " of " << vocab);
    }
    // The inverse test: a token that was generated once more is detected in its row's total.
    ++m.seen[static_cast<std::size_t>(draws[12].first_seen)]
          .generated;  // a row without a mask, with a penalty per occurrence
    const float* row = logits.row(12);
    BOOST_TEST(drawn(std::vector<float>(row, row + vocab), draws[12], args).total != totals[12]);
  }
}
