// The weight formats that are measured, by their names on the command line.
#pragma once
#include <string_view>

#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/float16.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int4_act8.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"

namespace bench {

template <class P>
struct Format {
  using Policy = P;
  std::string_view name;
};

// Calls body(Format<Policy>{name}) for each format.
template <class Body>
void for_each_format(Body&& body) {
  using namespace tenon;
  body(Format<Float32>{"float32"});
  body(Format<BFloat16>{"bfloat16"});
  body(Format<BFloat16Dot>{"bfloat16_dot"});
  body(Format<BFloat16Amx>{"bfloat16_amx"});
  body(Format<Float16>{"float16"});
  body(Format<Float8<E4M3>>{"float8_e4m3"});
  body(Format<Float8<E5M2>>{"float8_e5m2"});
  body(Format<ZeroPointInt8>{"int8"});
  body(Format<ZeroPointInt8Of<PerTensor>>{"int8_tensor"});
  body(Format<ZeroPointInt8Act8>{"int8_act8"});
  body(Format<GroupInt4>{"int4"});
  body(Format<GroupInt4Act8>{"int4_act8"});
}

}  // namespace bench
