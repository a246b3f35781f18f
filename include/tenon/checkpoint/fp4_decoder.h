// Matrices of 4-bit floats (E2M1) with a scale for each block of a row: MXFP4 (Open Compute Project, Microscaling
// Formats, 2023), whose scales are powers of two, and NVFP4 (NVIDIA, 2025), whose scales are E4M3 times one float32.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/quantized_tensors.h"
#include "tenon/core/float8.h"
#include "tenon/core/require.h"

namespace tenon::detail {

/// 2^(exponent - 127), the value of a scale of 8 bits (E8M0). Exponent 255 is NaN.
inline float power_of_two(std::uint8_t exponent) {
  constexpr std::uint32_t smallest = 1u << 22;  // 2^-127, a subnormal
  if (exponent == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(exponent == 0 ? smallest : std::uint32_t{exponent} << 23);
}

/// Elements of a tensor of scales, in stored order: floats, E4M3 (F8_E4M3) or powers of two (U8). Codes of NaN give
/// NaN.
inline std::vector<float> read_scales(const Checkpoint& checkpoint, const TensorInfo& tensor, Range elements) {
  if (tensor.dtype != DType::u8 && tensor.dtype != DType::f8_e4m3) return read_floats(checkpoint, tensor, elements);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(elements.count));
  checkpoint.read_bytes(tensor, elements.first, std::as_writable_bytes(std::span(codes)));
  std::vector<float> out;
  out.reserve(codes.size());
  for (const std::uint8_t code : codes) {
    float8<E4M3> scale;
    scale.bits = code;
    out.push_back(tensor.dtype == DType::u8 ? power_of_two(code)
                  : finite(scale)           ? static_cast<float>(scale)
                                            : std::numeric_limits<float>::quiet_NaN());
  }
  return out;
}

/// Codes [rows, inputs / 2], U8: two a byte, the first in the low four bits. value = value of the code * scale.
class Fp4Decoder final : public MatrixDecoder {
 public:
  struct Parts {
    TensorInfo codes, scales;          // scales: [rows, inputs / block], as read_scales reads them
    std::uint64_t inputs, block;       // block: inputs that share a scale
    std::optional<TensorInfo> global;  // one float32 for all scales
    bool divides;                      // scale / global, as compressed-tensors has it; else scale * global: ModelOpt
  };
  Fp4Decoder(std::string name, Parts parts) : MatrixDecoder(std::move(name), parts.inputs), parts_(std::move(parts)) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const std::uint64_t bytes = parts_.inputs / 2, blocks = parts_.inputs / parts_.block;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * bytes));
    checkpoint.read_bytes(parts_.codes, first * bytes, std::as_writable_bytes(std::span(codes)));
    std::vector<float> scales = read_scales(checkpoint, parts_.scales, {first * blocks, count * blocks});
    if (parts_.global) {
      const float global = read_floats(checkpoint, *parts_.global, {0, 1}).front();
      for (float& scale : scales) scale = parts_.divides ? scale / global : scale * global;
    }
    const std::array<float, 16>& values = parts_.global && !parts_.divides ? kModelOptValues : kValues;
    const std::uint8_t* code = codes.data();
    for (const float scale : scales) {
      for (std::uint64_t i = 0; i < parts_.block / 2; ++i, ++code) {
        *out++ = values[*code & 15u] * scale;
        *out++ = values[*code >> 4] * scale;
      }
    }
  }

 private:
  // The values of the codes (transformers, integrations/mxfp4.py, FP4_VALUES).
  static constexpr std::array<float, 16> kValues = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                                    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  // ModelOpt has no negative zero (nvfp4_tensor.py, e2m1_values).
  static constexpr std::array<float, 16> kModelOptValues = {0.0f, 0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                                            0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

  Parts parts_;
};

/// Adds the matrix `module`.weight, whose codes are the tensor `codes` and whose scales for blocks of 16 or 32 inputs
/// are `module`.weight_scale. global: the name of the tensor for all scales; empty: none. Errors: those of
/// decode_quantized.
inline void add_fp4(QuantizedTensors& tensors, const std::string& module, const TensorInfo& codes, std::uint64_t block,
                    const std::string& global, bool divides, const std::string& method, const std::string& note) {
  Fp4Decoder::Parts parts{codes, tensors.take(module + ".weight_scale"), 0, block, {}, divides};
  tensors.need_matrix(codes);
  tensors.need_type(codes, {DType::u8});
  tensors.need_type(parts.scales, {global.empty() ? DType::u8 : DType::f8_e4m3});
  parts.inputs = codes.shape[1] * 2;
  if (parts.inputs % block != 0 || parts.inputs > kMaxMatrixSide)
    tensors.refuse(codes, "stands for " + std::to_string(parts.inputs) + " inputs, needs a multiple of " +
                              std::to_string(block) + " up to 2^31");
  tensors.need_shape(parts.scales, {codes.shape[0], parts.inputs / block});
  if (!global.empty()) {
    const TensorInfo& one = tensors.take(global);
    tensors.need_type(one, {DType::f32});
    if (one.end - one.begin != sizeof(float)) tensors.refuse(one, "needs one number");
    parts.global = one;
  }
  const MatrixShape shape{codes.shape[0], parts.inputs};
  tensors.add(module, codes, shape,
              std::make_shared<Fp4Decoder>(method + ", blocks of " + std::to_string(block) + note, std::move(parts)));
}

}  // namespace tenon::detail
