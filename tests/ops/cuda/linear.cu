// Matrix products have the CPU's bits: in every format, with every epilogue, in any batch.
#define BOOST_TEST_MODULE tenon ops cuda linear
#include <boost/test/unit_test.hpp>

#include <tuple>

#include "../linear_problem.h"
#include "problem.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

using Formats = std::tuple<Float32, BFloat16, Float16, Float8<E4M3>, Float8<E5M2>, ZeroPointInt8, ZeroPointInt8Of<PerTensor>,
                           GroupInt4, GroupInt4Of<64>, GroupInt4Of<128>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(products, P, Formats) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  int number = 0;
  for (const int in : {1, 17, 77, 128, 129, 768}) {
    for (const int out : {1, 16, 48, 131}) {
      const Problem p(in, out);
      const Packed<P> packed(p.weight);
      const DevicePacked<P> device_packed(cuda, packed);
      const DeviceMatrix x(cuda, p.x), bias(cuda, p.bias), deltas(cuda, p.deltas), residual(cuda, p.residual);
      std::vector<const float*> delta;
      for (int r = 0; r < kMostRows; ++r) delta.push_back(p.delta[static_cast<std::size_t>(r)] ? deltas.row(r) : nullptr);
      const OnDevice<const float*> device_delta(cuda, delta);
      const Epilogue& e = kEpilogues[number++ % static_cast<int>(std::size(kEpilogues))];
      for (const int rows : {1, 3, 8, 9, 32, 33, 65, 129}) {
        Matrix y = p.output(rows);
        const auto args = p.args(packed.view(), e, 0, rows, y);
        const DeviceMatrix device_y(cuda, y);
        LinearArgs<typename P::View> there{.x = x.view(0, rows),
                                           .weight = device_packed.view(),
                                           .bias = e.bias ? bias.row(0) : nullptr,
                                           .delta = e.delta ? device_delta.data() : nullptr,
                                           .activation = e.activation,
                                           .y = device_y.view()};
        if (e.residual == Residual::other) there.residual = residual.view(0, rows);
        if (e.residual == Residual::in_place) there.residual = device_y.view();
        linear(cpu, args);
        linear(cuda, there);
        BOOST_TEST_REQUIRE((device_y == y), in << " -> " << out << ", " << rows << " rows");
      }
    }
  }
}

namespace tenon::test {
struct Plain {  // has no panels(); types that kernels are made for may not be local
  Float32::View whole;
  TENON_HD float at(int row, int col) const { return whole.at(row, col); }
};
}  // namespace tenon::test

BOOST_AUTO_TEST_CASE(a_format_with_at_alone) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  const Problem p(77, 48);
  const Packed<Float32> packed(p.weight);
  const DevicePacked<Float32> device_packed(cuda, packed);
  Matrix y = p.output(20);
  const DeviceMatrix x(cuda, p.x), device_y(cuda, y);
  linear(cpu, p.args(packed.view(), kEpilogues[0], 0, 20, y));
  linear(cuda, LinearArgs<Plain>{.x = x.view(0, 20), .weight = {device_packed.view()}, .y = device_y.view()});
  BOOST_TEST((device_y == y));
}

// The best of a row, ties and what is not finite.
BOOST_AUTO_TEST_CASE(heads) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  constexpr int kRows = 40, kWidth = 33, kVocab = 1000;
  Matrix weight = random_matrix(kVocab, kWidth, 2);
  std::memcpy(weight.row(700), weight.row(13), kWidth * sizeof(float));  // equal logits
  std::memcpy(weight.row(999), weight.row(500), kWidth * sizeof(float));
  Matrix hidden = random_matrix(kRows, kWidth, 1);
  std::fill_n(hidden.row(3), kWidth, 0.0f);  // all logits are 0
  hidden.row(4)[5] = std::numeric_limits<float>::quiet_NaN();
  for (int c = 0; c < kWidth; ++c) hidden.row(6)[c] = weight.row(13)[c];  // the tie wins
  const Packed<Float32> packed(weight);
  const DevicePacked<Float32> device_packed(cuda, packed);
  const DeviceMatrix device_hidden(cuda, hidden);
  for (const int count : {1, 5}) {
    std::vector<int> counts(kRows, count);
    if (count > 1) counts[0] = 1;
    std::vector<std::vector<TokenLogit>> here(kRows), there(kRows);
    using View = Float32::View;
    head_best(cpu, HeadBestArgs<View>{hidden.view(), packed.view(), kVocab, counts.data(), here.data()});
    head_best(cuda, HeadBestArgs<View>{device_hidden.view(), device_packed.view(), kVocab, counts.data(), there.data()});
    for (std::size_t r = 0; r < kRows; ++r) {
      BOOST_TEST_REQUIRE(here[r].size() == there[r].size(), "row " << r);
      for (std::size_t i = 0; i < here[r].size(); ++i) {
        BOOST_TEST((here[r][i].id == there[r][i].id && same_bits(&here[r][i].logit, &there[r][i].logit, 1)), "row " << r);
      }
    }
  }
}
