// The tensors of a model in its checkpoint: found by name, checked against the sizes of config.json, read by rows.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/model/files.h"
#include "tenon/model/merged_updates.h"
#include "tenon/model/parts.h"
#include "tenon/model/random.h"
#include "tenon/weights/coded_tensor.h"

namespace tenon {

// Finds the tensors of a DecoderSpec in a checkpoint, whatever their prefix, and reads them.
class TensorSource {
 public:
  // merged: added to the matrices as they are read; null: nothing.
  TensorSource(const ModelFiles& files, std::string_view prefix, const MergedUpdates* merged = nullptr)
      : files_(files), prefix_(prefix), merged_(merged), code_(weight_code_of(files)), coded_(holds_codes(code_)) {}

  // Every tensor that the model needs is there and has its shape; nothing has been read.
  void check(const DecoderSpec& spec, bool tied_head) const {
    if (files_.random) return;
    const auto matrix = [&](const MatrixSpec& m) {
      for (const TensorPart& part : m.parts) check_matrix(find(part.name), part, m.shape.cols);
      return 0;
    };
    const auto vector = [&](const VectorSpec& v) {
      for (const TensorPart& part : v.parts) check_shape(find(part.name), {part.stored_rows(), v.shape.cols}, v.table);
      return 0;
    };
    map_parts<int, int, int>(spec, tied_head, matrix, matrix, vector);
  }

  // rows first..first+count-1 of a matrix into out: [count, cols].
  void read(const MatrixSpec& spec, int first, int count, float* out) const {
    read_stored(spec, first, count, out);
    if (!merged_) return;
    for_runs(spec, first, count, [&](const TensorPart& part, TensorPart::Run run, int at) {
      float* rows = out + static_cast<std::ptrdiff_t>(at) * spec.shape.cols;
      if (!merged_->updates(part.name)) return;
      merged_->add(part.name, run.at, run.rows, rows);
      if (all_finite({rows, static_cast<std::size_t>(run.rows) * static_cast<std::size_t>(spec.shape.cols)})) return;
      throw Error(Error::Kind::invalid_file, where(spec), "is not finite once the adapters of `merged` are added");
    });
  }

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
  std::string where(const MatrixSpec& spec) const {
    std::string names;
    for (const TensorPart& part : spec.parts) {
      const std::string name = files_.random ? part.name : printable(find(part.name).name);
      if (names.find(name) == names.npos) names += (names.empty() ? "" : ", ") + name;
    }
    return (files_.random ? "random weights" : files_.tensors->name()) + (": " + names);
  }

  // out: [rows, cols]
  void read(const VectorSpec& spec, float* out) const {
    const int cols = spec.shape.cols;
    for (const TensorPart& part : spec.parts) {
      for (int row = 0; row < part.rows;) {
        const auto run = part.run(row, part.rows - row);
        if (!files_.random)
          read_vector(find(part.name), run, cols, spec.table, out);
        else if (spec.table)
          random_rows(files_.seed, part.name, cols, run.at, run.rows, out);
        else
          random_vector(part.name, run.rows, out);
        row += run.rows;
        out += static_cast<std::ptrdiff_t>(run.rows) * cols;
      }
    }
  }

  // Tensors of the checkpoint that the model has no use for.
  std::vector<std::string> unused(const DecoderSpec& spec, bool tied_head) const {
    std::set<std::string> used;
    const auto matrix = [&](const MatrixSpec& m) {
      for (const TensorPart& part : m.parts) use_matrix(find(part.name).name, used);
      return 0;
    };
    const auto vector = [&](const VectorSpec& v) {
      for (const TensorPart& part : v.parts) used.insert(find(part.name).name);
      return 0;
    };
    std::vector<std::string> names;
    if (files_.random) return names;
    map_parts<int, int, int>(spec, tied_head, matrix, matrix, vector);
    for (const TensorInfo& tensor : files_.tensors->tensors()) {
      if (!used.contains(tensor.name)) names.push_back(tensor.name);
    }
    return names;
  }

  const TensorInfo& find(const std::string& name) const {
    if (const auto* tensor = files_.tensors->find(std::string(prefix_) + name)) return *tensor;
    if (const auto* tensor = files_.tensors->find(name)) return *tensor;
    throw Error(Error::Kind::invalid_file, files_.tensors->name(),
                "tensor " + std::string(prefix_) + name + " is missing, which config.json asks for");
  }

 private:
  void read_stored(const MatrixSpec& spec, int first, int count, float* out) const {
    const int cols = spec.shape.cols;
    if (coded_) return with_code(code_, "", [&](auto code) { read_values<decltype(code)>(spec, first, count, out); });
    for_runs(spec, first, count, [&](const TensorPart& part, TensorPart::Run run, int at) {
      float* rows = out + static_cast<std::ptrdiff_t>(at) * cols;
      if (files_.random)
        random_rows(files_.seed, part.name, cols, run.at, run.rows, rows);
      else if (part.transposed)
        read_transposed(find(part.name), run.at, run.rows, cols, rows);
      else
        read_checked(find(part.name), run.at, run.rows, 0, cols, rows);
    });
  }

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

  void use_matrix(const std::string& name, std::set<std::string>& used) const {
    used.insert(name);
    if (!coded_) return;
    with_code(code_, "", [&](auto code) {
      using Layout = CodedLayout<decltype(code)>;
      used.insert(Layout::scale_name(name));
      if (code.has_zero_points) used.insert(Layout::zero_point_name(name));
    });
  }

  void check_matrix(const TensorInfo& tensor, const TensorPart& part, int cols) const {
    const int rows = part.stored_rows();
    if (!code_.empty()) {
      with_code(code_, "", [&](auto code) {
        using C = decltype(code);
        if constexpr (is_plain_code<C>) {
          require_dtype<C>(*files_.tensors, tensor);
          refuse_beside<C>(*files_.tensors, CodedLayout<C>::scale_name(tensor.name));
          refuse_beside<C>(*files_.tensors, CodedLayout<C>::zero_point_name(tensor.name));
        } else {
          CodedTensor<C>(*files_.tensors, tensor, {rows, cols});
        }
      });
    }
    if (!coded_) check_shape(tensor, part.transposed ? Shape{cols, rows} : Shape{rows, cols}, true);
  }

  // A vector is stored with one dimension.
  void check_shape(const TensorInfo& tensor, Shape wanted, bool matrix) const {
    std::vector<std::uint64_t> shape{static_cast<std::uint64_t>(wanted.rows)};
    if (matrix) shape.push_back(static_cast<std::uint64_t>(wanted.cols));
    files_.tensors->require(tensor.name, shape);
  }

  // A tensor of one dimension reads as one row.
  void read_vector(const TensorInfo& tensor, TensorPart::Run run, int cols, bool table, float* out) const {
    if (table)
      read_checked(tensor, run.at, run.rows, 0, cols, out);
    else
      read_checked(tensor, 0, 1, run.at, run.rows, out);
  }

  void read_checked(const TensorInfo& tensor, int first_row, int rows, int first_col, int cols, float* out) const {
    files_.tensors->read(tensor, static_cast<std::uint64_t>(first_row), static_cast<std::uint64_t>(rows),
                         static_cast<std::uint64_t>(first_col), static_cast<std::uint64_t>(cols), out);
    if (!all_finite({out, static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols)})) {
      throw Error(Error::Kind::invalid_file, files_.tensors->where(tensor), "holds a value that is not finite");
    }
  }

  // Stored [cols, rows]: reads the block of columns, then turns it in squares that fit the first-level cache.
  void read_transposed(const TensorInfo& tensor, int first, int count, int cols, float* out) const {
    std::vector<float> stored(static_cast<std::size_t>(count) * static_cast<std::size_t>(cols));  // [cols, count]
    read_checked(tensor, 0, cols, first, count, stored.data());
    constexpr int kSquare = 32;
    for (int r0 = 0; r0 < count; r0 += kSquare) {
      for (int c0 = 0; c0 < cols; c0 += kSquare) {
        for (int r = r0; r < std::min(r0 + kSquare, count); ++r) {
          for (int c = c0; c < std::min(c0 + kSquare, cols); ++c) {
            out[static_cast<std::ptrdiff_t>(r) * cols + c] =
                stored[static_cast<std::size_t>(c) * static_cast<std::size_t>(count) + static_cast<std::size_t>(r)];
          }
        }
      }
    }
  }

  const ModelFiles& files_;
  std::string_view prefix_;
  const MergedUpdates* merged_;
  std::string code_;  // of a quantised checkpoint
  bool coded_;
};

}  // namespace tenon
