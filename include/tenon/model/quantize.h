// Writes a model's checkpoint with its matrices in another weight format. docs/weights.md describes the file.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/safetensors.h"
#include "tenon/checkpoint/safetensors_writer.h"
#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/io/new_file.h"
#include "tenon/io/new_folder.h"
#include "tenon/model/any_family.h"
#include "tenon/model/files.h"
#include "tenon/model/parts.h"
#include "tenon/model/tensor_source.h"
#include "tenon/model/traits.h"
#include "tenon/version.h"
#include "tenon/weights/coded_tensor.h"
#include "tenon/weights/codes.h"
#include "tenon/weights/row_blocks.h"

namespace tenon {

/// The result of quantize_checkpoint.
struct QuantizeReport {
  std::uint64_t bytes_before = 0, bytes_after = 0;  ///< of the tensors that the model uses
  std::vector<std::string> left_out;                ///< tensors that the model does not use; they are not written
  /// Files and folders of the source that are not copied, as printable names. A folder's name ends in '/'.
  std::vector<std::string> files_left_out;
};

/// Called after each tensor: `done` of `total` bytes of the source are written.
using QuantizeProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

namespace detail {

// The relation of values, codes and scales, for readers that do not use this library.
template <WeightCode C>
std::string layout_text() {
  if constexpr (is_plain_code<C>)
    return "every matrix is " + std::string(dtype_name(C::dtype)) + ", in its original shape and order";
  std::string text =
      "a matrix W [rows, cols] of y = W x, so rows are outputs, is stored as its tensor <name> of codes and ";
  text += C::group > 0
              ? "<name>.scale [rows, groups], a group being " + std::to_string(C::group) + " columns of a row; "
          : C::per_tensor ? std::string("<name>.scale [1]; ")
                          : std::string("<name>.scale [rows]; ");
  if (C::has_zero_points) return text + "value = (code - <name>.zero_point) * <name>.scale";
  if (C::bits == 8) return text + "value = code * <name>.scale";
  const std::string value =
      std::is_same_v<C, NormalFloat4Code> ? "NF4 value of code (Dettmers et al., QLoRA, 2023)" : "(code - 8)";
  return text + "value = " + value +
         " * <name>.scale; two codes a byte, row by row without gaps, the even one in the low four "
         "bits";
}

template <WeightCode C>
Metadata quantized_metadata() {
  // Readers of the format "pt" would take codes for weights, so only checkpoints of floats have it.
  return {{"format", is_plain_code<C> ? "pt" : "tenon"},
          {"tenon.weights", std::string(C::name)},
          {"tenon.layout", layout_text<C>()},
          {"tenon.version", std::string(kVersion)}};
}

// Writes the tensors of a model's checkpoint in code C.
template <WeightCode C>
class CheckpointWriter {
 public:
  CheckpointWriter(const ModelFiles& files, const TensorSource& source, const DecoderSpec& spec, bool tied_head)
      : checkpoint_(*files.tensors), source_(source) {
    const auto matrix = [&](const MatrixSpec& m) { add_matrix(m); };
    const auto vector = [&](const VectorSpec& v) {
      for (const TensorPart& part : v.parts) add_other(source_.find(part.name));
    };
    visit_parts(spec, tied_head, {matrix, matrix, vector});
  }

  std::vector<TensorPlan> plans() const {
    std::vector<TensorPlan> plans;
    for (const Matrix& matrix : matrices_) {
      for (const Tensor& tensor : matrix.tensors) add_plans(tensor, plans);
    }
    for (const TensorInfo* tensor : others_)
      plans.push_back({tensor->name, as_stored(*tensor) ? tensor->dtype : DType::f32, tensor->shape});
    return plans;
  }

  template <class Pool>
  void write(Pool& pool, SafetensorsWriter& writer, const QuantizeProgress& progress) const {
    const std::uint64_t total = bytes();
    std::uint64_t done = 0;
    const auto tell = [&](const TensorInfo& tensor) {
      done += tensor.end - tensor.begin;
      if (progress) progress(done, total);
    };
    for (const Matrix& matrix : matrices_) {
      ValueRange range;
      if constexpr (C::per_tensor) {
        for (const Tensor& tensor : matrix.tensors) range.add(range_of(pool, tensor.spec.shape, reader(tensor)));
      }
      for (const Tensor& tensor : matrix.tensors) {
        write_matrix(pool, tensor, range, writer);
        tell(*tensor.info);
      }
    }
    for (const TensorInfo* tensor : others_) {
      copy(*tensor, writer);
      tell(*tensor);
    }
  }

  // Bytes of all tensors in the source.
  std::uint64_t bytes() const {
    std::uint64_t total = 0;
    for (const Matrix& matrix : matrices_) {
      for (const Tensor& tensor : matrix.tensors) total += tensor.info->end - tensor.info->begin;
    }
    for (const TensorInfo* tensor : others_) total += tensor->end - tensor->begin;
    return total;
  }

 private:
  // A tensor of the source and the order in which it is read: rows are outputs, except in a plain code, which keeps the
  // stored order.
  struct Tensor {
    const TensorInfo* info;
    MatrixSpec spec;
  };
  // Tensors that form one matrix of the model. They share one range.
  struct Matrix {
    std::vector<Tensor> tensors;
  };

  void add_matrix(const MatrixSpec& m) {
    Matrix matrix;
    for (const TensorPart& part : m.parts) {
      const TensorInfo& info = source_.find(part.name);
      if (!known_.insert(info.name).second) continue;
      if (C::per_tensor && part.stacked > 1)
        throw Error(Error::Kind::unsupported, printable(info.name),
                    "stacks matrices, each with a scale of its own in " + std::string(C::name) +
                        "; a file would have one for all; use another format");
      const int rows = part.stored_rows(), cols = m.shape.cols;
      const bool turned = is_plain_code<C> && part.transposed;  // read as it is stored
      const Shape shape = turned ? Shape{part.stacked * cols, rows / part.stacked} : Shape{rows, cols};
      const TensorPart whole{.name = part.name,
                             .rows = shape.rows,
                             .transposed = part.transposed && !turned,
                             .stored = shape.rows,
                             .stacked = part.stacked};
      matrix.tensors.push_back({&info, {shape, {whole}}});
    }
    matrices_.push_back(std::move(matrix));
  }
  void add_other(const TensorInfo& tensor) {
    if (known_.insert(tensor.name).second) others_.push_back(&tensor);
  }

  static void add_plans(const Tensor& tensor, std::vector<TensorPlan>& plans) {
    using Layout = CodedLayout<C>;
    const std::string& name = tensor.info->name;
    const Shape shape = tensor.spec.shape;
    plans.push_back({name, C::dtype, is_plain_code<C> ? tensor.info->shape : Layout::codes(shape)});
    if constexpr (C::has_scales) plans.push_back({Layout::scale_name(name), C::scale_dtype, Layout::scales(shape)});
    if constexpr (C::has_zero_points)
      plans.push_back({Layout::zero_point_name(name), DType::f32, Layout::scales(shape)});
  }

  auto reader(const Tensor& tensor) const {
    return [this, &tensor](int first, int count, float* out) { source_.read(tensor.spec, first, count, out); };
  }

  template <class Pool>
  void write_matrix(Pool& pool, const Tensor& tensor, const ValueRange& range, SafetensorsWriter& writer) const {
    const Shape shape = tensor.spec.shape;
    const std::string where = source_.where(tensor.spec);
    if constexpr (!is_plain_code<C>) {
      if (source_.template holds<C>(tensor.spec)) {  // blocks of a GGUF file that are codes already
        return for_row_blocks(pool, shape, [&](int first, int count) {
          CodeBlock block;
          source_.template read_codes<C>(tensor.spec, first, count, block);
          write_block(tensor.info->name, first, block, writer);
        });
      }
    }
    for_float_blocks(pool, shape, reader(tensor), [&](int first, std::span<const float> rows) {
      CodeBlock block;
      encode_named(where, [&] {
        C::encode(shape.cols, rows, range, block);
        check(block);
      });
      write_block(tensor.info->name, first, block, writer);
    });
  }

  // Reads the scales back: a range at the limits of float32 may leave a scale that readers refuse.
  static void check(const CodeBlock& block) {
    const auto sound = [](float scale) { return CodeRules<C>::sound_scale(scale); };
    if (std::all_of(block.scales.begin(), block.scales.end(), sound)) return;
    throw Error(Error::Kind::unsupported, "",
                "have a range that " + std::string(C::name) + " cannot hold; use another format");
  }

  static void write_block(const std::string& name, int first, const CodeBlock& block, SafetensorsWriter& writer) {
    using Layout = CodedLayout<C>;
    const auto groups = static_cast<std::size_t>(groups_of<C>(block.cols)), row = static_cast<std::size_t>(first);
    writer.write(name, code_bytes<C>(first, block.cols), block.codes);
    if (C::per_tensor && first > 0) return;
    const std::size_t place = C::per_tensor ? 0 : row * groups;
    if constexpr (C::has_scales && C::scale_dtype == DType::f16) {
      std::vector<float16> halves;
      for (const float scale : block.scales) halves.push_back(float16(scale));
      writer.write(Layout::scale_name(name), place * sizeof(float16), std::as_bytes(std::span(halves)));
    } else if constexpr (C::has_scales) {
      writer.write(Layout::scale_name(name), place * sizeof(float), std::as_bytes(std::span(block.scales)));
    }
    if constexpr (C::has_zero_points) {
      writer.write(Layout::zero_point_name(name), place * sizeof(float), std::as_bytes(std::span(block.zero_points)));
    }
  }

  // Whether the bytes of the tensor are those of a safetensors file. A GGUF file may have others.
  static bool as_stored(const TensorInfo& tensor) { return tensor.order.plain() && is_weight(tensor.dtype); }

  void copy(const TensorInfo& tensor, SafetensorsWriter& writer) const {
    if (!as_stored(tensor)) return copy_values(tensor, writer);
    constexpr std::uint64_t kCopied = 1u << 20;
    const std::uint64_t size = tensor.end - tensor.begin;
    std::vector<std::byte> bytes(std::min(kCopied, size));
    for (std::uint64_t done = 0; done < size; done += kCopied) {
      const std::span<std::byte> block = std::span(bytes).first(std::min(kCopied, size - done));
      checkpoint_.read_bytes(tensor, done, block);
      check_finite(tensor, block);
      writer.write(tensor.name, done, block);
    }
  }

  // Copies the values as float32.
  void copy_values(const TensorInfo& tensor, SafetensorsWriter& writer) const {
    std::size_t count = 1;
    for (const std::uint64_t dim : tensor.shape) count *= static_cast<std::size_t>(dim);
    std::vector<float> values(count);
    checkpoint_.read_all(tensor, values.data());
    if (!all_finite(values)) refuse_file(checkpoint_.where(tensor), "holds a value that is not finite");
    writer.write(tensor.name, 0, std::as_bytes(std::span(values)));
  }

  // The check that the reader of the copy will make.
  void check_finite(const TensorInfo& tensor, std::span<const std::byte> bytes) const {
    const auto element = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
    std::vector<float> values(bytes.size() / element);
    if (tensor.dtype == DType::f32) {
      std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      std::vector<std::uint16_t> halves(values.size());
      std::memcpy(halves.data(), bytes.data(), bytes.size());
      (tensor.dtype == DType::f16 ? floats_of_f16 : floats_of_bf16)(halves.data(), values.data(), values.size());
    }
    if (!all_finite(values)) refuse_file(checkpoint_.where(tensor), "holds a value that is not finite");
  }

  const Checkpoint& checkpoint_;
  const TensorSource& source_;
  std::vector<Matrix> matrices_;
  std::vector<const TensorInfo*> others_;  // copied unchanged, or as float32
  std::set<std::string> known_;
};

inline constexpr std::array kWeightFiles = {"model.safetensors", "model.safetensors.index.json"};
inline constexpr std::array kCopiedFiles = {"config.json",
                                            "generation_config.json",
                                            "vocab.json",
                                            "merges.txt",
                                            "tokenizer.json",
                                            "tokenizer.model",
                                            "tokenizer_config.json",
                                            "special_tokens_map.json",
                                            "added_tokens.json",
                                            "chat_template.jinja",
                                            "chat_template.json",
                                            "modules.json",
                                            "sentence_bert_config.json",
                                            "config_sentence_transformers.json"};

// Error invalid_request if the target is the source or has a model already.
void check_target(const std::filesystem::path& target, const std::filesystem::path& source);

// The files and folders of a model's folder that are neither copied nor, as `is_read` says of a name, read for the
// weights. Sorted.
std::vector<std::string> files_left_out(const std::filesystem::path& folder,
                                        const std::function<bool(const std::string&)>& is_read);
inline std::vector<std::string> files_left_out(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  return files_left_out(folder, [&](const std::string& name) { return checkpoint.consists_of(name); });
}

// The folders of module_folders() in the target.
std::vector<std::unique_ptr<NewFolder>> new_module_folders(const std::filesystem::path& source,
                                                           const std::filesystem::path& target);

// Copies the small files of a model, byte for byte, with those of module_folders(), which the target has; only
// quantization_config is taken out of config.json, unless the weights stay quantised. They appear with
// NewFile::publish. For a GGUF file they are written: config.json and, if it has a tokenizer, tokenizer.json and
// tokenizer_config.json.
std::vector<NewFile> copy_model_files(const std::filesystem::path& source, const std::filesystem::path& target,
                                      bool stays_quantised = false);

// Error unsupported if the weights are codes already: the loss of the first rounding would go unnoticed.
void refuse_codes(const ModelFiles& files);

// The traits of the source's family that matter here.
struct SourceModel {
  DecoderSpec spec;
  bool tied_head = false;
  std::string_view name_prefix;
};

SourceModel source_model(std::span<const Family> families, const ModelFiles& files);

template <WeightCode C, class Pool>
QuantizeReport quantize_as(const ModelFiles& files, const SourceModel& model,
                           const std::filesystem::path& source_folder, const std::filesystem::path& target, Pool& pool,
                           const QuantizeProgress& progress) {
  const TensorSource source(files, model.name_prefix);
  source.check(model.spec, model.tied_head);
  const CheckpointWriter<C> tensors(files, source, model.spec, model.tied_head);

  check_target(target, source_folder);
  const NewFolder folder(target);
  const auto modules = new_module_folders(source_folder, target);
  SafetensorsWriter writer(target / "model.safetensors", tensors.plans(), quantized_metadata<C>());
  tensors.write(pool, writer, progress);
  std::vector<NewFile> all = copy_model_files(source_folder, target);
  all.push_back(writer.take_file());  // last: a folder with weights is complete
  files.tensors->verify_unchanged();
  NewFile::publish_all(all);
  return {tensors.bytes(), writer.data_bytes(), source.unused(model.spec, model.tied_head),
          files_left_out(source_folder, *files.tensors)};
}

}  // namespace detail

/// Writes the model `source`, a folder or a GGUF file, to folder `target`, its matrices in the weight format that
/// `format` names (one of BuiltInCodes). Memory: a few MiB of blocks, and the tokenizer. Errors: those of
/// load_checkpoint and of reading every tensor; unsupported for an unknown format or a source that holds codes (a
/// source of 16-bit floats is accepted); invalid_request if the target has a model already. After an error the target
/// is as it was before.
template <class Pool>
QuantizeReport quantize_checkpoint(std::span<const Family> families, const std::filesystem::path& source,
                                   const std::filesystem::path& target, std::string_view format, Pool& pool,
                                   const QuantizeProgress& progress = {}) {
  const ModelFiles files = load_checkpoint(source);  // includes the tokenizer: an invalid one is not copied either
  detail::refuse_codes(files);
  const detail::SourceModel model = detail::source_model(families, files);
  return with_code(format, "weights", [&](auto code) {
    return detail::quantize_as<decltype(code)>(files, model, source, target, pool, progress);
  });
}

/// The same, for the built-in families.
template <class Pool>
QuantizeReport quantize_checkpoint(const std::filesystem::path& source, const std::filesystem::path& target,
                                   std::string_view format, Pool& pool, const QuantizeProgress& progress = {}) {
  return quantize_checkpoint(BuiltInModels{}, source, target, format, pool, progress);
}

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/quantize-inl.h"
#endif
