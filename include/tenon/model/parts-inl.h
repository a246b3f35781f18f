#pragma once
#include <algorithm>

#include "tenon/core/require.h"
#include "tenon/model/parts.h"

namespace tenon {

TENON_INLINE TensorPart::Run TensorPart::run(int row, int most) const {
  const int at = block == 0 ? first + row : first + row / block * stride + row % block;
  const int each = stored_rows() / stacked;  // rows of one stacked matrix
  return {at, std::min({most, block == 0 ? most : block - row % block, each - at % each})};
}

TENON_INLINE DecoderSpec::Norm layer_norm_spec(const std::string& name, int n) {
  return {vector_spec(name + ".weight", n), vector_spec(name + ".bias", n)};
}

TENON_INLINE DecoderSpec::Norm rms_norm_spec(const std::string& name, int n) {
  return {vector_spec(name + ".weight", n), {}};
}

TENON_INLINE DecoderSpec::Norm biasless_norm_spec(const std::string& name, int n) {
  return {vector_spec(name + ".weight", n), {.shape = {n, 1}, .parts = {}, .fill = 0.0f}};
}

TENON_INLINE DecoderSpec::Norm plain_norm_spec(int n) {
  return {{.shape = {n, 1}, .parts = {}, .fill = 1.0f}, {.shape = {n, 1}, .parts = {}, .fill = 0.0f}};
}

TENON_INLINE DecoderSpec::Linear linear_spec(const std::string& name, Shape shape, bool bias) {
  return {matrix_spec(name + ".weight", shape), bias ? vector_spec(name + ".bias", shape.rows) : VectorSpec{}};
}

TENON_INLINE DecoderSpec::Linear stacked_spec(const std::vector<std::pair<std::string, int>>& names, int inputs,
                                              bool bias) {
  DecoderSpec::Linear out{{{0, inputs}, {}}, {{0, 1}, {}}};
  for (const auto& [name, rows] : names) {
    out.weight.shape.rows += rows;
    out.weight.parts.push_back({name + ".weight", rows});
    if (!bias) continue;
    out.bias.shape.rows += rows;
    out.bias.parts.push_back({name + ".bias", rows});
  }
  return out;
}

TENON_INLINE DecoderSpec::Linear interleaved_qkv_spec(const std::string& name, int heads, int head_dim, int inputs,
                                                      bool bias) {
  const int outputs = 3 * heads * head_dim;
  DecoderSpec::Linear out = linear_spec(name, {outputs, inputs}, bias);
  const auto in_order = [&](std::vector<TensorPart>& parts) {
    if (parts.empty()) return;
    const std::string tensor = parts.front().name;
    parts.clear();
    for (int which = 0; which < 3; ++which) {
      parts.push_back({tensor, heads * head_dim, false, which * head_dim, head_dim, 3 * head_dim, outputs});
    }
  };
  in_order(out.weight.parts);
  in_order(out.bias.parts);
  return out;
}

TENON_INLINE void visit_parts(const DecoderSpec& spec, bool tied_head, const PartVisitor& visitor) {
  struct Nothing {};
  map_parts<Nothing, Nothing, Nothing>(
      spec, tied_head, [&](const MatrixSpec& m) { return visitor.matrix(m), Nothing(); },
      [&](const MatrixSpec& m) { return visitor.head(m), Nothing(); },
      [&](const VectorSpec& v) { return visitor.vector(v), Nothing(); });
}

}  // namespace tenon
