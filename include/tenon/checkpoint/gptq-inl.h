#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/gptq.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::detail {

// Decodes a matrix stored [inputs, outputs], with a scale and a zero point for each group of inputs.
class GroupedDecoder : public MatrixDecoder {
 public:
  struct Parts {
    TensorInfo codes, zeros, scales;  // scales: [groups, outputs]
    std::optional<TensorInfo> g_idx;  // [inputs]; empty: groups of `group` adjacent inputs
    std::uint64_t inputs, group;
    int bits;
  };

 protected:
  GroupedDecoder(std::string name, Parts parts)
      : MatrixDecoder(std::move(name), parts.inputs), parts_(std::move(parts)) {}

  // out[j, i] = scale * (code(i, j) - zero(group of i, j)) for outputs j of `count`, and all inputs i.
  template <class Code, class Zero>
  void decode(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, Code code, Zero zero,
              float* out) const {
    const std::uint64_t groups = parts_.scales.shape[0], inputs = parts_.inputs;
    std::vector<float> scales(static_cast<std::size_t>(groups * count));
    checkpoint.read(parts_.scales, 0, groups, first, count, scales.data());
    std::vector<int> zeros(scales.size());
    for (std::uint64_t g = 0; g < groups; ++g)
      for (std::uint64_t j = 0; j < count; ++j) zeros[static_cast<std::size_t>(g * count + j)] = zero(g, j);
    const std::vector<std::uint32_t> group_of =
        parts_.g_idx ? read_group_indices(checkpoint, *parts_.g_idx, groups) : adjacent_groups(inputs, parts_.group);
    constexpr std::uint64_t strip = 64;  // outputs at once: their lines of `out` stay in L1
    for (std::uint64_t begin = 0; begin < count; begin += strip) {
      const std::uint64_t end = std::min(begin + strip, count);
      for (std::uint64_t i = 0; i < inputs; ++i) {
        const auto group = static_cast<std::size_t>(group_of[static_cast<std::size_t>(i)] * count);
        for (std::uint64_t j = begin; j < end; ++j) {
          const std::size_t at = group + static_cast<std::size_t>(j);
          out[j * inputs + i] = scales[at] * static_cast<float>(code(i, j) - zeros[at]);
        }
      }
    }
  }

  const Parts parts_;
};

// How zero points are stored: as they are, minus 1 each, or minus 1 each with a borrow from the next one in a word.
enum class StoredZeros : std::uint8_t { plain, less_one, less_one_with_borrow };

// Codes: [inputs / (codes a word), outputs]; zero points: [groups, outputs / (codes a word)].
class GptqDecoder final : public GroupedDecoder {
 public:
  GptqDecoder(std::string name, Parts parts, StoredZeros stored)
      : GroupedDecoder(std::move(name), std::move(parts)), stored_zeros_(stored) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const auto bits = static_cast<std::uint64_t>(parts_.bits), in_word = 32 / bits;
    const std::uint32_t mask = (1u << parts_.bits) - 1;
    const auto codes = read_words(checkpoint, parts_.codes, {0, parts_.codes.shape[0]}, {first, count});
    const std::uint64_t zero_first = first / in_word, zero_words = divided_up(first + count, in_word) - zero_first;
    auto zeros = read_words(checkpoint, parts_.zeros, {0, parts_.zeros.shape[0]}, {zero_first, zero_words});
    // As gptqmodel does: one sum per word, so a carry goes to the next zero point.
    if (stored_zeros_ == StoredZeros::less_one_with_borrow)
      for (std::uint32_t& word : zeros) word += parts_.bits == 4 ? 0x11111111u : 0x01010101u;
    const auto field = [&](std::uint32_t word, std::uint64_t at) {
      return static_cast<int>(word >> (at % in_word * bits) & mask);
    };
    decode(
        checkpoint, first, count,
        [&](std::uint64_t i, std::uint64_t j) {
          return field(codes[static_cast<std::size_t>(i / in_word * count + j)], i);
        },
        [&](std::uint64_t g, std::uint64_t j) {
          const std::uint64_t output = first + j;
          return field(zeros[static_cast<std::size_t>(g * zero_words + output / in_word - zero_first)], output) +
                 (stored_zeros_ == StoredZeros::less_one ? 1 : 0);
        },
        out);
  }

 private:
  StoredZeros stored_zeros_;
};

// Codes: [inputs, outputs / 8]; zero points: [groups, outputs / 8]. Eight codes of a word have this order.
class AwqDecoder final : public GroupedDecoder {
 public:
  AwqDecoder(std::string name, Parts parts) : GroupedDecoder(std::move(name), std::move(parts)) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const std::uint64_t word = first / 8, words = divided_up(first + count, 8) - word;
    const auto codes = read_words(checkpoint, parts_.codes, {0, parts_.inputs}, {word, words});
    const auto zeros = read_words(checkpoint, parts_.zeros, {0, parts_.zeros.shape[0]}, {word, words});
    const auto field = [&](const std::vector<std::uint32_t>& from, std::uint64_t row, std::uint64_t j) {
      constexpr std::array<int, 8> place = {0, 4, 1, 5, 2, 6, 3, 7};  // AWQ_REVERSE_ORDER of packing_utils.py
      const std::uint64_t output = first + j;
      return static_cast<int>(from[static_cast<std::size_t>(row * words + output / 8 - word)] >>
                                  (4 * place[static_cast<std::size_t>(output % 8)]) &
                              15u);
    };
    decode(
        checkpoint, first, count, [&](std::uint64_t i, std::uint64_t j) { return field(codes, i, j); },
        [&](std::uint64_t g, std::uint64_t j) { return field(zeros, g, j); }, out);
  }
};

// Groups of inputs; -1 is one group of all inputs.
inline std::uint64_t group_size(const QuantizedTensors& tensors, std::uint64_t inputs) {
  const int size = tensors.config().integer("group_size", -1, 1 << 20, 128);
  if (size == 0) tensors.config().refuse("group_size", "must be -1 or at least 1, is 0");
  return size < 0 ? inputs : static_cast<std::uint64_t>(size);
}

inline std::string groups_text(std::uint64_t size, std::uint64_t inputs) {
  return size >= inputs ? ", a scale per output" : ", groups of " + std::to_string(size);
}

// The number of bits: that of the config, or for a config with rules per module (`dynamic`) that of the tensors.
inline int gptq_bits(const QuantizedTensors& tensors, int bits, const TensorInfo& codes, const TensorInfo* g_idx) {
  const bool varies = tensors.config().has("dynamic") && !tensors.config().value("dynamic").empty();
  if (varies && !g_idx) tensors.unsupported("dynamic", "is not supported for matrices without g_idx");
  if (varies) {
    for (const int each : {4, 8})
      if (divided_up(g_idx->shape[0], 32 / static_cast<std::uint64_t>(each)) == codes.shape[0]) return each;
    tensors.unsupported("dynamic", "gives " + printable(codes.name) + " a number of bits other than 4 and 8");
  }
  if (bits == 4 || bits == 8) return bits;
  tensors.unsupported("bits", std::to_string(bits) + " is not supported: 4 and 8 are; use another quantisation of it");
}

// Version 1 stores zero points minus 1. gptqmodel subtracts 1 from each field of a word and names itself in meta.
// AutoGPTQ, which has no meta, adds 1 after it has cut out a field: 15 becomes 16 (qlinear_cuda.py, forward).
inline StoredZeros stored_zeros(const Fields& config, const std::string& format) {
  if (format == "gptq_v2") return StoredZeros::plain;
  if (!config.has("meta") || !config.value("meta").is_object()) return StoredZeros::less_one;
  const Fields meta = config.object("meta");
  if (!meta.has("quantizer")) return StoredZeros::less_one;
  const Json& value = meta.value("quantizer");
  const Json list = value.is_array() ? value : Json::array({value});
  const bool known = std::any_of(list.begin(), list.end(), [](const Json& each) {
    return each.is_string() && each.get<std::string>().starts_with("gptqmodel");
  });
  return known ? StoredZeros::less_one_with_borrow : StoredZeros::less_one;
}

inline void add_gptq(QuantizedTensors& tensors, const std::string& module, int bits_field, StoredZeros zeros_stored) {
  const TensorInfo& codes = tensors.take(module + ".qweight");
  const TensorInfo& zeros = tensors.take(module + ".qzeros");
  const TensorInfo& scales = tensors.take(module + ".scales");
  const bool by_activation = tensors.config().boolean("desc_act", false);
  const TensorInfo* g_idx = by_activation ? &tensors.take(module + ".g_idx") : tensors.take_if(module + ".g_idx");
  for (const TensorInfo* each : {&codes, &zeros, &scales}) tensors.need_matrix(*each);
  for (const TensorInfo* each : {&codes, &zeros}) tensors.need_type(*each, {DType::i32});
  tensors.need_type(scales, {DType::f16, DType::bf16, DType::f32});
  if (g_idx) {
    tensors.need_type(*g_idx, {DType::i32});
    if (g_idx->shape.size() != 1 || g_idx->shape[0] > kMaxMatrixSide)
      tensors.refuse(*g_idx, "has shape " + shape_text(g_idx->shape) + ", needs a list of the groups of all inputs");
  }
  const int bits = gptq_bits(tensors, bits_field, codes, g_idx);
  const auto in_word = static_cast<std::uint64_t>(32 / bits);
  const std::uint64_t outputs = codes.shape[1], inputs = g_idx ? g_idx->shape[0] : codes.shape[0] * in_word;
  const std::uint64_t size = group_size(tensors, inputs);
  const std::uint64_t groups = g_idx ? scales.shape[0] : divided_up(inputs, size);
  tensors.need_shape(codes, {divided_up(inputs, in_word), outputs});
  tensors.need_shape(scales, {groups, outputs});
  tensors.need_shape(zeros, {groups, divided_up(outputs, in_word)});
  const std::string name = "gptq, " + std::to_string(bits) + " bits" + groups_text(size, inputs) +
                           (by_activation ? ", in order of activations" : "");
  GroupedDecoder::Parts parts{codes, zeros, scales, {}, inputs, size, bits};
  if (g_idx) parts.g_idx = *g_idx;
  tensors.add(module, codes, {outputs, inputs}, std::make_shared<GptqDecoder>(name, std::move(parts), zeros_stored));
}

TENON_INLINE void find_gptq(QuantizedTensors& tensors) {
  const Fields& config = tensors.config();
  const bool both = config.has("checkpoint_format") && config.has("format");
  const std::string key = config.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string format = config.choice(key, {"gptq", "gptq_v2"}, "gptq");
  if (both && config.string("format") != format)
    config.refuse("format", "differs from checkpoint_format, " + format + "; the two must agree");
  config.choice("pack_dtype", {"int32"}, "int32");
  tensors.refuse_set({"is_marlin_format", "adapter", "rotation"});
  const int bits = config.integer("bits", 1, 32);
  const StoredZeros zeros = stored_zeros(config, format);
  for (const std::string& module : tensors.ending_in(".qweight")) add_gptq(tensors, module, bits, zeros);
}

TENON_INLINE void find_awq(QuantizedTensors& tensors) {
  const Fields& config = tensors.config();
  if (config.integer("bits", 1, 32, 4) != 4) tensors.unsupported("bits", "other than 4 is not supported");
  if (!config.boolean("zero_point", true)) tensors.unsupported("zero_point", "false is not supported");
  for (const char* key : {"version", "format", "checkpoint_format"})  // gptqmodel writes the latter two
    if (config.has(key)) config.choice(key, {"gemm", "GEMM"});
  // Other words name the kernels of a loader.
  if (config.string("backend", "") == "llm-awq")
    tensors.unsupported("backend", "llm-awq is not supported: it has another order of codes");
  for (const std::string& module : tensors.ending_in(".qweight")) {
    const TensorInfo& codes = tensors.take(module + ".qweight");
    const TensorInfo& zeros = tensors.take(module + ".qzeros");
    const TensorInfo& scales = tensors.take(module + ".scales");
    for (const TensorInfo* each : {&codes, &zeros, &scales}) tensors.need_matrix(*each);
    for (const TensorInfo* each : {&codes, &zeros}) tensors.need_type(*each, {DType::i32});
    tensors.need_type(scales, {DType::f16, DType::bf16, DType::f32});
    const std::uint64_t inputs = codes.shape[0], words = codes.shape[1], outputs = words * 8;
    const std::uint64_t size = group_size(tensors, inputs), groups = inputs / size;
    if (inputs % size != 0)
      tensors.refuse(codes, "has " + std::to_string(inputs) + " inputs, no multiple of " + config.where("group_size") +
                                ", " + std::to_string(size));
    tensors.need_shape(scales, {groups, outputs});
    tensors.need_shape(zeros, {groups, words});
    tensors.add(module, codes, {outputs, inputs},
                std::make_shared<AwqDecoder>("awq, 4 bits" + groups_text(size, inputs),
                                             GroupedDecoder::Parts{codes, zeros, scales, {}, inputs, size, 4}));
  }
}

}  // namespace tenon::detail
