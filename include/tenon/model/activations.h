// The activations of a step, in one allocation.
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "tenon/core/concepts.h"
#include "tenon/core/operand_tiles.h"
#include "tenon/model/config.h"
#include "tenon/ops/args.h"

namespace tenon {

/// The activations of a step between ops, in one allocation that it owns. The memory grows to an eighth more than the
/// largest step seen. Operand: the form in which products read activations. Shapes after resize():
/// - x, normed: [rows, hidden]; attended: [rows, query_width]; inner: [rows, inner];
/// - qkv: [rows, qkv_width], or 3 * hidden if that is wider and the model has short convolutions;
/// - gate_and_up: [rows, 2 * inner], in rows that hold 2 * shared_inner, too; angles: [rows, angle_width]; hidden:
/// [logit_rows, hidden];
/// - query_angles: [query_rows, head_dim], angles of queries with a factor;
/// - embedded: [rows, embedding_width]; projected: [logit_rows, embedding_width].
template <DevicePolicy D, class Operand>
class Activations {
 public:
  /// Whether products read activations in an element type other than float32.
  static constexpr bool rounds = !std::is_same_v<Operand, MatrixView<float>>;

  MatrixView<float> x, qkv, angles, query_angles, local_angles, branch, gate_and_up, embedded, hidden, projected;
  Operand normed, attended, inner;
  ExpertMemory experts;

  /// Sets the shapes, and allocates if the memory is too small. Errors: those of D::allocate.
  void resize(D& device, const ModelConfig& c, int rows, int logit_rows, int query_rows = 0) {
    const bool gated = c.mlp_kind == MlpKind::gated;
    std::byte* begin = nullptr;
    std::size_t at = 0;  // bytes placed so far
    const auto take = [&](auto& matrix, int count, int width) { at += place(matrix, begin, at, count, width); };
    const auto lay_out = [&] {
      at = 0;
      take(x, rows, c.hidden);
      take(normed, rows, c.hidden);
      take(qkv, rows, c.conv_layers.empty() ? c.qkv_width() : std::max(c.qkv_width(), 3 * c.hidden));
      take(angles, rows, c.position_kind == PositionKind::rotary ? c.head_dim : 0);
      take(query_angles, query_rows, c.head_dim);
      take(local_angles, rows, c.turns_twice() ? c.head_dim : 0);
      take(branch, rows, c.output_norms || c.residual_scale != 1 ? c.hidden : 0);
      take(attended, rows, c.query_width());
      if (gated) take(gate_and_up, rows, 2 * std::max(c.inner, c.shared_inner));
      gate_and_up.cols = gated ? 2 * c.inner : 0;
      if constexpr (!rounds) {
        if (gated) inner = {gate_and_up.data, rows, c.inner, gate_and_up.stride};  // the gate's memory is reused
      }
      if (rounds || !gated) take(inner, rows, c.inner);
      const int pairs = rows * c.experts_chosen;
      take(experts.x, pairs, c.hidden);
      take(experts.gate_and_up, pairs, 2 * c.expert_inner);
      take(experts.out, pairs, c.hidden);
      take(embedded, rows, c.embedding_width);
      take(hidden, logit_rows, c.hidden);
      take(projected, logit_rows, c.embedding_width);
    };
    lay_out();
    if (at > memory_.bytes()) memory_ = device.allocate(at + at / 8);  // slightly longer prompts need no new memory
    begin = reinterpret_cast<std::byte*>(memory_.data());
    lay_out();
  }

 private:
  static constexpr std::size_t kLine = 128;  // alignment of matrices in bytes

  // Places the view at byte `at` of the memory at `begin`; null if `begin` is null. Returns its size in bytes.
  static std::size_t place(MatrixView<float>& view, std::byte* begin, std::size_t at, int rows, int cols) {
    view = {begin ? reinterpret_cast<float*>(begin + at) : nullptr, rows, cols, cols};
    return (static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) * sizeof(float) + kLine - 1) / kLine *
           kLine;
  }
  template <class E>
  static std::size_t place(OperandTiles<E>& tiles, std::byte* begin, std::size_t at, int rows, int cols) {
    tiles = {begin ? reinterpret_cast<E*>(begin + at) : nullptr, rows, cols};
    return OperandTiles<E>::elements(rows, cols) * sizeof(E);  // whole chunks
  }

  typename D::Memory memory_;
};

}  // namespace tenon
