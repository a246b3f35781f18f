#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tenon/core/elements.h"
#include "tenon/core/finite.h"
#include "tenon/core/require.h"
#include "tenon/model/merged_tensor.h"

namespace tenon::detail {

// The float next to x towards 0, or x itself, with the last bit set unless it is exact. Rounded to a type that is at
// least two bits narrower, it gives what x gives (rounding to odd; Boldo and Melquiond, 2008).
inline float rounded_to_odd(double x) {
  const float near = static_cast<float>(x);
  if (static_cast<double>(near) == x) return near;
  auto bits = std::bit_cast<std::uint32_t>(near);
  if (std::abs(static_cast<double>(near)) > std::abs(x)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

TENON_INLINE bool round_to(DType type, std::span<const double> values, std::byte* out) {
  std::vector<float> floats(values.size());
  if (type == DType::f32) {
    std::transform(values.begin(), values.end(), floats.begin(), [](double x) { return static_cast<float>(x); });
    std::memcpy(out, floats.data(), floats.size() * sizeof(float));
    return all_finite(floats);
  }
  std::vector<std::uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), [&](double x) {
    const float odd = rounded_to_odd(x);
    return type == DType::f16 ? float16(odd).bits : bfloat16(odd).bits;
  });
  std::memcpy(out, halves.data(), halves.size() * sizeof(std::uint16_t));
  (type == DType::f16 ? floats_of_f16 : floats_of_bf16)(halves.data(), floats.data(), floats.size());
  return all_finite(floats);
}

TENON_INLINE Shape MergedTensor::matrix() const {
  std::uint64_t rows = 1;
  for (std::size_t d = 0; d + 1 < plan.shape.size(); ++d) rows *= plan.shape[d];
  const std::uint64_t cols = plan.shape.empty() ? 1 : plan.shape.back();
  constexpr std::uint64_t most = std::numeric_limits<int>::max();
  if (rows > most || cols > most)
    throw Error(Error::Kind::unsupported, plan.name,
                "has the shape " + shape_text(plan.shape) + ", which is too large");
  return {static_cast<int>(rows), static_cast<int>(cols)};
}

TENON_INLINE std::string MergedTensor::where(const Checkpoint& base) const {
  return source ? base.where(*source) : base.name() + ": " + printable(plan.name);
}

// [cols, rows] of [rows, cols]
inline std::vector<float> transposed(const std::vector<float>& m, int rows, int cols) {
  std::vector<float> out(m.size());
  const auto height = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(cols);
  for (std::size_t r = 0; r < height; ++r) {
    for (std::size_t c = 0; c < width; ++c) out[c * height + r] = m[r * width + c];
  }
  return out;
}

TENON_INLINE TensorMerger::TensorMerger(const MergedTensor& tensor, const Checkpoint& base, const PeftAdapter& adapter)
    : tensor_(tensor), base_(base), adapter_(adapter), shape_(tensor.matrix()) {
  if (tensor.update) set_update(*tensor.update);
  if (tensor.bias_update) {
    change_.scale = tensor.bias_update->scale;
    change_.added = floats_of(*tensor.bias_update->b_bias);
  }
  if (!tensor.scale) return;
  const std::vector<float> gains = floats_of(*tensor.scale->factors);
  const bool by_row = tensor.plan.shape.size() > 1 && tensor.scale->of_inputs == tensor.inputs_first;
  (by_row ? change_.row_gains : change_.col_gains).assign(gains.begin(), gains.end());
}

TENON_INLINE void TensorMerger::set_update(const PeftFactors& f) {
  const auto rank = static_cast<std::size_t>(f.rank);
  std::vector<float> a(rank * static_cast<std::size_t>(f.inputs)), b(static_cast<std::size_t>(f.outputs) * rank);
  adapter_.read_a_floats(f, a);
  adapter_.read_b_floats(f, b);
  change_.rank = f.rank;
  change_.scale = f.scale;
  const bool turned = tensor_.inputs_first;  // (B A)^T = A^T B^T
  change_.left = turned ? transposed(a, f.rank, f.inputs) : std::move(b);
  change_.right = turned ? transposed(b, f.outputs, f.rank) : std::move(a);
  if (f.magnitude) (turned ? change_.col_magnitudes : change_.row_magnitudes) = floats_of(*f.magnitude);
}

TENON_INLINE std::vector<float> TensorMerger::floats_of(const TensorInfo& tensor) const {
  std::size_t count = 1;
  for (const std::uint64_t dim : tensor.shape) count *= static_cast<std::size_t>(dim);
  std::vector<float> values(count);
  adapter_.read_floats(tensor, values);
  return values;
}

TENON_INLINE void TensorMerger::read(int first, int count, std::span<float> out) const {
  const auto cols = static_cast<std::uint64_t>(shape_.cols), row = static_cast<std::uint64_t>(first);
  const bool some_rows = tensor_.tokens && !tensor_.tokens->empty();
  if (tensor_.own && !some_rows) {
    adapter_.tensors().read_elements(*tensor_.own, row * cols, out);
  } else if (!tensor_.source) {
    std::ranges::fill(out, 0.0f);
  } else if (is_weight(tensor_.source->dtype) && is_stored_as(*tensor_.source, tensor_.source->dtype)) {
    base_.read_elements(*tensor_.source, row * cols, out);
  } else {
    base_.read(*tensor_.source, row, static_cast<std::uint64_t>(count), 0, cols, out.data());
  }
  if (!tensor_.own || !some_rows) return;
  for (std::size_t i = 0; i < tensor_.tokens->size(); ++i) {
    const int at = (*tensor_.tokens)[i] - first;
    if (at < 0 || at >= count) continue;
    const std::size_t begin = static_cast<std::size_t>(at) * static_cast<std::size_t>(cols);
    adapter_.tensors().read_elements(*tensor_.own, i * cols, out.subspan(begin, static_cast<std::size_t>(cols)));
  }
}

TENON_INLINE void TensorMerger::add_update(int row, std::span<double> values) const {
  const auto rank = static_cast<std::size_t>(change_.rank);
  std::vector<double> product(values.size(), 0);
  for (std::size_t r = 0; r < rank; ++r) {
    // Products of two floats are exact in double, so contraction by a compiler changes no sum.
    const auto factor = static_cast<double>(change_.left[static_cast<std::size_t>(row) * rank + r]);
    const float* const right = change_.right.data() + r * values.size();
    for (std::size_t c = 0; c < values.size(); ++c) product[c] += factor * static_cast<double>(right[c]);
  }
  for (std::size_t c = 0; c < values.size(); ++c) values[c] = std::fma(change_.scale, product[c], values[c]);
}

TENON_INLINE void TensorMerger::divide_by_norms() {
  if (change_.col_magnitudes.empty()) return;
  const auto cols = static_cast<std::size_t>(shape_.cols);
  std::vector<double> sums(cols, 0), values(cols);
  std::vector<float> stored;
  const int block = rows_per_block(shape_, 1);
  for (int first = 0; first < shape_.rows; first += block) {
    const int count = std::min(block, shape_.rows - first);
    stored.resize(static_cast<std::size_t>(count) * cols);
    read(first, count, stored);
    for (int i = 0; i < count; ++i) {
      std::copy_n(stored.begin() + static_cast<std::ptrdiff_t>(i) * shape_.cols, cols, values.begin());
      add_update(first + i, values);
      for (std::size_t c = 0; c < cols; ++c) sums[c] = std::fma(values[c], values[c], sums[c]);
    }
  }
  change_.col_gains.resize(cols);
  for (std::size_t c = 0; c < cols; ++c)
    change_.col_gains[c] = static_cast<double>(change_.col_magnitudes[c]) / std::sqrt(sums[c]);
}

TENON_INLINE void TensorMerger::compute(int first, int count, std::span<double> out) const {
  const auto cols = static_cast<std::size_t>(shape_.cols);
  std::vector<float> stored(out.size());
  read(first, count, stored);
  std::copy(stored.begin(), stored.end(), out.begin());
  for (int i = 0; i < count; ++i) {
    const auto row = static_cast<std::size_t>(first + i);
    const std::span<double> values = out.subspan(static_cast<std::size_t>(i) * cols, cols);
    if (change_.rank > 0) add_update(first + i, values);
    double gain = change_.row_gains.empty() ? 1 : change_.row_gains[row];
    if (!change_.row_magnitudes.empty()) {
      double sum = 0;
      for (const double value : values) sum = std::fma(value, value, sum);
      gain = static_cast<double>(change_.row_magnitudes[row]) / std::sqrt(sum);
    }
    if (gain != 1) {
      for (double& value : values) value *= gain;
    }
    for (std::size_t c = 0; c < change_.added.size(); ++c)
      values[c] = std::fma(change_.scale, static_cast<double>(change_.added[c]), values[c]);
    for (std::size_t c = 0; c < change_.col_gains.size(); ++c) values[c] *= change_.col_gains[c];
  }
}

TENON_INLINE void copy_bytes(const Checkpoint& base, const TensorInfo& tensor, const WriteBytes& write) {
  constexpr std::uint64_t most = 1u << 20;
  const std::uint64_t size = tensor.end - tensor.begin;
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(most, size)));
  for (std::uint64_t done = 0; done < size; done += most) {
    const auto block = std::span(bytes).first(static_cast<std::size_t>(std::min(most, size - done)));
    base.read_bytes(tensor, done, block);
    write(done, block);
  }
}

}  // namespace tenon::detail
