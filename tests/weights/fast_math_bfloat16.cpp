// FastMathBFloat16: the values of BFloat16, row by row, for cuBLASLt.
#include "tenon/weights/fast_math_bfloat16.h"

#include "encoding.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/all.h"

BOOST_AUTO_TEST_SUITE(weights_fast_math_bfloat16)

using namespace tenon;
using namespace tenon::test;

using P = FastMathBFloat16;
static_assert(WeightPolicy<P> && std::is_trivially_copyable_v<P::View>);

template <class W>
concept OnCpu = requires(Cpu& device, const LinearArgs<W>& args) {
  linear(device, args);
};
static_assert(!OnCpu<P::View> && OnCpu<BFloat16::View>, "a CPU keeps its promise");

BOOST_AUTO_TEST_CASE(values_are_those_of_bfloat16) {
  for_odd_weights(127, [](const Weights& w) {
    const auto packed = encoded<P>(w), other = encoded<BFloat16>(w);
    const auto view = P::view(w.shape, packed);
    const auto panels = BFloat16::view(w.shape, other);
    BOOST_TEST_REQUIRE(view.stride() % 8 == 0);
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) BOOST_TEST_REQUIRE(same_bits(view.at(r, c), panels.at(r, c)), name_of(w));
      for (int c = w.shape.cols; c < view.stride(); ++c) BOOST_TEST_REQUIRE(same_bits(view.at(r, c), 0.0f));
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
