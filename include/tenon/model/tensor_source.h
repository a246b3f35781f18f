// The tensors of a model in its checkpoint: found by name, checked against the sizes of config.json, read by rows.
#pragma once
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/model/files.h"
#include "tenon/model/merged_updates.h"
#include "tenon/model/parts.h"
#include "tenon/weights/coded_tensor.h"
#include "tenon/weights/gguf_codes.h"

namespace tenon {

/// Finds and reads the tensors of a DecoderSpec. Names in the checkpoint may have the model's prefix or not.
class TensorSource {
 public:
  /// prefix: Model::name_prefix. merged: updates that are added to the matrices as they are read; null: none. All
  /// arguments must outlive the source.
  TensorSource(const ModelFiles& files, std::string_view prefix, const MergedUpdates* merged = nullptr)
      : files_(files), prefix_(prefix), merged_(merged), code_(weight_code_of(files)), coded_(holds_codes(code_)) {}

  /// Checks that the checkpoint has every tensor of the model, in its shape. Reads no data. Error invalid_file; error
  /// unsupported for a tensor of a GGUF file that the model does not use, since llama.cpp would use it.
  void check(const DecoderSpec& spec, bool tied_head) const;

  /// Reads rows [first, first + count) of a matrix as float32. out: [count, cols]. Error invalid_file if a value is not
  /// finite.
  void read(const MatrixSpec& spec, int first, int count, float* out) const;

  /// Whether the checkpoint stores the matrix as codes of C with scales, and no update is merged into it. Then
  /// read_codes returns the stored codes. Blocks of a GGUF file may be such codes, too (gguf_codes.h).
  template <WeightCode C>
  bool holds(const MatrixSpec& spec) const {
    const auto changes = [&](const TensorPart& part) { return merged_ && merged_->updates(part.name); };
    const auto coded = [&](const TensorPart& part) {
      return coded_ ? code_ == C::name : !files_.random && holds_gguf_codes<C>(find(part.name), part.transposed);
    };
    return std::none_of(spec.parts.begin(), spec.parts.end(), changes) &&
           std::all_of(spec.parts.begin(), spec.parts.end(), coded);
  }

  /// Reads rows [first, first + count) of a matrix as codes. Sizes and fills `block`. Error invalid_file.
  template <WeightCode C>
  void read_codes(const MatrixSpec& spec, int first, int count, CodeBlock& block) const {
    const int cols = spec.shape.cols;
    const auto scales =
        C::per_tensor ? 1 : static_cast<std::size_t>(count) * static_cast<std::size_t>(groups_of<C>(cols));
    block.rows = count;
    block.cols = cols;
    block.codes.assign(code_bytes<C>(count, cols), std::byte{});
    block.scales.assign(scales, 0);
    block.zero_points.assign(C::has_zero_points ? scales : 0, 0);
    if constexpr (C::per_tensor) check_alike<C>(spec);
    for_runs(spec, first, count, [&](const TensorPart& part, TensorPart::Run run, int at) {
      if (coded_)
        coded<C>(part, cols).read(run.at, run.rows, at, block);
      else
        read_gguf_codes(*files_.tensors, find(part.name), run.at, run.rows, at, block);
    });
  }

  /// Names a matrix in errors: "model.safetensors: h.0.attn.c_attn.weight".
  std::string where(const MatrixSpec& spec) const;

  /// Reads a vector or table as float32. out: [rows, cols]. Error invalid_file if a value is not finite.
  void read(const VectorSpec& spec, float* out) const;

  /// The names of tensors that the model does not use.
  std::vector<std::string> unused(const DecoderSpec& spec, bool tied_head) const;

  /// The tensor of that name, with or without the model's prefix. Error invalid_file if it is missing.
  const TensorInfo& find(const std::string& name) const;

 private:
  void read_stored(const MatrixSpec& spec, int first, int count, float* out) const;

  // Calls body(part, run, at) for each run of rows in [first, first + count). `at`: the run's first row, relative to
  // `first`.
  template <class Body>
  static void for_runs(const MatrixSpec& spec, int first, int count, Body&& body) {
    int part_begin = 0;
    for (const TensorPart& part : spec.parts) {
      const int end = std::min(first + count, part_begin + part.rows);
      for (int row = std::max(first, part_begin); row < end;) {
        const auto run = part.run(row - part_begin, end - row);
        body(part, run, row - first);
        row += run.rows;
      }
      part_begin += part.rows;
    }
  }

  template <WeightCode C>
  CodedTensor<C> coded(const TensorPart& part, int cols) const {
    return {*files_.tensors, find(part.name), {part.stored_rows(), cols}};
  }

  // Each tensor of a matrix stores the scale of the whole matrix; all of them must agree.
  template <WeightCode C>
  void check_alike(const MatrixSpec& spec) const {
    CodedScale first{};
    for (const TensorPart& part : spec.parts) {
      const CodedScale here = coded<C>(part, spec.shape.cols).scale();
      if (&part == &spec.parts.front())
        first = here;
      else if (here != first) {
        detail::refuse_file(files_.tensors->where(find(part.name)),
                            "has another scale or zero point than " + printable(find(spec.parts.front().name).name) +
                                "; both are parts of one matrix and must have equal ones");
      }
    }
  }

  template <WeightCode C>
  void read_values(const MatrixSpec& spec, int first, int count, float* out) const {
    if constexpr (!is_plain_code<C>) {
      CodeBlock block;
      read_codes<C>(spec, first, count, block);
      for (int row = 0; row < count; ++row) {
        for (int col = 0; col < block.cols; ++col) *out++ = C::value(block, row, col);
      }
    }
  }

  // Reads rows [first, last) of a part whose rows are every `stride`-th column of a stacked tensor: the columns between
  // are read with them, in one range a row of the tensor. A tensor that its file stores transposed has these columns as
  // rows.
  void read_alternate(const TensorPart& part, int first, int last, int cols, float* out) const;

  void use_matrix(const std::string& name, std::set<std::string>& used) const;

  void check_matrix(const TensorInfo& tensor, const TensorPart& part, int cols) const;

  // A vector (`matrix` false) is stored with one dimension, stacked ones of `part` with one more.
  void check_shape(const TensorInfo& tensor, Shape wanted, bool matrix, const TensorPart& part) const;

  // A tensor of one dimension is read as one row, and stacked vectors as rows.
  void read_vector(const TensorPart& part, TensorPart::Run run, int cols, bool table, float* out) const;

  void read_checked(const TensorInfo& tensor, int first_row, int rows, int first_col, int cols, float* out) const;

  // For tensors stored [cols, rows] or [stacked, cols, rows]: reads the block of columns, then transposes it in squares
  // that fit into L1.
  void read_transposed(const TensorPart& part, TensorPart::Run run, int cols, float* out) const;

  const ModelFiles& files_;
  std::string_view prefix_;
  const MergedUpdates* merged_;
  std::string code_;  // name of the code of a quantised checkpoint; empty: none
  bool coded_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/tensor_source-inl.h"
#endif
