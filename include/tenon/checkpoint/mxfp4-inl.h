#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/checkpoint/fp4_decoder.h"
#include "tenon/checkpoint/mxfp4.h"
#include "tenon/core/require.h"

namespace tenon::detail {

inline void add_mxfp4(QuantizedTensors& tensors, const std::string& name) {
  constexpr std::uint64_t values = 32, bytes = 16;  // of a block
  const TensorInfo& codes = tensors.take(name + "_blocks");
  const TensorInfo& exponents = tensors.take(name + "_scales");
  for (const TensorInfo* each : {&codes, &exponents}) tensors.need_type(*each, {DType::u8});
  const std::vector<std::uint64_t>& shape = codes.shape;
  const auto sound = [](std::uint64_t side) { return side > 0 && side <= kMaxMatrixSide; };
  if (shape.size() != 4 || !sound(shape[0]) || !sound(shape[1]) || !sound(shape[2]) || shape[3] != bytes)
    tensors.refuse(codes, "has shape " + shape_text(shape) + ", needs [experts, outputs, inputs / 32, 16]");
  tensors.need_shape(exponents, {shape[0], shape[1], shape[2]});
  const std::uint64_t inputs = shape[2] * values;
  if (shape[0] * shape[1] > kMaxMatrixSide || inputs > kMaxMatrixSide)
    tensors.refuse(codes, "has shape " + shape_text(shape) + ": at most 2^31 rows and columns are read");
  tensors.add_stack(name, codes, shape[0], {shape[1], inputs},
                    std::make_shared<Fp4Decoder>("mxfp4, blocks of 32",
                                                 Fp4Decoder::Parts{codes, exponents, inputs, values, {}, false}));
}

TENON_INLINE void find_mxfp4(QuantizedTensors& tensors) {
  for (const std::string& name : tensors.ending_in("_blocks")) add_mxfp4(tensors, name);
}

}  // namespace tenon::detail
