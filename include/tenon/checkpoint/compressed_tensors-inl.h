#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/compressed_tensors.h"
#include "tenon/checkpoint/fp4_decoder.h"
#include "tenon/core/error.h"
#include "tenon/core/float8.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::detail {

// Codes [outputs, inputs] with a grid of scales.
class ScaledDecoder final : public MatrixDecoder {
 public:
  struct Parts {
    TensorInfo codes;  // of I8, F8_E4M3, or I32 with 32 / bits integers a word
    int bits;
    MatrixShape shape;
    TensorInfo scales;
    MatrixShape block;                // rows and columns that share a scale
    std::optional<TensorInfo> zeros;  // of I8, as scales, or of I32, packed along the rows
    std::optional<TensorInfo> g_idx;  // the column of scales of each input
  };
  ScaledDecoder(std::string name, Parts parts)
      : MatrixDecoder(std::move(name), parts.shape.cols), parts_(std::move(parts)) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const std::uint64_t cols = parts_.shape.cols, groups = divided_up(cols, parts_.block.cols);
    read_codes(checkpoint, first, count, out);
    const std::uint64_t grid_row = first / parts_.block.rows,
                        grid_rows = divided_up(first + count, parts_.block.rows) - grid_row;
    const std::vector<float> scales = read_scales(checkpoint, parts_.scales, {grid_row * groups, grid_rows * groups});
    const std::vector<float> zeros = read_zeros(checkpoint, {grid_row, grid_rows}, groups);
    const std::vector<std::uint32_t> group_of = groups_of_inputs(checkpoint, groups);
    for (std::uint64_t row = 0; row < count; ++row) {
      const auto grid = static_cast<std::size_t>(((first + row) / parts_.block.rows - grid_row) * groups);
      float* const values = out + row * cols;
      for (std::size_t i = 0; i < cols; ++i) {
        const std::size_t at = grid + group_of[i];
        values[i] = zeros.empty() ? values[i] * scales[at] : (values[i] - zeros[at]) * scales[at];
      }
    }
  }

 private:
  std::vector<std::uint32_t> groups_of_inputs(const Checkpoint& checkpoint, std::uint64_t groups) const {
    if (parts_.g_idx) {
      // The library takes a list that holds -1 for one that was never set.
      std::vector<std::int32_t> stored(static_cast<std::size_t>(parts_.shape.cols));
      checkpoint.read_bytes(*parts_.g_idx, 0, std::as_writable_bytes(std::span(stored)));
      if (std::find(stored.begin(), stored.end(), -1) == stored.end())
        return read_group_indices(checkpoint, *parts_.g_idx, groups);
    }
    return adjacent_groups(parts_.shape.cols, parts_.block.cols);
  }

  void read_codes(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const {
    const std::uint64_t cols = parts_.shape.cols;
    if (parts_.codes.dtype == DType::i32) return read_packed(checkpoint, first, count, out);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * cols));
    checkpoint.read_bytes(parts_.codes, first * cols, std::as_writable_bytes(std::span(codes)));
    const bool integers = parts_.codes.dtype == DType::i8;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      float8<E4M3> code;
      code.bits = codes[i];
      if (!integers && !finite(code))
        refuse_file(checkpoint.where(parts_.codes), "holds a code that is no finite number");
      out[i] = integers ? static_cast<float>(static_cast<std::int8_t>(codes[i])) : static_cast<float>(code);
    }
  }

  void read_packed(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const {
    const std::uint64_t width = parts_.codes.shape[1];
    const auto words = read_words(checkpoint, parts_.codes, {first, count}, {0, width});
    for (std::uint64_t row = 0; row < count; ++row)
      for (std::uint64_t i = 0; i < parts_.shape.cols; ++i)
        *out++ = static_cast<float>(field(words[static_cast<std::size_t>(row * width + i / in_word())], i));
  }

  std::vector<float> read_zeros(const Checkpoint& checkpoint, Range rows, std::uint64_t groups) const {
    std::vector<float> out;
    if (!parts_.zeros) return out;
    const TensorInfo& tensor = *parts_.zeros;
    const auto count = static_cast<std::size_t>(rows.count * groups);
    if (tensor.dtype == DType::i8) {
      std::vector<std::int8_t> zeros(count);
      checkpoint.read_bytes(tensor, rows.first * groups, std::as_writable_bytes(std::span(zeros)));
      return {zeros.begin(), zeros.end()};
    }
    const std::uint64_t word = rows.first / in_word(), words = divided_up(rows.first + rows.count, in_word()) - word;
    const auto packed = read_words(checkpoint, tensor, {word, words}, {0, groups});
    for (std::uint64_t row = rows.first; row < rows.first + rows.count; ++row)
      for (std::uint64_t g = 0; g < groups; ++g)
        out.push_back(
            static_cast<float>(field(packed[static_cast<std::size_t>((row / in_word() - word) * groups + g)], row)));
    return out;
  }

  std::uint64_t in_word() const { return 32 / static_cast<std::uint64_t>(parts_.bits); }
  // Integer `at` of a run of words, of which this one holds it. Stored plus 2^(bits - 1).
  int field(std::uint32_t word, std::uint64_t at) const {
    const std::uint32_t mask = (1u << parts_.bits) - 1;
    return static_cast<int>(word >> (at % in_word() * static_cast<std::uint64_t>(parts_.bits)) & mask) -
           (1 << (parts_.bits - 1));
  }

  Parts parts_;
};

// The weights of all config_groups. The tensors show which of them a matrix has.
struct WeightSchemes {
  std::set<int> bits;              // of packed integers
  std::set<std::uint64_t> groups;  // their sizes
  std::optional<MatrixShape> block;
  bool nvfp4 = false, mxfp4 = false, mxfp8 = false;  // some are
  bool symmetric = false, asymmetric = false;        // some integers are
  bool ordered = false, unordered = false;           // some groups are of columns in order of activations
  std::string note;                                  // on activations
};

inline std::string extent_text(MatrixShape block, MatrixShape shape) {
  if (block.rows >= shape.rows && block.cols >= shape.cols) return ", one scale";
  if (block.rows == 1 && block.cols >= shape.cols) return ", a scale per output";
  if (block.rows == 1) return ", groups of " + std::to_string(block.cols);
  return ", blocks of " + std::to_string(block.rows) + " x " + std::to_string(block.cols);
}

// The rows and columns that share a scale, from the shape of the scales.
inline MatrixShape scale_block(const QuantizedTensors& tensors, const TensorInfo& scales, MatrixShape shape,
                               const WeightSchemes& schemes) {
  if (!(schemes.mxfp8 && scales.dtype == DType::u8)) tensors.need_type(scales, {DType::f32, DType::f16, DType::bf16});
  const std::vector<std::uint64_t>& dims = scales.shape;
  const bool one = std::all_of(dims.begin(), dims.end(), [](std::uint64_t dim) { return dim == 1; });
  if (one) return shape;
  if (schemes.block) {
    const MatrixShape block = *schemes.block;
    if (dims == std::vector{divided_up(shape.rows, block.rows), divided_up(shape.cols, block.cols)}) return block;
  }
  if (!dims.empty() && dims.size() <= 2 && dims[0] == shape.rows) {
    const std::uint64_t groups = dims.size() == 2 ? dims[1] : 1;
    if (groups == 1) return {1, shape.cols};
    for (const std::uint64_t size : schemes.groups)
      if (shape.cols % size == 0 && shape.cols / size == groups) return {1, size};
  }
  tensors.refuse(scales, "has shape " + shape_text(dims) + ", which no scheme of " +
                             tensors.config().where("quant_method") + " gives a matrix of shape " +
                             shape_text(std::vector{shape.rows, shape.cols}));
}

// Scales of activations, which stay in float32. They are listed as parts of the matrix.
inline void take_activation_scales(QuantizedTensors& tensors, const std::string& module) {
  for (const char* name : {".input_scale", ".input_global_scale", ".input_zero_point", ".activation_scale"})
    tensors.take_if(module + name);
}

// A matrix of which `parts` has codes, bits and shape.
inline void add_scaled(QuantizedTensors& tensors, const std::string& module, ScaledDecoder::Parts parts,
                       const TensorInfo& scales, const WeightSchemes& schemes, const std::string& kind) {
  parts.scales = scales;
  parts.block = scale_block(tensors, scales, parts.shape, schemes);
  const std::uint64_t groups = divided_up(parts.shape.cols, parts.block.cols),
                      grid_rows = divided_up(parts.shape.rows, parts.block.rows);
  const auto take = [&](const std::string& name, bool needed) {
    return needed ? &tensors.take(name) : tensors.take_if(name);
  };
  const bool integers = parts.codes.dtype == DType::i32 || parts.codes.dtype == DType::i8;
  const bool needs_zeros = integers && schemes.asymmetric && !schemes.symmetric;
  if (const TensorInfo* zeros = take(module + ".weight_zero_point", needs_zeros)) {
    const bool packed = zeros->dtype == DType::i32 && parts.codes.dtype == DType::i32;
    if (packed)
      tensors.need_shape(*zeros, {divided_up(grid_rows, 32 / static_cast<std::uint64_t>(parts.bits)), groups});
    else
      tensors.need_type(*zeros, {DType::i8}), tensors.need_shape(*zeros, scales.shape);
    parts.zeros = *zeros;
  }
  if (const TensorInfo* g_idx = take(module + ".weight_g_idx", schemes.ordered && !schemes.unordered)) {
    tensors.need_type(*g_idx, {DType::i32});
    tensors.need_shape(*g_idx, {parts.shape.cols});
    parts.g_idx = *g_idx;
  }
  take_activation_scales(tensors, module);
  const std::string name = kind + extent_text(parts.block, parts.shape) + (parts.zeros ? ", zero points" : "") +
                           (parts.g_idx ? ", in order of activations" : "") + schemes.note;
  const TensorInfo codes = parts.codes;
  const MatrixShape shape = parts.shape;
  tensors.add(module, codes, shape, std::make_shared<ScaledDecoder>(name, std::move(parts)));
}

// Two positive integers: rows and columns of a block. Files of 2024 have a string: "128x128".
inline MatrixShape block_structure(const Fields& fields, const std::string& key) {
  Json value = fields.value(key);
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (const std::size_t cross = text.find('x'); cross != text.npos && text.size() < 16) {
    const Json sides = Json::parse("[" + text.substr(0, cross) + "," + text.substr(cross + 1) + "]", nullptr, false);
    if (sides.is_array()) value = sides;
  }
  if (!value.is_array() || value.size() != 2)
    fields.refuse(key, "must be a list of rows and columns, is " + Fields::describe(value));
  const auto side = [&](const Json& each) {
    return static_cast<std::uint64_t>(fields.check_integer(key, each, 1, 1 << 20));
  };
  return {side(value[0]), side(value[1])};
}

inline constexpr const char* kFloatActivations = "; activations stay in float32";
inline constexpr const char* kUnusedScales = "; activations stay in float32, their scales have no effect";
inline constexpr const char* kFloatCache = "; keys and values stay as --kv says";

// Activations stay in float32. The library rounds them: with scales that follow from the activations themselves, or
// with fixed ones. vLLM leaves out both on a device without arithmetic in fp8 or NVFP4, and runs Marlin's kernels.
// Integers with fixed scales are refused: they run as integers everywhere.
inline void read_activations(const Fields& scheme, WeightSchemes& out) {
  if (scheme.has("output_activations"))
    throw Error(Error::Kind::unsupported, scheme.where("output_activations"), "is not supported");
  if (!scheme.has("input_activations")) return;
  const Fields inputs = scheme.object("input_activations");
  const Json dynamic = inputs.has("dynamic") ? inputs.value("dynamic") : Json(false);
  if (!dynamic.is_boolean() && dynamic != "local")
    inputs.refuse("dynamic", "must be true, false or \"local\", is " + Fields::describe(dynamic));
  const bool fixed = dynamic != true && dynamic != "local";
  if (fixed && inputs.choice("type", {"int", "float"}, "int") == "int")
    throw Error(Error::Kind::unsupported, inputs.where("dynamic"),
                "other than true is not supported for integers: fixed scales of activations change the output; use a "
                "checkpoint with dynamic ones or with weights only");
  if (!fixed && out.note.empty()) out.note = kFloatActivations;
  if (fixed || dynamic == "local") out.note = kUnusedScales;
}

// Floats of 4 bits. The library knows them by the size of a group.
inline void read_fp4(const Fields& weights, WeightSchemes& out) {
  const std::string strategy = weights.choice("strategy", {"tensor_group", "group"});
  const int size = weights.positive_int("group_size"), needed = strategy == "group" ? 32 : 16;
  if (size != needed)
    throw Error(Error::Kind::unsupported, weights.where("group_size"),
                std::to_string(size) + " is not supported for floats of 4 bits in a " + strategy + ": " +
                    std::to_string(needed) + " is");
  if (!weights.boolean("symmetric", true))
    throw Error(Error::Kind::unsupported, weights.where("symmetric"), "false is not supported for floats");
  (strategy == "group" ? out.mxfp4 : out.nvfp4) = true;
}

// The format of the config, or of one of its groups.
inline void need_format(const Fields& fields) {
  fields.choice("format", {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized",
                           "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision"});
}

// Keys and values stay in the format of the cache, which the caller chooses: rounding them to fp8 only saves memory.
inline void leave_cache(QuantizedTensors& tensors, WeightSchemes& out) {
  for (const char* name : {".k_scale", ".v_scale", ".q_scale"})
    for (const std::string& module : tensors.ending_in(name)) tensors.drop(module + name);
  out.note += kFloatCache;
}

inline void read_scheme(const Fields& scheme, WeightSchemes& out) {
  if (scheme.has("format")) need_format(scheme);
  read_activations(scheme, out);
  if (!scheme.has("weights")) return;
  const Fields weights = scheme.object("weights");
  if (weights.has("dynamic") && weights.value("dynamic") != false)
    throw Error(Error::Kind::unsupported, weights.where("dynamic"), "other than false is not supported");
  const bool integers = weights.choice("type", {"int", "float"}, "int") == "int";
  const int bits = weights.integer("num_bits", 1, 32, 8);
  if (bits != 8 && bits != 4)
    throw Error(Error::Kind::unsupported, weights.where("num_bits"),
                std::to_string(bits) + " is not supported: 4 and 8 are");
  if (!integers && bits == 4) return read_fp4(weights, out);
  if (!integers && weights.string("scale_dtype", "").ends_with("uint8")) out.mxfp8 = true;
  if (integers) out.bits.insert(bits);
  if (integers) (weights.boolean("symmetric", true) ? out.symmetric : out.asymmetric) = true;
  // "weight" and "static" order the columns of the file; the others need weight_g_idx.
  const bool names = weights.has("actorder") && weights.value("actorder").is_string();
  const std::string order = names ? weights.choice("actorder", {"group", "dynamic", "weight", "static"}) : "";
  const bool says = weights.has("actorder") && weights.value("actorder") == true;
  (says || order == "group" || order == "dynamic" ? out.ordered : out.unordered) = true;
  const std::string strategy = weights.choice("strategy", {"tensor", "channel", "group", "block"}, "tensor");
  if (strategy == "group") out.groups.insert(static_cast<std::uint64_t>(weights.positive_int("group_size")));
  if (strategy != "block") return;
  const MatrixShape block = block_structure(weights, "block_structure");
  if (out.block && *out.block != block)
    throw Error(Error::Kind::unsupported, weights.where("block_structure"), "differs from that of another group");
  out.block = block;
}

// Codes of E2M1. NVFP4 has scales of E4M3, MXFP4 exponents.
inline void add_packed_floats(QuantizedTensors& tensors, const std::string& module, const WeightSchemes& schemes) {
  const TensorInfo& codes = tensors.take(module + ".weight_packed");
  const TensorInfo* scales = tensors.stored().find(module + ".weight_scale");
  const bool nvfp4 = schemes.nvfp4 && !(schemes.mxfp4 && scales && scales->dtype == DType::u8);
  if (!nvfp4 && !schemes.mxfp4)
    tensors.refuse(
        codes, "has floats of 4 bits, of which no scheme of " + tensors.config().where("config_groups") + " speaks");
  take_activation_scales(tensors, module);
  if (nvfp4)
    add_fp4(tensors, module, codes, 16, module + ".weight_global_scale", true, "compressed-tensors, nvfp4",
            schemes.note);
  else
    add_fp4(tensors, module, codes, 32, "", false, "compressed-tensors, mxfp4", schemes.note);
}

inline void add_packed(QuantizedTensors& tensors, const std::string& module, const WeightSchemes& schemes) {
  const TensorInfo& codes = tensors.take(module + ".weight_packed");
  const TensorInfo& scales = tensors.take(module + ".weight_scale");
  const TensorInfo& dims = tensors.take(module + ".weight_shape");
  tensors.need_matrix(codes);
  tensors.need_type(codes, {DType::i32});
  tensors.need_type(dims, {DType::i64});
  tensors.need_shape(dims, {2});
  std::array<std::uint64_t, 2> shape{};
  tensors.stored().read_bytes(dims, 0, std::as_writable_bytes(std::span(shape)));
  const std::uint64_t rows = shape[0], cols = shape[1];
  if (rows != codes.shape[0] || cols == 0 || cols > kMaxMatrixSide)
    tensors.refuse(dims, "says " + shape_text(shape) + ", but weight_packed has shape " + shape_text(codes.shape));
  int bits = 0;
  for (const int each : schemes.bits) {
    if (divided_up(cols, 32 / static_cast<std::uint64_t>(each)) != codes.shape[1]) continue;
    if (bits != 0) tensors.refuse(codes, "may have 4 or 8 bits; its config_groups have both");
    bits = each;
  }
  if (bits == 0)
    tensors.refuse(codes, "has shape " + shape_text(codes.shape) + ", which no num_bits of " +
                              tensors.config().where("config_groups") + " gives a matrix of shape " +
                              shape_text(shape));
  ScaledDecoder::Parts parts{codes, bits, {rows, cols}, {}, {}, {}, {}};
  add_scaled(tensors, module, std::move(parts), scales, schemes,
             "compressed-tensors, " + std::to_string(bits) + " bits");
}

inline void add_bytes(QuantizedTensors& tensors, const std::string& module, const std::string& scale_name,
                      const WeightSchemes& schemes, const std::string& method) {
  const TensorInfo& codes = tensors.take(module + ".weight");
  const TensorInfo& scales = tensors.take(module + scale_name);
  tensors.need_matrix(codes);
  ScaledDecoder::Parts parts{codes, 8, {codes.shape[0], codes.shape[1]}, {}, {}, {}, {}};
  add_scaled(tensors, module, std::move(parts), scales, schemes,
             method + (codes.dtype == DType::i8 ? ", int8" : ", float8 e4m3"));
}

TENON_INLINE void find_compressed_tensors(QuantizedTensors& tensors) {
  const Fields& config = tensors.config();
  need_format(config);
  // Files of 2024 say frozen; their weights are codes, too.
  config.choice("quantization_status", {"compressed", "frozen"}, "compressed");
  tensors.refuse_set({"transform_config", "moe_sparsity_config"});
  if (config.has("sparsity_config") && !config.value("sparsity_config").empty())
    config.object("sparsity_config").choice("format", {"dense"});
  WeightSchemes schemes;
  const Fields groups = config.object("config_groups");
  for (const auto& [name, ignored] : groups.json().items()) read_scheme(groups.object(name), schemes);
  if (config.has("kv_cache_scheme")) leave_cache(tensors, schemes);
  for (const std::string& module : tensors.ending_in(".weight_packed"))
    tensors.stored().find(module + ".weight_packed")->dtype == DType::u8 ? add_packed_floats(tensors, module, schemes)
                                                                         : add_packed(tensors, module, schemes);
  for (const std::string& module : tensors.ending_in(".weight")) {
    const DType type = tensors.stored().find(module + ".weight")->dtype;
    if (type == DType::i8 || type == DType::f8_e4m3)
      add_bytes(tensors, module, ".weight_scale", schemes, "compressed-tensors");
  }
}

TENON_INLINE void find_fp8(QuantizedTensors& tensors) {
  const Fields& config = tensors.config();
  const bool dynamic = config.choice("activation_scheme", {"dynamic", "static"}, "dynamic") == "dynamic";
  config.choice("fmt", {"e4m3"}, "e4m3");
  WeightSchemes schemes;
  schemes.note = dynamic ? kFloatActivations : kUnusedScales;
  if (config.has("kv_cache_scheme")) leave_cache(tensors, schemes);
  if (config.has("weight_block_size")) schemes.block = block_structure(config, "weight_block_size");
  for (const std::string& module : tensors.ending_in(".weight")) {
    if (tensors.stored().find(module + ".weight")->dtype != DType::f8_e4m3) continue;
    const bool inverse = tensors.stored().find(module + ".weight_scale_inv") != nullptr;
    add_bytes(tensors, module, inverse ? ".weight_scale_inv" : ".weight_scale", schemes, "fp8");
  }
}

}  // namespace tenon::detail
