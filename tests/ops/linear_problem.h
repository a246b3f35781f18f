// Shared by the tests of linear: a matrix product with any epilogue, and the comparison of batches with single rows.
#pragma once
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "helpers.h"
#include "tenon/ops/cpu/linear.h"

namespace tenon::test {

enum class Residual { none, other, in_place };
struct Epilogue {
  bool bias, delta;
  Activation activation;
  Residual residual;
  bool changes = false;  // gains and biases of the rows' adapters
};
inline constexpr Epilogue kEpilogues[] = {
    {false, false, Activation::none, Residual::none},      {true, false, Activation::none, Residual::none},
    {true, true, Activation::none, Residual::none},        {true, false, Activation::gelu_new, Residual::none},
    {true, false, Activation::gelu, Residual::none},       {true, false, Activation::none, Residual::in_place},
    {false, true, Activation::gelu_new, Residual::other},  {true, true, Activation::gelu, Residual::in_place},
    {false, true, Activation::none, Residual::in_place},   {true, true, Activation::none, Residual::none, true},
    {true, false, Activation::gelu, Residual::none, true}, {false, true, Activation::relu, Residual::in_place, true},
};

// An epilogue that every device has: number counts through those without changes.
inline const Epilogue& plain_epilogue(int number) {
  constexpr int plain = 9;
  static_assert(!kEpilogues[plain - 1].changes && kEpilogues[plain].changes);
  return kEpilogues[number % plain];
}

// The operands of a matrix product over kMostRows rows. Tests multiply any range of the rows.
struct Problem {
  int in, out;
  Matrix x, weight, bias, deltas, residual, gains, biases;
  std::vector<const float*> delta;     // every third is null
  std::vector<ProductChange> changes;  // in turn: none, a gain, a bias, both; three rows share one

  Problem(int inputs, int outputs)
      : in(inputs),
        out(outputs),
        x(random_matrix(kMostRows, in, 1, in + 3, 4.0f)),
        weight(random_matrix(out, in, 2)),
        bias(random_matrix(1, out, 3)),
        deltas(random_matrix(kMostRows, out, 4)),
        residual(random_matrix(kMostRows, out, 5, out + 5)),
        gains(random_matrix(kMostRows, out, 6)),
        biases(random_matrix(kMostRows, out, 7)) {
    for (int r = 0; r < kMostRows; ++r) {
      delta.push_back(r % 3 == 0 ? nullptr : deltas.row(r));
      const int of = r / 3;
      changes.push_back({nullptr, of % 2 == 1 ? gains.row(of) : nullptr, of / 2 % 2 == 1 ? biases.row(of) : nullptr});
    }
  }

  // The arguments for rows [first, first + rows); the results go to the first rows of y.
  template <class W>
  LinearArgs<W> args(const W& w, const Epilogue& e, int first, int rows, const Matrix& y) const {
    if (e.residual == Residual::in_place) {
      for (int r = 0; r < rows; ++r)
        std::memcpy(y.row(r), residual.row(first + r), static_cast<std::size_t>(out) * sizeof(float));
    }
    return {.x = x.view(first, rows),
            .weight = w,
            .bias = e.bias ? bias.row(0) : nullptr,
            .delta = e.delta ? delta.data() + first : nullptr,
            .activation = e.activation,
            .residual = e.residual == Residual::none    ? MatrixView<const float>{}
                        : e.residual == Residual::other ? MatrixView<const float>(residual.view(first, rows))
                                                        : MatrixView<const float>(y.view()),
            .y = y.view(),
            .changes = e.changes ? changes.data() + first : nullptr};
  }
  // The rows of W x with the epilogue, by definition.
  Matrix finished(const Matrix& products, const Epilogue& e) const {
    Matrix y = products;
    for (int r = 0; r < kMostRows; ++r) {
      float* const row = y.row(r);
      const float* const d = e.delta ? delta[static_cast<std::size_t>(r)] : nullptr;
      const ProductChange change = e.changes ? changes[static_cast<std::size_t>(r)] : ProductChange{};
      const float* const b = change.bias ? change.bias : e.bias ? bias.row(0) : nullptr;
      for (int o = 0; !change.gain && b && o < out; ++o) row[o] += b[o];
      for (int o = 0; d && o < out; ++o) row[o] += d[o];
      for (int o = 0; change.gain && o < out; ++o) row[o] = std::fma(row[o], change.gain[o], b ? b[o] : 0.0f);
      cpu::kernels_for(Isa::portable).activate_row(row, out, e.activation);
      for (int o = 0; e.residual != Residual::none && o < out; ++o) row[o] += residual.row(r)[o];
    }
    return y;
  }
  // Memory for y, with gaps.
  Matrix output(int rows) const { return Matrix(rows, out, out + 7); }
};

// Computes each row alone, in plain C++ on one thread. All other results must equal these.
template <class W>
Matrix alone(const Problem& p, const W& weight, const Epilogue& e) {
  Cpu device({.threads = 1, .isa = Isa::portable});
  Matrix all(kMostRows, p.out, p.out);
  for (int r = 0; r < kMostRows; ++r) {
    Matrix y = p.output(1);
    linear(device, p.args(weight, e, r, 1, y));
    std::memcpy(all.row(r), y.row(0), static_cast<std::size_t>(p.out) * sizeof(float));
  }
  return all;
}

// The first batch size at which op(args) gives a row other bits than alone(), or writes outside of its rows; 0: none.
template <class W, class Op>
int first_variant_batch(const Problem& p, const W& weight, const Epilogue& e, const Matrix& truth, Op&& op,
                        std::span<const int> batches = kRows) {
  for (const int rows : batches) {
    const int first = rows * 7 % (kMostRows - rows + 1);  // so that a row is at many places of a batch
    Matrix y = p.output(rows);
    op(p.args(weight, e, first, rows, y));
    if (first_difference(y.view(), truth.view(first, rows)) >= 0 || !gaps_untouched(y)) return rows;
  }
  return 0;
}

// A weight view that has a layout and no values: at() fails the test.
template <class Layout>
struct Bare {
  Layout packed;
  const Layout& panels() const { return packed; }
  float at(int, int) const {
    throw std::logic_error("the product read a single weight, although a kernel exists for this layout");
  }
};

// Copies one section of a layout into memory that ends at a protected page. `keep` owns the copy.
template <class T>
const T* guarded(const T* from, std::size_t count, std::vector<GuardedFloats>& keep) {
  keep.emplace_back(count * sizeof(T) / sizeof(float));
  std::memcpy(keep.back().data(), from, count * sizeof(T));
  return reinterpret_cast<const T*>(keep.back().data());
}

// Multiplies with every operand in memory that ends at a protected page, so that a read beyond an end faults. The
// product must equal p.truth(e).
template <class P, class Layout>
void check_reads_end(const P& p, const Layout& layout) {
  const Epilogue& e = kEpilogues[7];
  const Matrix truth = p.truth(e);
  for (const Isa isa : isas()) {
    Cpu device({.threads = 1, .isa = isa});
    for (const int rows : {1, 2, 7, 13, 17, 33}) {
      Matrix x(rows, p.in, p.in), y(rows, p.out, p.out), residual(rows, p.out, p.out);
      for (int r = 0; r < rows; ++r) {
        std::memcpy(x.row(r), p.x.row(r), static_cast<std::size_t>(p.in) * sizeof(float));
        std::memcpy(residual.row(r), p.residual.row(r), static_cast<std::size_t>(p.out) * sizeof(float));
      }
      linear(device, LinearArgs<Bare<Layout>>{.x = x.view(),
                                              .weight = {layout},
                                              .bias = p.bias.row(0),
                                              .delta = p.delta.data(),
                                              .activation = e.activation,
                                              .residual = residual.view(),
                                              .y = y.view()});
      BOOST_TEST_REQUIRE(first_difference(y.view(), truth.view(0, rows)) == -1,
                         to_string(isa) << ": " << p.in << " -> " << p.out << ", " << rows << " rows");
    }
  }
}

}  // namespace tenon::test
