#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/hqq.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon::detail {

// value = (code - zero) * scale, rounded after each step (quantize.py, Quantizer.dequantize). The values of a matrix,
// row by row, are cut into as many parts as a unit of storage holds codes. Unit u holds value u of each part, that of
// the first part in the highest bits (bitpack.py).
class HqqDecoder final : public MatrixDecoder {
 public:
  struct Parts {
    TensorInfo codes, scales, zeros;  // codes: [units], U8, or I32 for 3 bits
    MatrixShape shape;
    int bits;
    std::uint64_t units, group;
    bool strided;  // axis 0: value i belongs to group i % groups; axis 1: to group i / group
  };
  HqqDecoder(std::string name, Parts parts)
      : MatrixDecoder(std::move(name), parts.shape.cols), parts_(std::move(parts)) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const std::uint64_t begin = first * parts_.shape.cols, end = begin + count * parts_.shape.cols;
    const std::uint64_t groups = parts_.shape.rows * parts_.shape.cols / parts_.group;
    const Range range = parts_.strided
                            ? Range{0, groups}
                            : Range{begin / parts_.group, divided_up(end, parts_.group) - begin / parts_.group};
    const std::vector<float> scales = read_floats(checkpoint, parts_.scales, range);
    const std::vector<float> zeros = read_floats(checkpoint, parts_.zeros, range);
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t part = at / parts_.units, stop = std::min(end, (part + 1) * parts_.units);
      const std::vector<std::uint32_t> units = read_units(checkpoint, {at - part * parts_.units, stop - at});
      const int shift = parts_.bits * (codes_in_unit(parts_.bits) - 1 - static_cast<int>(part));
      for (const std::uint32_t unit : units) {
        const std::uint64_t group = parts_.strided ? at % groups : at / parts_.group;
        const auto i = static_cast<std::size_t>(group - range.first);
        const float code = static_cast<float>(unit >> shift & ((1u << parts_.bits) - 1));
        *out++ = (code - zeros[i]) * scales[i];
        ++at;
      }
    }
  }

  static constexpr int codes_in_unit(int bits) { return bits == 3 ? 10 : 8 / bits; }

 private:
  std::vector<std::uint32_t> read_units(const Checkpoint& checkpoint, Range range) const {
    std::vector<std::uint32_t> out(static_cast<std::size_t>(range.count));
    if (parts_.codes.dtype == DType::i32) {
      checkpoint.read_bytes(parts_.codes, range.first * sizeof(std::uint32_t), std::as_writable_bytes(std::span(out)));
      return out;
    }
    std::vector<std::uint8_t> bytes(out.size());
    checkpoint.read_bytes(parts_.codes, range.first, std::as_writable_bytes(std::span(bytes)));
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return out;
  }

  Parts parts_;
};

// The one number of a tensor that stands for a field of a Python object.
inline std::int64_t hqq_number(QuantizedTensors& tensors, const std::string& name, std::int64_t low,
                               std::int64_t high) {
  const TensorInfo& tensor = tensors.take(name);
  tensors.need_type(tensor, {DType::i32, DType::u8});
  const std::uint64_t size = tensor.end - tensor.begin;
  if (size != (tensor.dtype == DType::i32 ? sizeof(std::int32_t) : 1)) tensors.refuse(tensor, "needs one number");
  std::array<std::byte, sizeof(std::int32_t)> bytes{};
  tensors.stored().read_bytes(tensor, 0, std::span(bytes).first(static_cast<std::size_t>(size)));
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  if (value < low || value > high)
    tensors.refuse(tensor, "is " + std::to_string(value) + ", must be from " + std::to_string(low) + " to " +
                               std::to_string(high));
  return value;
}

// Refuses a tensor of one byte that is not 0.
inline void refuse_hqq_switch(QuantizedTensors& tensors, const std::string& name) {
  const TensorInfo* tensor = tensors.stored().find(name);
  if (tensor && hqq_number(tensors, name, 0, 255) != 0)
    throw Error(Error::Kind::unsupported, tensors.stored().where(*tensor),
                "is set, which is not supported; quantise the model again without it");
}

inline MatrixShape hqq_shape(QuantizedTensors& tensors, const std::string& name) {
  const TensorInfo& tensor = tensors.take(name);
  tensors.need_type(tensor, {DType::i64});
  tensors.need_shape(tensor, {2});
  std::array<std::uint64_t, 2> shape{};
  tensors.stored().read_bytes(tensor, 0, std::as_writable_bytes(std::span(shape)));
  if (shape[0] == 0 || shape[1] == 0 || shape[0] > kMaxMatrixSide || shape[1] > kMaxMatrixSide)
    tensors.refuse(tensor, "says " + shape_text(std::vector(shape.begin(), shape.end())) + ", no shape of a matrix");
  return {shape[0], shape[1]};
}

inline void add_hqq(QuantizedTensors& tensors, const std::string& module) {
  HqqDecoder::Parts parts{};
  parts.codes = tensors.take(module + ".W_q");
  parts.scales = tensors.take(module + ".scale");
  parts.zeros = tensors.take(module + ".zero");
  for (const char* name : {".view_as_float", ".quant_scale", ".quant_zero"}) refuse_hqq_switch(tensors, module + name);
  for (const char* name : {".packing", ".unpack_view_dtype", ".compute_dtype", ".offload_meta", ".encoded_state_dict",
                           ".stores_quant_config", ".channel_wise", ".optimize", ".round_zero"})
    tensors.take_if(module + name);
  parts.bits = static_cast<int>(hqq_number(tensors, module + ".nbits", 1, 8));
  parts.group = static_cast<std::uint64_t>(hqq_number(tensors, module + ".group_size", 1, 1 << 20));
  parts.strided = hqq_number(tensors, module + ".axis", 0, 1) == 0;
  parts.shape = hqq_shape(tensors, module + ".shape");
  if (parts.bits != 8 && parts.bits > 4)
    throw Error(Error::Kind::unsupported, tensors.stored().where(*tensors.stored().find(module + ".nbits")),
                std::to_string(parts.bits) + " is not supported: 1, 2, 3, 4 and 8 are");
  const std::uint64_t values = parts.shape.rows * parts.shape.cols, groups = values / parts.group;
  const auto in_unit = static_cast<std::uint64_t>(HqqDecoder::codes_in_unit(parts.bits));
  // The library packs lines: groups along axis 1, or values of a group along axis 0. Only 3 bits fill up the last part.
  const std::uint64_t line = parts.strided ? groups : parts.group, lines = values / std::max<std::uint64_t>(line, 1);
  if (values % parts.group != 0 || (parts.bits != 3 && lines % in_unit != 0))
    tensors.refuse(parts.codes, "stands for " + std::to_string(values) + " values, which groups of " +
                                    std::to_string(parts.group) + " and " + std::to_string(parts.bits) +
                                    " bits do not divide");
  tensors.need_type(parts.codes, {parts.bits == 3 ? DType::i32 : DType::u8});
  tensors.need_shape(parts.codes, {divided_up(lines, in_unit), line});
  parts.units = divided_up(lines, in_unit) * line;
  for (const TensorInfo* each : {&parts.scales, &parts.zeros}) {
    tensors.need_type(*each, {DType::f16, DType::bf16, DType::f32});
    tensors.need_shape(*each,
                       parts.strided ? std::vector<std::uint64_t>{1, groups} : std::vector<std::uint64_t>{groups, 1});
  }
  const std::string name = "hqq, " + std::to_string(parts.bits) + " bits, groups of " + std::to_string(parts.group) +
                           (parts.strided ? " along the outputs" : "");
  const TensorInfo codes = parts.codes;
  const MatrixShape shape = parts.shape;
  tensors.add(module, codes, shape, std::make_shared<HqqDecoder>(name, std::move(parts)));
}

TENON_INLINE void find_hqq(QuantizedTensors& tensors) {
  for (const std::string& module : tensors.ending_in(".W_q")) add_hqq(tensors, module);
}

}  // namespace tenon::detail
