// Writes a model as a GGUF file that llama.cpp reads: names, orders and metadata are those of its converter
// (convert_hf_to_gguf.py), the bits of blocks are those of gguf-py.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/gguf.h"
#include "tenon/checkpoint/gguf_blocks.h"
#include "tenon/checkpoint/gguf_model.h"
#include "tenon/checkpoint/gguf_writer.h"
#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/io/file.h"
#include "tenon/io/json_fwd.h"
#include "tenon/model/any_family.h"
#include "tenon/model/files.h"
#include "tenon/model/parts.h"
#include "tenon/model/quantize.h"
#include "tenon/model/tensor_source.h"
#include "tenon/weights/row_blocks.h"

namespace tenon {

namespace detail {

// A tensor of the new file: one of the source in the order of the new file, or `values`.
struct GgufTensor {
  TensorInfo source;
  std::string name;  // in the new file
  std::vector<float> values = {};

  std::uint64_t cols() const { return source.shape.empty() ? 1 : source.shape.back(); }
  // The tensor as one matrix.
  Shape matrix() const;
};

// The contents of the new file.
struct GgufPlan {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;
  std::vector<std::string> left_out;  // tensors of the source that the model does not use
};

// The type of the name that a command line gives, in upper or lower case. Error unsupported, with the list.
DType gguf_type_named(std::string_view name);

// The type of a tensor in the file: float32 for vectors, norms, routers and learned positions, and float16 if a row is
// no whole number of blocks, as the converter does.
DType gguf_stored_type(const GgufTensor& tensor, DType wanted);

// Plans the file of a model folder, or of a GGUF file. Error unsupported, with the name, for a family, field, tensor or
// tokenizer that GGUF or its reader here does not have.
GgufPlan plan_gguf(std::span<const Family> families, const std::filesystem::path& source, const ModelFiles& files,
                   DType type);

// Writes one tensor, encoded row by row.
template <class Pool>
void write_gguf_tensor(const GgufTensor& tensor, DType type, const Checkpoint& source, GgufWriter& writer, Pool& pool) {
  const GgufBlock block = block_layout(type);
  const Shape shape = tensor.matrix();
  const std::size_t row_blocks = static_cast<std::size_t>(shape.cols / block.values);
  const std::size_t row_bytes = row_blocks * static_cast<std::size_t>(block.bytes);
  const bool same = tensor.values.empty() && type == tensor.source.dtype && tensor.source.order.plain();
  const std::string where = tensor.values.empty() ? source.where(tensor.source) : tensor.name;
  for_row_blocks(pool, shape, [&](int first, int count) {
    const auto begin = static_cast<std::uint64_t>(first), rows = static_cast<std::uint64_t>(count);
    std::vector<float> values = tensor.values;
    if (values.empty()) {
      TensorInfo matrix = tensor.source;  // read() takes one or two dimensions
      if (matrix.shape.size() != 1)
        matrix.shape = {static_cast<std::uint64_t>(shape.rows), static_cast<std::uint64_t>(shape.cols)};
      values.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(shape.cols));
      source.read(matrix, begin, rows, 0, static_cast<std::uint64_t>(shape.cols), values.data());
    }
    if (!all_finite(values)) refuse_file(where, "holds a value that is not finite");
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * row_bytes);
    if (same)  // the blocks of the source, whose codes another encoder may have chosen
      source.read_bytes(tensor.source, begin * row_bytes, bytes);
    else if (!encode_blocks(type, values.data(), static_cast<std::size_t>(count) * row_blocks, bytes.data()))
      throw Error(Error::Kind::unsupported, where,
                  "holds a value that " + std::string(dtype_name(type)) + " cannot hold; use another type");
    writer.write(tensor.name, begin * row_bytes, bytes);
  });
}

// Writes the tensors of a plan.
template <class Pool>
QuantizeReport write_gguf_plan(const GgufPlan& plan, const Checkpoint& source, DType type,
                               const std::filesystem::path& target, Pool& pool, const QuantizeProgress& progress) {
  std::vector<TensorPlan> plans;
  std::uint64_t total = 0, done = 0;
  for (const GgufTensor& each : plan.tensors) {
    plans.push_back({each.name, gguf_stored_type(each, type), each.source.shape});
    total += each.source.end - each.source.begin;
  }
  GgufWriter writer(target, plans, plan.metadata);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const GgufTensor& tensor = plan.tensors[i];
    write_gguf_tensor(tensor, plans[i].dtype, source, writer, pool);
    done += tensor.source.end - tensor.source.begin;
    if (progress) progress(done, total);
  }
  source.verify_unchanged();
  writer.finish();
  return {total, writer.data_bytes(), plan.left_out, {}};
}

}  // namespace detail

/// Writes the model `source`, a folder or a GGUF file, to the GGUF file `target`. `type` names the type of matrices:
/// q8_0, q4_0, float32 (f32), float16 (f16) or bfloat16 (bf16). Vectors, norms, routers and learned positions are F32.
/// A matrix whose rows are no whole number of blocks is F16. A GGUF file keeps its metadata. Memory: a few MiB of
/// blocks, and the tokenizer. Errors: those of load_checkpoint and of reading every tensor. Error unsupported for
/// another type, for a source that holds codes, and for a family, field or tokenizer that GGUF cannot express. Error
/// invalid_request if the target exists. After an error the target is as it was before.
template <class Pool>
QuantizeReport export_gguf(std::span<const Family> families, const std::filesystem::path& source,
                           const std::filesystem::path& target, std::string_view type, Pool& pool,
                           const QuantizeProgress& progress = {}) {
  const DType wanted = detail::gguf_type_named(type);
  if (entry_exists(target))
    throw Error(Error::Kind::invalid_request, file_name_of(target), "exists already; name a new file");
  const ModelFiles files = load_checkpoint(source);  // includes the tokenizer: an invalid one is not copied either
  detail::refuse_codes(files);
  const detail::GgufPlan plan = detail::plan_gguf(families, source, files, wanted);
  return detail::write_gguf_plan(plan, *files.tensors, wanted, target, pool, progress);
}

/// The same, for the built-in families.
template <class Pool>
QuantizeReport export_gguf(const std::filesystem::path& source, const std::filesystem::path& target,
                           std::string_view type, Pool& pool, const QuantizeProgress& progress = {}) {
  return export_gguf(BuiltInModels{}, source, target, type, pool, progress);
}

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/gguf_export-inl.h"
#endif
