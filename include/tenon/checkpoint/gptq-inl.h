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

// Codes: [inputs * bits / 32, outputs]; zero points: [groups, outputs * bits / 32]. Both are runs of 32-bit words, down
// a column and along a row. Value i of a run has the bits [i * bits, (i + 1) * bits).
class GptqDecoder final : public GroupedDecoder {
 public:
  GptqDecoder(std::string name, Parts parts, StoredZeros stored)
      : GroupedDecoder(std::move(name), std::move(parts)), stored_zeros_(stored) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const auto bits = static_cast<std::uint64_t>(parts_.bits);
    const auto codes = read_words(checkpoint, parts_.codes, {0, parts_.codes.shape[0]}, {first, count});
    const std::uint64_t word = first * bits / 32, words = divided_up((first + count) * bits, 32) - word;
    auto zeros = read_words(checkpoint, parts_.zeros, {0, parts_.zeros.shape[0]}, {word, words});
    // gptqmodel has one sum per word where words hold whole values, so a carry goes to the next zero point.
    const bool gptqmodel = stored_zeros_ == StoredZeros::less_one_as_gptqmodel, carries = gptqmodel && 32 % bits == 0;
    if (carries)
      for (std::uint32_t& each : zeros) each += 0xffffffffu / mask();
    const std::uint32_t more = stored_zeros_ == StoredZeros::plain || carries ? 0 : 1, kept = gptqmodel ? mask() : ~0u;
    decode(
        checkpoint, first, count,
        [&](std::uint64_t i, std::uint64_t j) { return static_cast<int>(value(codes.data() + j, count, i * bits)); },
        [&](std::uint64_t g, std::uint64_t j) {
          const std::uint64_t at = (first + j) * bits - word * 32;
          return static_cast<int>((value(zeros.data() + g * words, 1, at) + more) & kept);
        },
        out);
  }

 private:
  std::uint32_t mask() const { return (1u << parts_.bits) - 1; }

  // The value at bit `at` of a run whose words lie `stride` apart. Some of those of 3 bits end in the next word.
  std::uint32_t value(const std::uint32_t* run, std::uint64_t stride, std::uint64_t at) const {
    const std::uint32_t* const word = run + at / 32 * stride;
    const auto shift = static_cast<int>(at % 32);
    const std::uint32_t rest = shift + parts_.bits > 32 ? word[stride] << (32 - shift) : 0;
    return (*word >> shift | rest) & mask();
  }

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

inline std::string groups_text(std::uint64_t size, std::uint64_t inputs) {
  return size >= inputs ? ", a scale per output" : ", groups of " + std::to_string(size);
}

// The bits of a matrix: the only ones of the config, or those that fit its tensors.
inline int bits_of(const QuantizedTensors& tensors, const GroupedVariants& variants, const TensorInfo& codes,
                   const TensorInfo& zeros, const TensorInfo* g_idx) {
  if (variants.bits.size() == 1) return *variants.bits.begin();
  int found = 0;
  for (const int bits : variants.bits) {
    const auto words = [&](std::uint64_t values) { return divided_up(values * static_cast<std::uint64_t>(bits), 32); };
    if (words(codes.shape[1]) != zeros.shape[1] || (g_idx && words(g_idx->shape[0]) != codes.shape[0])) continue;
    if (found != 0)
      tensors.refuse(codes, "may have " + std::to_string(found) + " or " + std::to_string(bits) +
                                " bits; the config gives both to some modules");
    found = bits;
  }
  if (found == 0)
    tensors.refuse(codes, "has shape " + shape_text(codes.shape) + " and zero points of shape " +
                              shape_text(zeros.shape) + ", which no number of bits of " +
                              tensors.config().where("bits") + " and the rules for modules gives");
  return found;
}

// The inputs of a group: the only size of the config, or the one that fits the scales.
inline std::uint64_t group_size(const QuantizedTensors& tensors, const GroupedVariants& variants, std::uint64_t inputs,
                                const TensorInfo& scales, bool has_indices) {
  std::optional<std::uint64_t> found;
  for (const int each : variants.groups) {
    const std::uint64_t size = each < 0 ? inputs : static_cast<std::uint64_t>(each);
    if (variants.groups.size() == 1) return size;
    if (divided_up(inputs, size) != scales.shape[0]) continue;
    if (found && !has_indices && std::min(*found, inputs) != std::min(size, inputs))
      tensors.refuse(scales, "may have groups of " + std::to_string(*found) + " or " + std::to_string(size) +
                                 " inputs; the config gives both to some modules");
    found = size;
  }
  if (!found)
    tensors.refuse(scales, "has shape " + shape_text(scales.shape) + ", which no group_size of the config gives " +
                               std::to_string(inputs) + " inputs");
  return *found;
}

// Version 1 stores zero points minus 1. gptqmodel names itself in meta. AutoGPTQ, which has no meta, adds 1 after it
// has cut out a field: 15 becomes 16 (qlinear_cuda.py, forward).
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
  return known ? StoredZeros::less_one_as_gptqmodel : StoredZeros::less_one;
}

inline void need_grouped_types(const QuantizedTensors& tensors, const TensorInfo& codes, const TensorInfo& zeros,
                               const TensorInfo& scales) {
  for (const TensorInfo* each : {&codes, &zeros, &scales}) tensors.need_matrix(*each);
  for (const TensorInfo* each : {&codes, &zeros}) tensors.need_type(*each, {DType::i32});
  tensors.need_type(scales, {DType::f16, DType::bf16, DType::f32});
}

TENON_INLINE void add_gptq(QuantizedTensors& tensors, const std::string& module, const GroupedVariants& variants) {
  const TensorInfo& codes = tensors.take(module + ".qweight");
  const TensorInfo& zeros = tensors.take(module + ".qzeros");
  const TensorInfo& scales = tensors.take(module + ".scales");
  const TensorInfo* g_idx =
      variants.by_activation ? &tensors.take(module + ".g_idx") : tensors.take_if(module + ".g_idx");
  need_grouped_types(tensors, codes, zeros, scales);
  if (g_idx) {
    tensors.need_type(*g_idx, {DType::i32});
    if (g_idx->shape.size() != 1 || g_idx->shape[0] > kMaxMatrixSide)
      tensors.refuse(*g_idx, "has shape " + shape_text(g_idx->shape) + ", needs a list of the groups of all inputs");
  }
  const int bits = bits_of(tensors, variants, codes, zeros, g_idx);
  const auto width = static_cast<std::uint64_t>(bits);
  const std::uint64_t outputs = codes.shape[1], inputs = g_idx ? g_idx->shape[0] : codes.shape[0] * 32 / width;
  const std::uint64_t size = group_size(tensors, variants, inputs, scales, g_idx != nullptr);
  const std::uint64_t groups = g_idx ? scales.shape[0] : divided_up(inputs, size);
  tensors.need_shape(codes, {divided_up(inputs * width, 32), outputs});
  tensors.need_shape(scales, {groups, outputs});
  tensors.need_shape(zeros, {groups, divided_up(outputs * width, 32)});
  if (32 % bits != 0 && (inputs % 32 != 0 || outputs % 32 != 0))
    tensors.refuse(codes, "stands for " + std::to_string(inputs) + " inputs and " + std::to_string(outputs) +
                              " outputs; " + std::to_string(bits) + " bits need multiples of 32");
  const std::string name = variants.method + ", " + std::to_string(bits) + " bits" + groups_text(size, inputs) +
                           (variants.by_activation ? ", in order of activations" : "");
  GroupedDecoder::Parts parts{codes, zeros, scales, {}, inputs, size, bits};
  if (g_idx) parts.g_idx = *g_idx;
  tensors.add(module, codes, {outputs, inputs}, std::make_shared<GptqDecoder>(name, std::move(parts), variants.zeros));
}

TENON_INLINE void GroupedVariants::add_bits(const Fields& fields, const std::vector<int>& supported) {
  const int width = fields.integer("bits", 1, 32);
  if (width >= 16) return;  // modules that stay floats
  if (std::find(supported.begin(), supported.end(), width) == supported.end()) {
    std::string list;
    for (const int each : supported)
      list += (list.empty() ? "" : each == supported.back() ? " and " : ", ") + std::to_string(each);
    throw Error(Error::Kind::unsupported, fields.where("bits"),
                std::to_string(width) + " is not supported: " + list + (supported.size() == 1 ? " is" : " are") +
                    "; use another quantisation of it");
  }
  bits.insert(width);
}

TENON_INLINE void GroupedVariants::add_group_size(const Fields& fields) {
  const int size = fields.integer("group_size", -1, 1 << 20, 128);
  if (size == 0) fields.refuse("group_size", "must be -1 or at least 1, is 0");
  groups.insert(size);
}

TENON_INLINE void GroupedVariants::add_rules(const Fields& rules, const std::vector<int>& supported) {
  for (const auto& [name, value] : rules.json().items()) {
    if (!value.is_object()) continue;  // modules that stay floats
    const Fields rule = rules.object(name);
    if (rule.has("bits")) add_bits(rule, supported);
    if (rule.has("group_size")) add_group_size(rule);
  }
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
  GroupedVariants variants{"gptq", {}, {}, config.boolean("desc_act", false), stored_zeros(config, format)};
  const std::vector<int> supported = {2, 3, 4, 8};
  variants.add_bits(config, supported);
  variants.add_group_size(config);
  if (config.has("dynamic") && !config.value("dynamic").empty())
    variants.add_rules(config.object("dynamic"), supported);
  for (const std::string& module : tensors.ending_in(".qweight")) add_gptq(tensors, module, variants);
}

TENON_INLINE void add_awq(QuantizedTensors& tensors, const std::string& module, const GroupedVariants& variants) {
  const TensorInfo& codes = tensors.take(module + ".qweight");
  const TensorInfo& zeros = tensors.take(module + ".qzeros");
  const TensorInfo& scales = tensors.take(module + ".scales");
  need_grouped_types(tensors, codes, zeros, scales);
  const std::uint64_t inputs = codes.shape[0], words = codes.shape[1], outputs = words * 8;
  const std::uint64_t size = group_size(tensors, variants, inputs, scales, false), groups = inputs / size;
  if (inputs % size != 0)
    tensors.refuse(codes, "has " + std::to_string(inputs) + " inputs, no multiple of " +
                              tensors.config().where("group_size") + ", " + std::to_string(size));
  tensors.need_shape(scales, {groups, outputs});
  tensors.need_shape(zeros, {groups, words});
  tensors.add(module, codes, {outputs, inputs},
              std::make_shared<AwqDecoder>(variants.method + ", 4 bits" + groups_text(size, inputs),
                                           GroupedDecoder::Parts{codes, zeros, scales, {}, inputs, size, 4}));
}

TENON_INLINE void find_awq(QuantizedTensors& tensors) {
  const Fields& config = tensors.config();
  if (config.integer("bits", 1, 32, 4) != 4) tensors.unsupported("bits", "other than 4 is not supported");
  for (const char* key : {"version", "format", "checkpoint_format"})  // gptqmodel writes the latter two
    if (config.has(key)) config.choice(key, {"gemm", "GEMM"});
  // Other words name the kernels of a loader.
  if (config.string("backend", "") == "llm-awq")
    tensors.unsupported("backend", "llm-awq is not supported: it has another order of codes");
  GroupedVariants variants{"awq"};
  variants.add_group_size(config);
  for (const std::string& module : tensors.ending_in(".qweight")) add_awq(tensors, module, variants);
}

}  // namespace tenon::detail
