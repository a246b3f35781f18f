#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/gguf_experts.h"
#include "tenon/checkpoint/matrix_decoder.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/require.h"

namespace tenon::detail {

TENON_INLINE std::optional<int> take_expert(std::string_view& stem, int experts) {
  const std::size_t dot = stem.rfind('.');
  if (dot == stem.npos || !stem.starts_with("ffn_")) return std::nullopt;
  int expert = 0;
  const auto [end, error] = std::from_chars(stem.data() + dot + 1, stem.data() + stem.size(), expert);
  if (error != std::errc() || end != stem.data() + stem.size() || expert < 0 || expert >= experts) return std::nullopt;
  stem.remove_suffix(stem.size() - dot);
  return expert;
}

TENON_INLINE TensorInfo expert_of(const TensorInfo& stack, std::uint64_t experts, std::uint64_t expert) {
  TensorInfo out = stack;
  const std::uint64_t bytes = (stack.end - stack.begin) / experts;
  out.begin = stack.begin + expert * bytes;
  out.end = out.begin + bytes;
  out.shape.erase(out.shape.begin());
  return out;
}

// The rows of matrices of one shape, one matrix after another.
class RowsOfExperts final : public MatrixDecoder {
 public:
  explicit RowsOfExperts(std::vector<TensorInfo> experts)
      : MatrixDecoder(std::string(dtype_name(experts.front().dtype)), experts.front().shape[1]),
        experts_(std::move(experts)) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const std::uint64_t rows = experts_.front().shape[0];
    while (count > 0) {
      const std::uint64_t row = first % rows, some = std::min(count, rows - row);
      checkpoint.read(experts_[static_cast<std::size_t>(first / rows)], row, some, 0, inputs(), out);
      first += some;
      count -= some;
      out += some * inputs();
    }
  }

 private:
  std::vector<TensorInfo> experts_;
};

TENON_INLINE TensorInfo stacked_experts(std::vector<TensorInfo> experts) {
  TensorInfo out = experts.front();
  out.shape.insert(out.shape.begin(), experts.size());
  out.end = 0;
  for (const TensorInfo& each : experts) out.end += each.end - each.begin;
  out.begin = 0;
  out.dtype = DType::quantised;
  out.order = {};
  out.decoder = std::make_shared<RowsOfExperts>(std::move(experts));
  return out;
}

// The rows of two matrices in turn: even rows are those of `even`, odd rows those of `odd`.
class AlternateRows final : public MatrixDecoder {
 public:
  AlternateRows(std::string name, TensorInfo even, TensorInfo odd)
      : MatrixDecoder(std::move(name), even.shape.back()), even_(std::move(even)), odd_(std::move(odd)) {}

  void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const override {
    const std::uint64_t end = first + count;
    read_rows(checkpoint, even_, (first + 1) / 2, (end + 1) / 2, out + first % 2 * inputs());
    read_rows(checkpoint, odd_, first / 2, end / 2, out + (first + 1) % 2 * inputs());
  }

 private:
  // Writes rows [first, end) to every second row of `out`.
  void read_rows(const Checkpoint& checkpoint, const TensorInfo& tensor, std::uint64_t first, std::uint64_t end,
                 float* out) const {
    std::vector<float> rows(static_cast<std::size_t>((end - first) * inputs()));
    checkpoint.read(tensor, first, end - first, 0, inputs(), rows.data());
    for (std::uint64_t i = 0; i < end - first; ++i)
      std::copy_n(rows.data() + i * inputs(), inputs(), out + 2 * i * inputs());
  }

  TensorInfo even_, odd_;
};

TENON_INLINE TensorInfo turned_stack(TensorInfo stack) {
  stack.order.transposed = true;
  std::swap(stack.shape[1], stack.shape[2]);
  return stack;
}

TENON_INLINE TensorInfo alternate_stacks(TensorInfo even, TensorInfo odd) {
  TensorInfo out = even;
  const bool biases = even.shape.size() == 2;
  for (TensorInfo* each : {&even, &odd}) each->shape = {each->shape[0] * each->shape[1], biases ? 1 : each->shape[2]};
  out.begin = 0;
  out.end = even.end - even.begin + odd.end - odd.begin;
  out.dtype = DType::quantised;
  out.shape[1] *= 2;
  out.decoder = std::make_shared<AlternateRows>("gate and up apart, " + std::string(dtype_name(even.dtype)),
                                                std::move(even), std::move(odd));
  return biases ? out : turned_stack(std::move(out));
}

}  // namespace tenon::detail
