#pragma once
#include <algorithm>
#include <bit>
#include <utility>

#include "tenon/checkpoint/quantized_tensors.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon::detail {

static_assert(std::endian::native == std::endian::little, "codes are read as they are stored");

TENON_INLINE std::vector<std::string> QuantizedTensors::ending_in(std::string_view suffix) const {
  std::vector<std::string> modules;
  for (const TensorInfo& tensor : stored_.tensors())
    if (tensor.name.size() > suffix.size() && tensor.name.ends_with(suffix))
      modules.push_back(tensor.name.substr(0, tensor.name.size() - suffix.size()));
  return modules;
}

TENON_INLINE const TensorInfo* QuantizedTensors::take_if(const std::string& name) {
  const TensorInfo* found = stored_.find(name);
  if (found && taken_.insert(name).second) bytes_ += found->end - found->begin;
  return found;
}

TENON_INLINE const TensorInfo& QuantizedTensors::take(const std::string& name) {
  if (const TensorInfo* found = take_if(name)) return *found;
  refuse_file(stored_.name(), "tensor " + printable(name) + " is missing; " + config_.where("quant_method") +
                                  " says how the checkpoint is quantised, and needs it");
}

TENON_INLINE void QuantizedTensors::add(const std::string& module, const TensorInfo& main, MatrixShape shape,
                                        std::shared_ptr<const MatrixDecoder> decoder) {
  TensorInfo out = made(module + ".weight", main, std::move(decoder));
  out.shape = {shape.rows, shape.cols};
  const bool head = module == "lm_head" || module.ends_with(".lm_head");
  if (inputs_first_ && !head) {
    out.order.transposed = true;
    std::swap(out.shape[0], out.shape[1]);
  }
  place(std::move(out), main);
}

TENON_INLINE void QuantizedTensors::add_stack(const std::string& name, const TensorInfo& main, std::uint64_t stack,
                                              MatrixShape each, std::shared_ptr<const MatrixDecoder> decoder) {
  TensorInfo out = made(name, main, std::move(decoder));
  out.shape = {stack, each.cols, each.rows};
  out.order.transposed = true;
  place(std::move(out), main);
}

TENON_INLINE TensorInfo QuantizedTensors::made(const std::string& name, const TensorInfo& main,
                                               std::shared_ptr<const MatrixDecoder> decoder) {
  TensorInfo out = main;
  out.name = name;
  out.stored_name = main.name;
  out.dtype = DType::quantised;
  out.begin = 0;
  out.end = std::exchange(bytes_, 0);
  out.decoder = std::move(decoder);
  if (out.name != main.name && stored_.find(out.name))
    refuse(main, "is one of two forms of the same matrix; the other is " + printable(out.name));
  return out;
}

TENON_INLINE void QuantizedTensors::place(TensorInfo out, const TensorInfo& main) {
  if (!made_.emplace(main.name, std::move(out)).second) refuse(main, "is quantised in two ways");
}

TENON_INLINE Checkpoint QuantizedTensors::finish(Checkpoint&& stored) && {
  stored.replace(taken_, std::move(made_));
  return std::move(stored);
}

TENON_INLINE void QuantizedTensors::unsupported(const std::string& key, const std::string& what) const {
  throw Error(Error::Kind::unsupported, config_.where(key), what);
}

TENON_INLINE void QuantizedTensors::refuse_set(const Fields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!fields.has(key)) continue;
    const Json& value = fields.value(key);
    const bool empty = (value.is_structured() && value.empty()) || value == false;
    if (!empty)
      throw Error(Error::Kind::unsupported, fields.where(key),
                  "is not supported, because it changes the output; use a checkpoint without it, or the original");
  }
}

TENON_INLINE void QuantizedTensors::need_type(const TensorInfo& tensor, std::initializer_list<DType> types) const {
  std::string list;
  for (const DType each : types) {
    if (tensor.dtype == each) return;
    list += (list.empty() ? "" : " or ") + std::string(dtype_name(each));
  }
  refuse(tensor, "has dtype " + std::string(dtype_name(tensor.dtype)) + ", needs " + list);
}

TENON_INLINE void QuantizedTensors::need_shape(const TensorInfo& tensor,
                                               const std::vector<std::uint64_t>& shape) const {
  if (tensor.shape != shape) refuse(tensor, "has shape " + shape_text(tensor.shape) + ", needs " + shape_text(shape));
}

TENON_INLINE void QuantizedTensors::need_matrix(const TensorInfo& tensor) const {
  const auto sound = [](std::uint64_t side) { return side > 0 && side <= kMaxMatrixSide; };
  if (tensor.shape.size() != 2 || !std::all_of(tensor.shape.begin(), tensor.shape.end(), sound))
    refuse(tensor, "has shape " + shape_text(tensor.shape) + ", needs that of a matrix");
}

TENON_INLINE void QuantizedTensors::refuse(const TensorInfo& tensor, const std::string& what) const {
  refuse_file(stored_.where(tensor), what);
}

TENON_INLINE std::vector<std::uint32_t> read_words(const Checkpoint& checkpoint, const TensorInfo& tensor, Range rows,
                                                   Range cols) {
  std::vector<std::uint32_t> out(static_cast<std::size_t>(rows.count * cols.count));
  const std::uint64_t width = tensor.shape[1];
  const bool whole = cols.count == width;
  const Range runs = whole ? Range{0, 1} : rows;
  const std::uint64_t length = whole ? rows.count * width : cols.count;
  for (std::uint64_t i = 0; i < runs.count; ++i) {
    const std::uint64_t first = whole ? rows.first * width : (rows.first + i) * width + cols.first;
    const auto run = std::span(out).subspan(static_cast<std::size_t>(i * length), static_cast<std::size_t>(length));
    checkpoint.read_bytes(tensor, first * sizeof(std::uint32_t), std::as_writable_bytes(run));
  }
  return out;
}

TENON_INLINE std::vector<float> read_floats(const Checkpoint& checkpoint, const TensorInfo& tensor, Range elements) {
  std::vector<float> out(static_cast<std::size_t>(elements.count));
  checkpoint.read_elements(tensor, elements.first, out);
  return out;
}

TENON_INLINE std::vector<std::uint32_t> read_group_indices(const Checkpoint& checkpoint, const TensorInfo& g_idx,
                                                           std::uint64_t groups) {
  std::vector<std::uint32_t> out(static_cast<std::size_t>(g_idx.shape[0]));
  checkpoint.read_bytes(g_idx, 0, std::as_writable_bytes(std::span(out)));
  for (const std::uint32_t group : out)
    if (group >= groups)
      refuse_file(checkpoint.where(g_idx), "names group " + std::to_string(static_cast<std::int32_t>(group)) +
                                               ", but the scales have " + std::to_string(groups) + " groups");
  return out;
}

TENON_INLINE std::vector<std::uint32_t> adjacent_groups(std::uint64_t inputs, std::uint64_t size) {
  std::vector<std::uint32_t> out(static_cast<std::size_t>(inputs));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint32_t>(i / size);
  return out;
}

}  // namespace tenon::detail
