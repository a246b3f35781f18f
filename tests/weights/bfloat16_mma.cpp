// BFloat16Mma: the codes of BFloat16 in core matrices of tensor cores.
#include "tenon/weights/bfloat16_mma.h"

#include "operand_weights.h"
#include "tenon/weights/bfloat16_dot.h"

BOOST_AUTO_TEST_SUITE(weights_bfloat16_mma)

using namespace tenon;
using namespace tenon::test;

static_assert(IsOperand<BFloat16Mma>);
static_assert(std::is_same_v<BFloat16Mma::Code, BFloat16::Code>, "one file for both");
static_assert(!OnCpu<BFloat16Mma::View> && OnCpu<BFloat16Dot::View>, "a CPU has no such order of sums");

BOOST_AUTO_TEST_CASE(values_are_those_of_bfloat16) { values_are_those_of<BFloat16Mma, BFloat16>(127); }

BOOST_AUTO_TEST_SUITE_END()
