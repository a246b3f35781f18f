#pragma once
#include "tenon/checkpoint/dtype.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE void floats_of_f16(const std::uint16_t* in, float* out, std::size_t n) {
  detail::widen<float_of_f16>(in, out, n);
}

TENON_INLINE void floats_of_bf16(const std::uint16_t* in, float* out, std::size_t n) {
  detail::widen<float_of_bf16>(in, out, n);
}

}  // namespace tenon
