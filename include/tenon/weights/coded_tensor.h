// A matrix that a checkpoint stores as codes: tensors <name>, <name>.scale and <name>.zero_point. The layout is checked
// when the matrix is found, the numbers as they are read.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/error.h"
#include "tenon/weights/codes.h"

namespace tenon {

/// Names and shapes of the tensors of one matrix, for writers and readers.
template <WeightCode C>
struct CodedLayout {
  using Dims = std::vector<std::uint64_t>;

  static std::string scale_name(std::string_view name) { return std::string(name) + ".scale"; }
  static std::string zero_point_name(std::string_view name) { return std::string(name) + ".zero_point"; }

  static Dims codes(Shape shape) {
    if constexpr (C::bits < 8)
      return {code_bytes<C>(shape.rows, shape.cols)};
    else
      return {static_cast<std::uint64_t>(shape.rows), static_cast<std::uint64_t>(shape.cols)};
  }
  static Dims scales(Shape shape) {
    if constexpr (C::per_tensor)
      return {1};
    else if constexpr (C::group == 0)
      return {static_cast<std::uint64_t>(shape.rows)};
    else
      return {static_cast<std::uint64_t>(shape.rows), static_cast<std::uint64_t>(groups_of<C>(shape.cols))};
  }
};

/// The numbers that encoders produce. Others are refused, because their effect on a sum would be undefined.
template <WeightCode C>
struct CodeRules {
  static constexpr bool is_float8 = C::dtype == DType::f8_e4m3 || C::dtype == DType::f8_e5m2;
  static constexpr bool signed_scales = C::scale_dtype == DType::f16;

  /// The largest |value| / scale.
  static constexpr float reach() {
    if constexpr (C::bits == 4) return C::scale_dtype == DType::f16 ? 8.0f : 1.0f;
    if constexpr (C::dtype == DType::i8) return 128.0f;
    if constexpr (C::dtype == DType::f8_e4m3) return E4M3::largest;
    if constexpr (C::dtype == DType::f8_e5m2) return E5M2::largest;
    return 255.0f;
  }
  static bool sound_scale(float scale) { return std::isfinite(scale * reach()) && (signed_scales || scale >= 0); }
  /// The zero point of a whole tensor is -least / scale. Rounding may put it just above 255 if no value is above 0.
  static bool sound_zero_point(float zero) {
    return zero >= 0 && (C::per_tensor ? zero < 256.0f : zero <= 255.0f && zero == std::nearbyint(zero));
  }
  static bool sound_codes(std::span<const std::byte> codes) {
    if constexpr (is_float8) {
      for (const std::byte& code : codes) {
        if (!finite(C::element(&code))) return false;
      }
    }
    return true;
  }
};

/// The scale and the zero point of a tensor that has one of each.
struct CodedScale {
  float scale = 0, zero_point = 0;
  friend bool operator==(const CodedScale&, const CodedScale&) = default;
};

/// Error invalid_file ("has dtype U8, needs BF16") if a matrix does not have the file's weight format.
template <WeightCode C>
void require_dtype(const Checkpoint& checkpoint, const TensorInfo& tensor, DType dtype = C::dtype) {
  if (tensor.dtype == dtype) return;
  detail::refuse_file(checkpoint.where(tensor), "has dtype " + std::string(dtype_name(tensor.dtype)) + ", needs " +
                                                    std::string(dtype_name(dtype)) +
                                                    ", because the file says that its weights are " +
                                                    std::string(C::name));
}

/// Refuses a tensor of scales or zero points that C does not have: the file's author meant other values.
template <WeightCode C>
void refuse_beside(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo* found = checkpoint.find(name);
  if (found == nullptr) return;
  detail::refuse_file(checkpoint.where(*found), "is not expected: " + std::string(C::name) +
                                                    " weights, the format of this file, have no such tensor");
}

/// Reads and checks one matrix of codes.
template <WeightCode C>
class CodedTensor {
  static_assert(!is_plain_code<C>);
  using Rules = CodeRules<C>;

 public:
  /// codes: the matrix's tensor in the checkpoint; shape: the shape that the matrix must have. Error invalid_file.
  CodedTensor(const Checkpoint& checkpoint, const TensorInfo& codes, Shape shape)
      : checkpoint_(checkpoint), codes_(codes), cols_(shape.cols) {
    require(codes, C::dtype, CodedLayout<C>::codes(shape));
    scales_ = &beside(CodedLayout<C>::scale_name(codes.name), C::scale_dtype, CodedLayout<C>::scales(shape));
    if constexpr (C::has_zero_points) {
      zero_points_ = &beside(CodedLayout<C>::zero_point_name(codes.name), DType::f32, CodedLayout<C>::scales(shape));
    } else {
      refuse_beside<C>(checkpoint, CodedLayout<C>::zero_point_name(codes.name));
    }
  }

  /// Reads rows [first, first + count) into rows from `at` of the block, which is large enough. Error invalid_file.
  void read(int first, int count, int at, CodeBlock& block) const {
    read_codes(first, count, at, block);
    const int groups = groups_of<C>(cols_);
    const auto place = C::per_tensor ? 0 : static_cast<std::size_t>(at) * static_cast<std::size_t>(groups);
    const auto values = static_cast<std::size_t>(C::per_tensor ? 1 : count * groups);
    const std::span<float> scales = std::span(block.scales).subspan(place, values);
    read_numbers(*scales_, first, count, scales);
    for (std::size_t i = 0; i < values; ++i) {
      if (!Rules::sound_scale(scales[i]))
        refuse(*scales_, first, i, groups, scales[i],
               Rules::signed_scales ? "finite numbers" : "finite numbers from 0");
    }
    if constexpr (C::has_zero_points) {
      const std::span<float> zeros = std::span(block.zero_points).subspan(place, values);
      read_numbers(*zero_points_, first, count, zeros);
      for (std::size_t i = 0; i < values; ++i) {
        if (!Rules::sound_zero_point(zeros[i]))
          refuse(*zero_points_, first, i, groups, zeros[i],
                 C::per_tensor ? "numbers from 0 to 255" : "whole numbers from 0 to 255");
      }
    }
  }

  /// The scale and zero point of the whole matrix.
  CodedScale scale() const requires C::per_tensor {
    CodedScale out;
    read_numbers(*scales_, 0, 1, std::span(&out.scale, 1));
    if constexpr (C::has_zero_points) read_numbers(*zero_points_, 0, 1, std::span(&out.zero_point, 1));
    return out;
  }

 private:
  void require(const TensorInfo& tensor, DType dtype, const std::vector<std::uint64_t>& shape) const {
    require_dtype<C>(checkpoint_, tensor, dtype);
    if (tensor.shape != shape) {
      detail::refuse_file(checkpoint_.where(tensor),
                          "has shape " + shape_text(tensor.shape) + ", needs " + shape_text(shape));
    }
  }

  const TensorInfo& beside(const std::string& name, DType dtype, const std::vector<std::uint64_t>& shape) const {
    const TensorInfo* found = checkpoint_.find(name);
    if (found == nullptr) {
      detail::refuse_file(checkpoint_.name(),
                          "tensor " + printable(name) + " is missing; " + std::string(C::name) + " weights need it");
    }
    require(*found, dtype, shape);
    return *found;
  }

  // Reads the numbers of rows [first, first + count), or the only number of a per-tensor code.
  void read_numbers(const TensorInfo& tensor, int first, int count, std::span<float> out) const {
    const auto row = static_cast<std::uint64_t>(first), rows = static_cast<std::uint64_t>(count);
    if (C::per_tensor)
      checkpoint_.read(tensor, 0, 1, 0, 1, out.data());
    else if (tensor.shape.size() == 1)
      checkpoint_.read(tensor, 0, 1, row, rows, out.data());
    else
      checkpoint_.read(tensor, row, rows, 0, tensor.shape[1], out.data());
  }

  void read_codes(int first, int count, int at, CodeBlock& block) const {
    const auto cols = static_cast<std::uint64_t>(cols_);
    const std::uint64_t begin = static_cast<std::uint64_t>(first) * cols,
                        codes = static_cast<std::uint64_t>(count) * cols;
    const std::uint64_t to = static_cast<std::uint64_t>(at) * cols;
    if constexpr (C::bits == 8) {
      const std::span<std::byte> out = std::span(block.codes).subspan(to, codes);
      checkpoint_.read_bytes(codes_, begin, out);
      if (!Rules::sound_codes(out))
        detail::refuse_file(checkpoint_.where(codes_), "holds a code that is no finite number");
    } else {
      // A row of an odd width may begin within a byte.
      std::vector<std::byte> in((begin + codes + 1) / 2 - begin / 2);
      checkpoint_.read_bytes(codes_, begin / 2, in);
      if (begin % 2 == 0 && to % 2 == 0 && codes % 2 == 0)
        return std::copy(in.begin(), in.end(), block.codes.begin() + static_cast<std::ptrdiff_t>(to / 2)), void();
      for (std::uint64_t i = 0; i < codes; ++i) {
        const std::uint64_t from = begin % 2 + i;
        const std::byte code = in[from / 2] >> (from % 2 * 4) & std::byte{15};
        block.codes[(to + i) / 2] |= code << ((to + i) % 2 * 4);
      }
    }
  }

  // i: index of the number, counted from row `first`.
  [[noreturn]] void refuse(const TensorInfo& tensor, int first, std::size_t i, int groups, float value,
                           const std::string& needed) const {
    const std::string row = C::per_tensor ? "" : " in row " + std::to_string(first + static_cast<int>(i) / groups);
    detail::refuse_file(checkpoint_.where(tensor), "holds " + std::to_string(value) + row + "; " +
                                                       std::string(C::name) + " weights need " + needed + " there");
  }

  const Checkpoint& checkpoint_;
  const TensorInfo& codes_;
  const TensorInfo* scales_ = nullptr;
  const TensorInfo* zero_points_ = nullptr;
  int cols_;
};

}  // namespace tenon
