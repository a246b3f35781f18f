// Weights as four-bit integers in groups of 32, 64 or 128 columns, each with a float16 scale.
#pragma once
#include "tenon/weights/group_weights.h"
#include "tenon/weights/int4_code.h"

namespace tenon {

/// Weight policy: int4 weights with one scale per `Group` columns, float32 activations and sums.
template <int Group>
struct GroupInt4Of : GroupWeights<Int4Code<Group>, Int4Panels> {
  static constexpr NumericClass<GroupInt4Of> numeric_class{Int4Code<Group>::name};
};
using GroupInt4 = GroupInt4Of<32>;
static_assert(WeightPolicy<GroupInt4> && WeightCode<Int4Code<32>>);

}  // namespace tenon
