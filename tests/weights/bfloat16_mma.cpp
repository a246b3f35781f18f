// BFloat16Mma and Float16Mma: the codes of BFloat16 and Float16 in core matrices, for the devices that multiply them.
#include "tenon/weights/bfloat16_mma.h"

#include "encoding.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/all.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/float16_mma.h"

BOOST_AUTO_TEST_SUITE(weights_bfloat16_mma)

using namespace tenon;
using namespace tenon::test;

template <class P>
concept IsOperand = WeightPolicy<P> && EncodesBlocks<P> && !HasPanels<typename P::View> && std::is_trivially_copyable_v<typename P::View>;
static_assert(IsOperand<BFloat16Mma> && IsOperand<Float16Mma>);
static_assert(std::is_same_v<BFloat16Mma::Code, BFloat16::Code> && std::is_same_v<Float16Mma::Code, Float16::Code>, "one file for both");

template <class W>
concept OnCpu = requires(Cpu& device, const LinearArgs<W, typename OperandOf<W>::Input>& args) { linear(device, args); };
static_assert(!OnCpu<BFloat16Mma::View> && !OnCpu<Float16Mma::View> && OnCpu<BFloat16Dot::View>, "a CPU has no such order of sums");

template <class P, class Plain>
void values_are_those_of(int top) {
  for_odd_weights(top, [](const Weights& w) {
    const auto packed = encoded<P>(w), other = encoded<Plain>(w);
    const auto view = P::view(w.shape, packed);
    const auto plain = Plain::view(w.shape, other);
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) BOOST_TEST_REQUIRE(same_bits(view.at(r, c), plain.at(r, c)), name_of(w));
    }
    // All else is zero: kernels multiply whole chunks of whole blocks of rows.
    std::size_t others = 0;
    const auto& tiles = view.tiles();
    for (std::size_t i = 0; i < OperandTiles<float16>::elements(w.shape.rows, w.shape.cols); ++i) others += tiles.data[i].bits != 0;
    std::size_t own = 0;
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) own += tiles.data[tiles.at(r, c)].bits != 0;
    }
    BOOST_TEST(others == own, name_of(w));
  });
}

BOOST_AUTO_TEST_CASE(values_are_those_of_the_plain_formats) {
  values_are_those_of<BFloat16Mma, BFloat16>(127);
  values_are_those_of<Float16Mma, Float16>(15);
}

// Places are all different, eight columns of a row lie side by side, and eight rows of them in 128 bytes.
BOOST_AUTO_TEST_CASE(core_matrices) {
  for (const auto& [rows, cols] : {std::pair{1, 1}, {8, 64}, {9, 65}, {77, 200}}) {
    const OperandTiles<const bfloat16> tiles{nullptr, rows, cols};
    std::vector<char> taken(OperandTiles<bfloat16>::elements(rows, cols));
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        const auto at = tiles.at(r, c);
        BOOST_TEST_REQUIRE((at >= 0 && at < static_cast<std::ptrdiff_t>(taken.size())));
        BOOST_TEST_REQUIRE(!taken[static_cast<std::size_t>(at)]);
        taken[static_cast<std::size_t>(at)] = 1;
        BOOST_TEST_REQUIRE(at == tiles.at(r / 8 * 8, c / 8 * 8) + r % 8 * 8 + c % 8);
        BOOST_TEST_REQUIRE(tiles.at(r / 8 * 8, c / 8 * 8) % 64 == 0);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
