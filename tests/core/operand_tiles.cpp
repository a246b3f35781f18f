// OperandTiles: core matrices of 8 x 8, chunks of 64 columns one after another.
#include "tenon/core/operand_tiles.h"

#include <boost/test/unit_test.hpp>
#include <utility>
#include <vector>

#include "tenon/core/elements.h"

BOOST_AUTO_TEST_SUITE(core_operand_tiles)

using namespace tenon;

// All indices differ. Eight columns of a row are contiguous, and eight rows of these fill 128 bytes.
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
