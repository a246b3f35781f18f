// Eigen maps of the library's memory and views of Eigen's matrices, without a copy: logits, hidden rows, LoRA factors.
// Only programs that include this header depend on Eigen; tenon.h does not include it (docs/decisions/0001).
//
// Use it for your own dense algebra on the host. The library's ops never use Eigen, because Eigen's products choose
// their order of summation by shape.
#pragma once
#include "tenon/core/require.h"  // first: it names a missing -std=c++20 and the like

#if !__has_include(<Eigen/Core>)
#error \
    "tenon: tenon/eigen.h needs Eigen 3.4; install libeigen3-dev, and link Eigen3::Eigen or add -I/usr/include/eigen3"
#endif
#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "tenon/core/elements.h"
#include "tenon/core/error.h"
#include "tenon/core/float16.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/views.h"

namespace tenon {

namespace detail {
template <class T>
struct EigenScalarOf {
  using type = T;
};
template <>
struct EigenScalarOf<float16> {
  using type = Eigen::half;
};
template <>
struct EigenScalarOf<bfloat16> {
  using type = Eigen::bfloat16;
};
// `To`, const if `From` is const.
template <class From, class To>
using LikeConst = std::conditional_t<std::is_const_v<From>, const To, To>;
}  // namespace detail

/// Eigen's scalar type with the same bits: Eigen::half for float16, Eigen::bfloat16 for bfloat16, otherwise T itself.
template <class T>
using EigenScalar = typename detail::EigenScalarOf<std::remove_const_t<T>>::type;
static_assert(sizeof(Eigen::half) == sizeof(float16) && sizeof(Eigen::bfloat16) == sizeof(bfloat16));

/// Matrices and rows in the library's row-major layout.
template <class T>
using EigenMatrix = Eigen::Matrix<EigenScalar<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;  // [rows, cols]
template <class T>
using EigenRow = Eigen::Matrix<EigenScalar<T>, 1, Eigen::Dynamic, Eigen::RowMajor>;  // [1, n]

/// Maps of a MatrixView and of a row; const if T is const.
template <class T>
using EigenMatrixMap = Eigen::Map<detail::LikeConst<T, EigenMatrix<T>>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using EigenRowMap = Eigen::Map<detail::LikeConst<T, EigenRow<T>>, Eigen::Unaligned>;

/// A map of a view, such as hidden rows [rows, hidden] or logits [rows, vocab].
template <class T>
EigenMatrixMap<T> as_eigen(const MatrixView<T>& view) {
  using Scalar = detail::LikeConst<T, EigenScalar<T>>;
  return {reinterpret_cast<Scalar*>(view.data), view.rows, view.cols, Eigen::OuterStride<>(view.stride)};
}

/// A map of a row, such as one row of logits [vocab] or a bias [outputs].
template <class T>
EigenRowMap<T> as_eigen(std::span<T> row) {
  using Scalar = detail::LikeConst<T, EigenScalar<T>>;
  return {reinterpret_cast<Scalar*>(row.data()), static_cast<Eigen::Index>(row.size())};
}

namespace detail {
inline int view_size(Eigen::Index n, const char* what) {
  if (n > std::numeric_limits<int>::max())
    throw Error(Error::Kind::invalid_request, what, std::to_string(n) + "; at most 2^31 - 1 fit a MatrixView");
  return static_cast<int>(n);
}

template <class Matrix>
inline constexpr bool has_rows_in_memory = bool(Matrix::IsRowMajor) && bool(Matrix::Flags& Eigen::DirectAccessBit) &&
                                           (Matrix::InnerStrideAtCompileTime == 1);
}  // namespace detail

/// A view [rows, cols] of a row-major matrix, a map, or a block of either. The elements must outlive the view. Error
/// invalid_request if a size is above 2^31 - 1.
template <class Matrix>
auto as_view(Eigen::MatrixBase<Matrix>& matrix) {
  static_assert(detail::has_rows_in_memory<Matrix>,
                "tenon: as_view needs a row-major matrix in memory; use tenon::EigenMatrix or Eigen::RowVector, or "
                "evaluate the expression into one; see docs/eigen.md");
  Matrix& m = matrix.derived();
  return MatrixView<std::remove_pointer_t<decltype(m.data())>>{m.data(), detail::view_size(m.rows(), "rows"),
                                                               detail::view_size(m.cols(), "cols"), m.outerStride()};
}
template <class Matrix>
auto as_view(const Eigen::MatrixBase<Matrix>& matrix) {
  static_assert(detail::has_rows_in_memory<Matrix>,
                "tenon: as_view needs a row-major matrix in memory; use tenon::EigenMatrix or Eigen::RowVector, or "
                "evaluate the expression into one; see docs/eigen.md");
  const Matrix& m = matrix.derived();
  return MatrixView<const typename Matrix::Scalar>{m.data(), detail::view_size(m.rows(), "rows"),
                                                   detail::view_size(m.cols(), "cols"), m.outerStride()};
}
template <class Matrix>
void as_view(const Eigen::PlainObjectBase<Matrix>&&) = delete;  // the elements would dangle

/// All elements of a matrix, row by row: to read a tensor into it or to write one from it.
template <class Matrix>
auto span_of(Eigen::PlainObjectBase<Matrix>& matrix) {
  static_assert(Matrix::IsRowMajor, "tenon: files hold tensors row by row; use tenon::EigenMatrix; see docs/eigen.md");
  return std::span(matrix.data(), static_cast<std::size_t>(matrix.size()));
}
template <class Matrix>
auto span_of(const Eigen::PlainObjectBase<Matrix>& matrix) {
  static_assert(Matrix::IsRowMajor, "tenon: files hold tensors row by row; use tenon::EigenMatrix; see docs/eigen.md");
  return std::span(matrix.data(), static_cast<std::size_t>(matrix.size()));
}
template <class Matrix>
void span_of(const Eigen::PlainObjectBase<Matrix>&&) = delete;

// Refuses factors of another type than T, which is float, float16 or bfloat16.
namespace detail {
template <class T>
void require_factor_type(const LowRank& update) {
  constexpr FactorType type = std::is_same_v<T, float>     ? FactorType::float32
                              : std::is_same_v<T, float16> ? FactorType::float16
                                                           : FactorType::bfloat16;
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>,
                "tenon: factors are float, tenon::float16 or tenon::bfloat16; see docs/eigen.md");
  if (update.type != type)
    throw Error(Error::Kind::invalid_request, "LowRank::type", "differs from the type that the caller named");
}
}  // namespace detail

/// The matrix A of y += scale * B (A x): [rank, inputs]. Error invalid_request if the factors are of another type.
template <class T>
EigenMatrixMap<const T> as_eigen_a(const LowRank& update, int inputs) {
  detail::require_factor_type<T>(update);
  return as_eigen(MatrixView<const T>{static_cast<const T*>(update.a), update.rank, inputs, inputs});
}

/// Block `block` of B, transposed: [rank, width]. Its outputs begin at first_output + block * kFactorBlock. B is stored
/// in blocks of kFactorBlock outputs, so no single map has all of it. Error invalid_request if the factors are of
/// another type or there is no such block.
template <class T>
EigenMatrixMap<const T> as_eigen_b(const LowRank& update, int block) {
  detail::require_factor_type<T>(update);
  if (block < 0 || block >= (update.outputs + kFactorBlock - 1) / kFactorBlock)
    throw Error(Error::Kind::invalid_request, "block", "is " + std::to_string(block) + "; B has no such block");
  const int begin = block * kFactorBlock, width = std::min(kFactorBlock, update.outputs - begin);
  const T* const first = static_cast<const T*>(update.b) + std::ptrdiff_t{begin} * update.rank;
  return as_eigen(MatrixView<const T>{first, update.rank, width, width});
}

}  // namespace tenon
