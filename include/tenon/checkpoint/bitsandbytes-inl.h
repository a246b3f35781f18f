#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/bitsandbytes.h"
#include "tenon/core/normal_float4.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::detail {

// value = code * SCB * (1 / 127), rounded after each product.
class Int8RowsDecoder final : public MatrixDecoder {
 public:
  Int8RowsDecoder(TensorInfo codes, TensorInfo scales)
      : MatrixDecoder("bitsandbytes, int8; activations stay in float32", codes.shape[1]),
        codes_(std::move(codes)),
        scales_(std::move(scales)) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const std::uint64_t cols = codes_.shape[1];
    std::vector<std::int8_t> codes(static_cast<std::size_t>(count * cols));
    checkpoint.read_bytes(codes_, first * cols, std::as_writable_bytes(std::span(codes)));
    const std::vector<float> scales = read_floats(checkpoint, scales_, {first, count});
    constexpr float by_127 = 7.874015718698502e-3f;
    for (std::size_t i = 0; i < codes.size(); ++i)
      out[i] = static_cast<float>(codes[i]) * scales[i / static_cast<std::size_t>(cols)] * by_127;
  }

 private:
  TensorInfo codes_, scales_;
};

// The values of the codes (functional.py, get_4bit_type).
inline constexpr std::array<float, 16> kFp4Values = {
    0.0f, 0.0625f / 12,  8.0f / 12,  1.0f,  4.0f / 12,  6.0f / 12,  2.0f / 12,  3.0f / 12,
    0.0f, -0.0625f / 12, -8.0f / 12, -1.0f, -4.0f / 12, -6.0f / 12, -2.0f / 12, -3.0f / 12};

// Two codes a byte, the first in the high four bits. Blocks of `block` values run on from row to row.
class FourBitDecoder final : public MatrixDecoder {
 public:
  // Double quantisation: scale = code of 8 bits * scale of its block + offset.
  struct Nested {
    TensorInfo scales, values;  // values: of the 256 codes
    std::uint64_t block;
    float offset;
  };
  struct Parts {
    TensorInfo codes, scales;
    std::uint64_t cols, values, block;  // values: of the matrix
    std::array<float, 16> table;
    std::optional<Nested> nested;
  };
  FourBitDecoder(std::string name, Parts parts)
      : MatrixDecoder(std::move(name), parts.cols), parts_(std::move(parts)) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const std::uint64_t begin = first * parts_.cols, end = begin + count * parts_.cols;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(divided_up(end, 2) - begin / 2));
    checkpoint.read_bytes(parts_.codes, begin / 2, std::as_writable_bytes(std::span(codes)));
    const std::uint64_t block = begin / parts_.block;
    const std::vector<float> scales = scales_of(checkpoint, {block, divided_up(end, parts_.block) - block});
    for (std::uint64_t i = begin; i < end; ++i) {
      const int pair = codes[static_cast<std::size_t>(i / 2 - begin / 2)], code = i % 2 == 0 ? pair >> 4 : pair & 15;
      *out++ =
          parts_.table[static_cast<std::size_t>(code)] * scales[static_cast<std::size_t>(i / parts_.block - block)];
    }
  }

 private:
  std::vector<float> scales_of(const Checkpoint& checkpoint, Range blocks) const {
    if (!parts_.nested) return read_floats(checkpoint, parts_.scales, blocks);
    const Nested& nested = *parts_.nested;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(blocks.count));
    checkpoint.read_bytes(parts_.scales, blocks.first, std::as_writable_bytes(std::span(codes)));
    const std::uint64_t outer = blocks.first / nested.block, last = blocks.first + blocks.count;
    const std::vector<float> steps =
        read_floats(checkpoint, nested.scales, {outer, divided_up(last, nested.block) - outer});
    const std::vector<float> values = read_floats(checkpoint, nested.values, {0, 256});
    std::vector<float> out(codes.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float step = steps[static_cast<std::size_t>((blocks.first + i) / nested.block - outer)];
      // The product is exact in double, so this rounds once, and no compiler may contract it with the sum.
      out[i] = static_cast<float>(static_cast<double>(values[codes[i]]) * static_cast<double>(step)) + nested.offset;
    }
    return out;
  }

  Parts parts_;
};

inline void add_int8(QuantizedTensors& tensors, const std::string& module) {
  const TensorInfo& codes = tensors.take(module + ".weight");
  const TensorInfo& scales = tensors.take(module + ".SCB");
  tensors.need_matrix(codes);
  tensors.need_type(codes, {DType::i8});
  tensors.need_type(scales, {DType::f32, DType::f16, DType::bf16});
  tensors.need_shape(scales, {codes.shape[0]});
  if (const TensorInfo* format = tensors.take_if(module + ".weight_format")) {
    tensors.need_type(*format, {DType::u8});
    std::byte order{};
    if (format->end - format->begin != 1) tensors.refuse(*format, "needs one byte");
    tensors.stored().read_bytes(*format, 0, std::span(&order, 1));
    if (order != std::byte{0})
      throw Error(Error::Kind::unsupported, tensors.stored().where(*format),
                  "is " + std::to_string(std::to_integer<int>(order)) +
                      "; only 0, rows in order, is supported: save the model again with bitsandbytes 0.45 or newer");
  }
  tensors.add(module, codes, {codes.shape[0], codes.shape[1]}, std::make_shared<Int8RowsDecoder>(codes, scales));
}

// The JSON text in a tensor of bytes.
inline Json quantization_state(const QuantizedTensors& tensors, const TensorInfo& tensor) {
  constexpr std::uint64_t largest = 64 * 1024;
  tensors.need_type(tensor, {DType::u8});
  const std::uint64_t size = tensor.end - tensor.begin;
  if (size > largest) tensors.refuse(tensor, "has " + std::to_string(size) + " bytes, at most 65536 are read");
  std::string text(static_cast<std::size_t>(size), '\0');
  tensors.stored().read_bytes(tensor, 0, std::as_writable_bytes(std::span(text)));
  return parse_json(text, tensors.stored().where(tensor), {.depth = 8, .values = 1000});
}

inline int block_field(const Fields& state, const std::string& key) {
  const int block = state.integer(key, 1, 1 << 20);
  if ((block & (block - 1)) != 0) state.refuse(key, "must be a power of two, is " + std::to_string(block));
  return block;
}

inline MatrixShape shape_field(const Fields& state) {
  const Json& shape = state.value("shape");
  if (!shape.is_array() || shape.size() != 2)
    state.refuse("shape", "must be a list of rows and columns, is " + Fields::describe(shape));
  constexpr int largest = 1 << 30;
  const auto side = [&](const Json& value) {
    return static_cast<std::uint64_t>(state.check_integer("shape", value, 1, largest));
  };
  return {side(shape[0]), side(shape[1])};
}

inline FourBitDecoder::Nested nested_scales(QuantizedTensors& tensors, const std::string& weight, const Fields& state,
                                            std::uint64_t blocks) {
  constexpr double largest = 3e38;
  const TensorInfo& scales = tensors.take(weight + ".nested_absmax");
  const TensorInfo& values = tensors.take(weight + ".nested_quant_map");
  const auto block = static_cast<std::uint64_t>(block_field(state, "nested_blocksize"));
  for (const TensorInfo* each : {&scales, &values}) tensors.need_type(*each, {DType::f32});
  state.choice("nested_dtype", {"float32"}, "float32");
  tensors.need_shape(scales, {divided_up(blocks, block)});
  tensors.need_shape(values, {256});
  return {scales, values, block, static_cast<float>(state.number("nested_offset", -largest, largest))};
}

inline void add_four_bit(QuantizedTensors& tensors, const std::string& weight, const std::string& kind) {
  const std::string state_name = weight + ".quant_state.bitsandbytes__" + kind;
  if (!weight.ends_with(".weight")) tensors.refuse(*tensors.stored().find(state_name), "belongs to no tensor .weight");
  const TensorInfo& codes = tensors.take(weight);
  const TensorInfo& scales = tensors.take(weight + ".absmax");
  const TensorInfo& state_tensor = tensors.take(state_name);
  tensors.take_if(weight + ".quant_map");  // the library uses its own table, too
  const Json json = quantization_state(tensors, state_tensor);
  const Fields state(json, tensors.stored().where(state_tensor));
  if (state.string("quant_type") != kind) state.refuse("quant_type", "must be that of the tensor's name, " + kind);
  state.choice("dtype", {"float32", "float16", "bfloat16"});
  const auto block = static_cast<std::uint64_t>(block_field(state, "blocksize"));
  const MatrixShape shape = shape_field(state);
  const std::uint64_t values = shape.rows * shape.cols, blocks = divided_up(values, block);
  if (codes.end - codes.begin != divided_up(values, 2))
    tensors.refuse(codes, "has " + std::to_string(codes.end - codes.begin) + " bytes, needs " +
                              std::to_string(divided_up(values, 2)) + ": " + state.where("shape") + " has " +
                              std::to_string(values) + " values of 4 bits");
  FourBitDecoder::Parts parts{
      codes, scales, shape.cols, values, block, kind == "nf4" ? std::to_array(kNormalFloat4.values) : kFp4Values, {}};
  if (state.has("nested_blocksize")) {
    tensors.need_type(scales, {DType::u8});
    parts.nested = nested_scales(tensors, weight, state, blocks);
  } else {
    tensors.need_type(scales, {DType::f32, DType::f16, DType::bf16});
  }
  tensors.need_shape(scales, {blocks});
  const std::string name =
      "bitsandbytes, " + kind + ", blocks of " + std::to_string(block) + (parts.nested ? ", double quantisation" : "");
  const std::string module = weight.substr(0, weight.size() - std::string_view(".weight").size());
  tensors.add(module, codes, shape, std::make_shared<FourBitDecoder>(name, std::move(parts)));
}

TENON_INLINE void find_bitsandbytes(QuantizedTensors& tensors) {
  for (const std::string& module : tensors.ending_in(".SCB")) add_int8(tensors, module);
  for (const std::string kind : {"nf4", "fp4"})
    for (const std::string& weight : tensors.ending_in(".quant_state.bitsandbytes__" + kind))
      add_four_bit(tensors, weight, kind);
}

}  // namespace tenon::detail
