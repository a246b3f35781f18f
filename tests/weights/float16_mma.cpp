// Float16Mma: the codes of Float16 in core matrices of tensor cores.
#include "tenon/weights/float16_mma.h"

#include "operand_weights.h"

BOOST_AUTO_TEST_SUITE(weights_float16_mma)

using namespace tenon;
using namespace tenon::test;

static_assert(IsOperand<Float16Mma>);
static_assert(std::is_same_v<Float16Mma::Code, Float16::Code>, "one file for both");
static_assert(!OnCpu<Float16Mma::View>, "a CPU has no such order of sums");

BOOST_AUTO_TEST_CASE(values_are_those_of_float16) { values_are_those_of<Float16Mma, Float16>(15); }

BOOST_AUTO_TEST_SUITE_END()
