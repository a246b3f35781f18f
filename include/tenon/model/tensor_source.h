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

namespace tenon {

// Finds the tensors of a DecoderSpec in a checkpoint, whatever their prefix, and reads them.
class TensorSource {
 public:
  // merged: added to the matrices as they are read; null: nothing.
  TensorSource(const ModelFiles& files, std::string_view prefix, const MergedUpdates* merged = nullptr)
      : files_(files), prefix_(prefix), merged_(merged), code_(weight_code_of(files)), coded_(holds_codes(code_)) {}

  // Every tensor that the model needs is there and has its shape; nothing has been read.
  void check(const DecoderSpec& spec, bool tied_head) const;

  // rows first..first+count-1 of a matrix into out: [count, cols].
  void read(const MatrixSpec& spec, int first, int count, float* out) const;

  // Whether matrices stand there as codes of C, with scales: read_codes then gives what encoding them gave.
  template <WeightCode C>
  bool holds(const MatrixSpec& spec) const {
    const auto changes = [&](const TensorPart& part) { return merged_ && merged_->updates(part.name); };
    return coded_ && code_ == C::name && std::none_of(spec.parts.begin(), spec.parts.end(), changes);
  }

  // rows first..first+count-1 of a matrix as codes.
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
      coded<C>(part, cols).read(run.at, run.rows, at, block);
    });
  }

  // "model.safetensors: h.0.attn.c_attn.weight": names a matrix in errors.
  std::string where(const MatrixSpec& spec) const;

  // out: [rows, cols]
  void read(const VectorSpec& spec, float* out) const;

  // Tensors of the checkpoint that the model has no use for.
  std::vector<std::string> unused(const DecoderSpec& spec, bool tied_head) const;

  const TensorInfo& find(const std::string& name) const;

 private:
  void read_stored(const MatrixSpec& spec, int first, int count, float* out) const;

  // body(part, run, at): a run of rows of the part's tensor makes the rows at .. of the block first .. first + count
  // - 1.
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

  // The scale of a whole matrix stands beside each tensor that is a part of it.
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
                                ", which is of the same matrix: one for all of it is needed");
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

  void use_matrix(const std::string& name, std::set<std::string>& used) const;

  void check_matrix(const TensorInfo& tensor, const TensorPart& part, int cols) const;

  // A vector is stored with one dimension.
  void check_shape(const TensorInfo& tensor, Shape wanted, bool matrix) const;

  // A tensor of one dimension reads as one row.
  void read_vector(const TensorInfo& tensor, TensorPart::Run run, int cols, bool table, float* out) const;

  void read_checked(const TensorInfo& tensor, int first_row, int rows, int first_col, int cols, float* out) const;

  // Stored [cols, rows]: reads the block of columns, then turns it in squares that fit the first-level cache.
  void read_transposed(const TensorInfo& tensor, int first, int count, int cols, float* out) const;

  const ModelFiles& files_;
  std::string_view prefix_;
  const MergedUpdates* merged_;
  std::string code_;  // of a quantised checkpoint
  bool coded_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/tensor_source-inl.h"
#endif
