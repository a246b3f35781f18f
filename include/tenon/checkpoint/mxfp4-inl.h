#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/mxfp4.h"
#include "tenon/core/require.h"

namespace tenon::detail {

// A block: 32 codes, two a byte, the first in the low four bits; and an exponent.
// value = value of the code * 2^(exponent - 127), exact in float32, and in bfloat16, too. Exponent 255 is NaN.
class Mxfp4Decoder final : public MatrixDecoder {
 public:
  Mxfp4Decoder(TensorInfo codes, TensorInfo exponents, std::uint64_t blocks)
      : MatrixDecoder("mxfp4, blocks of 32", blocks * kValues),
        codes_(std::move(codes)),
        exponents_(std::move(exponents)),
        blocks_(blocks) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const std::uint64_t begin = first * blocks_, n = count * blocks_;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(n * kBytes)), exponents(static_cast<std::size_t>(n));
    checkpoint.read_bytes(codes_, begin * kBytes, std::as_writable_bytes(std::span(codes)));
    checkpoint.read_bytes(exponents_, begin, std::as_writable_bytes(std::span(exponents)));
    const std::uint8_t* code = codes.data();
    for (const std::uint8_t exponent : exponents) {
      const float scale = power(exponent);
      for (std::size_t i = 0; i < kBytes; ++i, ++code) {
        *out++ = kCodes[*code & 15u] * scale;
        *out++ = kCodes[*code >> 4] * scale;
      }
    }
  }

  static constexpr std::size_t kValues = 32, kBytes = 16;  // of a block

 private:
  // The values of the codes (transformers, integrations/mxfp4.py, FP4_VALUES).
  static constexpr std::array<float, 16> kCodes = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                                   -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

  static float power(std::uint8_t exponent) {
    constexpr std::uint32_t smallest = 1u << 22;  // 2^-127, a subnormal
    if (exponent == 255) return std::numeric_limits<float>::quiet_NaN();
    return std::bit_cast<float>(exponent == 0 ? smallest : std::uint32_t{exponent} << 23);
  }

  TensorInfo codes_, exponents_;
  std::uint64_t blocks_;  // of a row
};

inline void add_mxfp4(QuantizedTensors& tensors, const std::string& name) {
  const TensorInfo& codes = tensors.take(name + "_blocks");
  const TensorInfo& exponents = tensors.take(name + "_scales");
  for (const TensorInfo* each : {&codes, &exponents}) tensors.need_type(*each, {DType::u8});
  const std::vector<std::uint64_t>& shape = codes.shape;
  const auto sound = [](std::uint64_t side) { return side > 0 && side <= kMaxMatrixSide; };
  if (shape.size() != 4 || !sound(shape[0]) || !sound(shape[1]) || !sound(shape[2]) || shape[3] != Mxfp4Decoder::kBytes)
    tensors.refuse(codes, "has shape " + shape_text(shape) + ", needs [experts, outputs, inputs / 32, 16]");
  tensors.need_shape(exponents, {shape[0], shape[1], shape[2]});
  const std::uint64_t inputs = shape[2] * Mxfp4Decoder::kValues;
  if (shape[0] * shape[1] > kMaxMatrixSide || inputs > kMaxMatrixSide)
    tensors.refuse(codes, "has shape " + shape_text(shape) + ": at most 2^31 rows and columns are read");
  tensors.add_stack(name, codes, shape[0], {shape[1], inputs},
                    std::make_shared<Mxfp4Decoder>(codes, exponents, shape[2]));
}

TENON_INLINE void find_mxfp4(QuantizedTensors& tensors) {
  for (const std::string& name : tensors.ending_in("_blocks")) add_mxfp4(tensors, name);
}

}  // namespace tenon::detail
