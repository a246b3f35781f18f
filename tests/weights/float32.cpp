// Float32: panels of 16 rows give back every weight, for every division of the matrix into blocks.
#include <boost/test/unit_test.hpp>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tenon/weights/float32.h"

BOOST_AUTO_TEST_SUITE(weights_float32)

using namespace tenon;

namespace {

// A matrix whose weights are all different.
std::vector<float> matrix(Shape shape) {
  std::vector<float> values;
  for (int i = 0; i < shape.rows * shape.cols; ++i) values.push_back(static_cast<float>(i) - 1000.5f);
  return values;
}

std::vector<std::byte> encoded(Shape shape, const std::vector<float>& values, int block) {
  std::vector<std::byte> packed(Float32::bytes(shape), std::byte{0});
  for (int first = 0; first < shape.rows; first += block) {
    const int rows = std::min(block, shape.rows - first);
    const std::span<const float> part(values.data() + static_cast<std::ptrdiff_t>(first) * shape.cols,
                                      static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.cols));
    Float32::encode(shape, first, part, packed);
  }
  return packed;
}

const Shape kShapes[] = {{1, 1}, {1, 7}, {15, 3}, {16, 1}, {16, 16}, {17, 5}, {31, 77}, {32, 4}, {48, 33}, {131, 20}};

}  // namespace

BOOST_AUTO_TEST_CASE(every_weight_comes_back) {
  for (const Shape shape : kShapes) {
    const auto values = matrix(shape);
    const auto packed = encoded(shape, values, shape.rows);
    const auto view = Float32::view(shape, packed);
    BOOST_TEST((view.packed.rows == shape.rows && view.packed.cols == shape.cols));
    for (int r = 0; r < shape.rows; ++r) {
      for (int c = 0; c < shape.cols; ++c)
        BOOST_REQUIRE(view.at(r, c) == values[static_cast<std::size_t>(r * shape.cols + c)]);
    }
  }
}

BOOST_AUTO_TEST_CASE(blocks_of_rows_give_the_same_bytes) {
  for (const Shape shape : kShapes) {
    const auto values = matrix(shape);
    const auto whole = encoded(shape, values, shape.rows);
    for (const int block : {16, 32, 64}) BOOST_TEST((encoded(shape, values, block) == whole));
  }
}

BOOST_AUTO_TEST_CASE(blocks_may_come_in_any_order) {
  const Shape shape{50, 9};
  const auto values = matrix(shape);
  std::vector<std::byte> packed(Float32::bytes(shape), std::byte{0});
  for (const int first : {48, 0, 32, 16}) {
    const int rows = std::min(16, shape.rows - first);
    Float32::encode(shape, first,
                    std::span(values).subspan(static_cast<std::size_t>(first * shape.cols),
                                              static_cast<std::size_t>(rows * shape.cols)),
                    packed);
  }
  BOOST_TEST((packed == encoded(shape, values, shape.rows)));
}

BOOST_AUTO_TEST_CASE(panels_hold_sixteen_rows_side_by_side_and_zeros_behind) {
  for (const Shape shape : kShapes) {
    const auto values = matrix(shape);
    const auto packed = encoded(shape, values, 16);
    const auto view = Float32::view(shape, packed);
    const int panels = (shape.rows + 15) / 16;
    BOOST_TEST(packed.size() ==
               static_cast<std::size_t>(panels) * 16 * static_cast<std::size_t>(shape.cols) * sizeof(float));
    for (int p = 0; p < panels; ++p) {
      for (int k = 0; k < shape.cols; ++k) {
        for (int i = 0; i < 16; ++i) {
          const int row = p * 16 + i;
          BOOST_REQUIRE(view.packed.panel(p)[k * 16 + i] ==
                        (row < shape.rows ? values[static_cast<std::size_t>(row * shape.cols + k)] : 0.0f));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(bits_survive) {
  const Shape shape{3, 2};
  const std::vector<float> values = {-0.0f,
                                     0x1p-149f,
                                     std::numeric_limits<float>::infinity(),
                                     std::bit_cast<float>(0x7fc12345u),
                                     std::bit_cast<float>(0xffbfffffu),
                                     3.4e38f};
  const auto packed = encoded(shape, values, 3);
  const float* panel = Float32::view(shape, packed).panels().panel(0);
  for (int i = 0; i < 6; ++i)
    BOOST_TEST(std::memcmp(panel + i % 2 * 16 + i / 2, &values[static_cast<std::size_t>(i)], sizeof(float)) == 0);
}

BOOST_AUTO_TEST_CASE(sizes_of_large_matrices_do_not_overflow) {
  BOOST_TEST(Float32::bytes({250'000, 50'000}) == std::size_t{250'000} * 50'000 * 4);
  BOOST_TEST(Float32::bytes({2'000'000'017, 16'384}) == std::size_t{2'000'000'032} * 16'384 * 4);
  BOOST_TEST(Float32::bytes({0, 5}) == 0);
  CodePanels<float> panels;
  panels.rows = 250'000;
  panels.cols = 50'000;
  BOOST_TEST((panels.panel(15'000) - panels.panel(0) == std::ptrdiff_t{15'000} * 50'000 * 16));
}

BOOST_AUTO_TEST_CASE(it_is_a_weight_policy_with_panels) {
  static_assert(WeightPolicy<Float32> && HasPanels<Float32::View> && std::is_trivially_copyable_v<Float32::View>);
  BOOST_TEST(kPanelRows == 16);
}

BOOST_AUTO_TEST_SUITE_END()
