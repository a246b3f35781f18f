// Helpers for the tests of formats for tensor cores.
#pragma once
#include "encoding.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/all.h"
#include "tenon/weights/operand_weights.h"

namespace tenon::test {

template <class P>
concept IsOperand = WeightPolicy<P> && EncodesBlocks<P> && !HasPanels<typename P::View> &&
                    std::is_trivially_copyable_v<typename P::View>;

template <class W>
concept OnCpu = requires(Cpu& device, const LinearArgs<W, typename OperandOf<W>::Input>& args) {
  linear(device, args);
};

template <class P, class Plain>
void values_are_those_of(int top) {
  for_odd_weights(top, [](const Weights& w) {
    const auto packed = encoded<P>(w), other = encoded<Plain>(w);
    const auto view = P::view(w.shape, packed);
    const auto plain = Plain::view(w.shape, other);
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) BOOST_TEST_REQUIRE(same_bits(view.at(r, c), plain.at(r, c)), name_of(w));
    }
    // All other elements are zero: kernels multiply whole chunks of whole blocks of rows.
    std::size_t others = 0;
    const auto& tiles = view.tiles();
    for (std::size_t i = 0; i < OperandTiles<float16>::elements(w.shape.rows, w.shape.cols); ++i)
      others += tiles.data[i].bits != 0;
    std::size_t own = 0;
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) own += tiles.data[tiles.at(r, c)].bits != 0;
    }
    BOOST_TEST(others == own, name_of(w));
  });
}

}  // namespace tenon::test
