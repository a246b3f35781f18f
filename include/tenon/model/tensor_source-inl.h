#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/core/require.h"
#include "tenon/model/random.h"
#include "tenon/model/tensor_source.h"

namespace tenon {

TENON_INLINE void TensorSource::check(const DecoderSpec& spec, bool tied_head) const {
  if (files_.random) return;
  const auto matrix = [&](const MatrixSpec& m) {
    for (const TensorPart& part : m.parts) check_matrix(find(part.name), part, m.shape.cols);
  };
  const auto vector = [&](const VectorSpec& v) {
    for (const TensorPart& part : v.parts)
      check_shape(find(part.name), {part.stored_rows(), v.shape.cols}, v.table, part);
  };
  visit_parts(spec, tied_head, {matrix, matrix, vector});
  for (const std::string& name : unused(spec, tied_head)) {
    const TensorInfo* const tensor = files_.tensors->find(name);
    if (tensor->stored_name.empty() || tensor->decoder) continue;  // not of a GGUF file
    throw Error(Error::Kind::unsupported, files_.tensors->where(*tensor),
                "the model does not use this tensor, and leaving it out may change the output");
  }
}

TENON_INLINE void TensorSource::read(const MatrixSpec& spec, int first, int count, float* out) const {
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

TENON_INLINE std::string TensorSource::where(const MatrixSpec& spec) const {
  std::string names;
  for (const TensorPart& part : spec.parts) {
    const std::string name = files_.random ? part.name : printable(find(part.name).name);
    if (names.find(name) == names.npos) names += (names.empty() ? "" : ", ") + name;
  }
  return (files_.random ? "random weights" : files_.tensors->name()) + (": " + names);
}

TENON_INLINE void TensorSource::read(const VectorSpec& spec, float* out) const {
  const int cols = spec.shape.cols;
  const auto elements = static_cast<std::ptrdiff_t>(spec.shape.rows) * cols;
  float* const begin = out;
  if (spec.fill) std::fill_n(begin, elements, *spec.fill);
  for (const TensorPart& part : spec.parts) {
    for (int row = 0; row < part.rows;) {
      const auto run = part.run(row, part.rows - row);
      if (!files_.random)
        read_vector(part, run, cols, spec.table, out);
      else if (spec.table)
        random_rows(files_.seed, part.name, cols, run.at, run.rows, out);
      else
        random_vector(part.name, run.rows, out);
      row += run.rows;
      out += static_cast<std::ptrdiff_t>(run.rows) * cols;
    }
  }
  if (spec.plus == 0 && spec.times == 1) return;
  for (float* element = begin; element < begin + elements; ++element) *element = (*element + spec.plus) * spec.times;
}

TENON_INLINE std::vector<std::string> TensorSource::unused(const DecoderSpec& spec, bool tied_head) const {
  std::set<std::string> used;
  const auto matrix = [&](const MatrixSpec& m) {
    for (const TensorPart& part : m.parts) use_matrix(find(part.name).name, used);
  };
  const auto vector = [&](const VectorSpec& v) {
    for (const TensorPart& part : v.parts) used.insert(find(part.name).name);
  };
  std::vector<std::string> names;
  if (files_.random) return names;
  visit_parts(spec, tied_head, {matrix, matrix, vector});
  for (const TensorInfo& tensor : files_.tensors->tensors()) {
    if (!used.contains(tensor.name)) names.push_back(tensor.name);
  }
  return names;
}

TENON_INLINE const TensorInfo& TensorSource::find(const std::string& name) const {
  if (const auto* tensor = files_.tensors->find(std::string(prefix_) + name)) return *tensor;
  if (const auto* tensor = files_.tensors->find(name)) return *tensor;
  // Heads stand beside the model that has the prefix.
  constexpr std::string_view heads[] = {"lm_head.", "embed_out.", "score."};
  const bool is_head =
      std::any_of(std::begin(heads), std::end(heads), [&](auto head) { return name.starts_with(head); });
  throw Error(
      Error::Kind::invalid_file, files_.tensors->name(),
      "tensor " + (is_head ? "" : std::string(prefix_)) + name + " is missing; the sizes in config.json require it");
}

namespace detail {

// The tensor with rows as the file stores them. Requires: `order` says transposed, and no other change.
inline TensorInfo as_stored(TensorInfo tensor) {
  std::swap(tensor.shape[tensor.shape.size() - 2], tensor.shape.back());
  tensor.order.transposed = false;
  return tensor;
}

}  // namespace detail

TENON_INLINE void TensorSource::read_stored(const MatrixSpec& spec, int first, int count, float* out) const {
  const int cols = spec.shape.cols;
  if (coded_) return with_code(code_, "", [&](auto code) { read_values<decltype(code)>(spec, first, count, out); });
  const auto alternates = [&](const TensorPart& part) {
    return part.transposed && part.block == 1 && part.stacked > 1 && !files_.random;
  };
  int begin = 0;  // the part's first row in the matrix
  for (const TensorPart& part : spec.parts) {
    const int row = std::max(first, begin), end = std::min(first + count, begin + part.rows);
    if (row < end && alternates(part))
      read_alternate(part, row - begin, end - begin, cols, out + static_cast<std::ptrdiff_t>(row - first) * cols);
    begin += part.rows;
  }
  for_runs(spec, first, count, [&](const TensorPart& part, TensorPart::Run run, int at) {
    float* rows = out + static_cast<std::ptrdiff_t>(at) * cols;
    if (alternates(part)) return;
    if (files_.random)
      random_rows(files_.seed, part.name, cols, run.at, run.rows, rows);
    else if (part.transposed && find(part.name).order.transposed)
      read_checked(detail::as_stored(find(part.name)), run.at, run.rows, 0, cols, rows);
    else if (part.transposed)
      read_transposed(part, run, cols, rows);
    else
      read_checked(find(part.name), run.at, run.rows, 0, cols, rows);
  });
}

TENON_INLINE void TensorSource::read_alternate(const TensorPart& part, int first, int last, int cols,
                                               float* out) const {
  const int each = part.stored_rows() / part.stacked, at = part.run(first, 1).at;
  const int width = part.run(last - 1, 1).at - at + 1;
  std::vector<float> stored(static_cast<std::size_t>(width) * static_cast<std::size_t>(cols));
  if (const TensorInfo& tensor = find(part.name); tensor.order.transposed) {
    read_checked(detail::as_stored(tensor), at, width, 0, cols, stored.data());  // [width, cols]
    for (int row = 0; row < last - first; ++row)
      out = std::copy_n(stored.begin() + static_cast<std::ptrdiff_t>(row) * part.stride * cols, cols, out);
    return;
  }
  read_checked(find(part.name), at / each * cols, cols, at % each, width, stored.data());  // [cols, width]
  for (int row = 0; row < last - first; ++row) {
    for (int col = 0; col < cols; ++col)
      *out++ = stored[static_cast<std::size_t>(col) * static_cast<std::size_t>(width) +
                      static_cast<std::size_t>(row * part.stride)];
  }
}

TENON_INLINE void TensorSource::use_matrix(const std::string& name, std::set<std::string>& used) const {
  used.insert(name);
  if (!coded_) return;
  with_code(code_, "", [&](auto code) {
    using Layout = CodedLayout<decltype(code)>;
    used.insert(Layout::scale_name(name));
    if (code.has_zero_points) used.insert(Layout::zero_point_name(name));
  });
}

TENON_INLINE void TensorSource::check_matrix(const TensorInfo& tensor, const TensorPart& part, int cols) const {
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
  if (coded_) return;
  const int each = rows / part.stacked;
  check_shape(tensor, part.transposed ? Shape{part.stacked * cols, each} : Shape{rows, cols}, true, part);
}

TENON_INLINE void TensorSource::check_shape(const TensorInfo& tensor, Shape wanted, bool matrix,
                                            const TensorPart& part) const {
  std::vector<std::uint64_t> shape{static_cast<std::uint64_t>(wanted.rows / part.stacked)};
  if (part.stacked > 1 || part.is_stack) shape.insert(shape.begin(), static_cast<std::uint64_t>(part.stacked));
  if (matrix) shape.push_back(static_cast<std::uint64_t>(wanted.cols));
  files_.tensors->require(tensor.name, shape);
}

TENON_INLINE void TensorSource::read_vector(const TensorPart& part, TensorPart::Run run, int cols, bool table,
                                            float* out) const {
  const TensorInfo& tensor = find(part.name);
  const int each = part.stored_rows() / part.stacked;
  if (table)
    read_checked(tensor, run.at, run.rows, 0, cols, out);
  else
    read_checked(tensor, run.at / each, 1, run.at % each, run.rows, out);
}

TENON_INLINE void TensorSource::read_checked(const TensorInfo& tensor, int first_row, int rows, int first_col, int cols,
                                             float* out) const {
  files_.tensors->read(tensor, static_cast<std::uint64_t>(first_row), static_cast<std::uint64_t>(rows),
                       static_cast<std::uint64_t>(first_col), static_cast<std::uint64_t>(cols), out);
  if (!all_finite({out, static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols)})) {
    throw Error(Error::Kind::invalid_file, files_.tensors->where(tensor), "holds a value that is not finite");
  }
}

TENON_INLINE void TensorSource::read_transposed(const TensorPart& part, TensorPart::Run run, int cols,
                                                float* out) const {
  const int count = run.rows, each = part.stored_rows() / part.stacked;
  std::vector<float> stored(static_cast<std::size_t>(count) * static_cast<std::size_t>(cols));  // [cols, count]
  read_checked(find(part.name), run.at / each * cols, cols, run.at % each, count, stored.data());
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

}  // namespace tenon
