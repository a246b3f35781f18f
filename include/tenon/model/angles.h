// The angles of a step's rows, and the rotation of queries and keys by them.
#pragma once
#include <cstddef>
#include <span>

#include "tenon/core/batch.h"
#include "tenon/model/config.h"
#include "tenon/model/rotary.h"
#include "tenon/ops/args.h"

namespace tenon::detail {

/// Whether a row of the batch may have queries with a factor: ModelConfig::query_scale.
inline bool scales_queries(const ModelConfig& c, const BatchView& batch) {
  return c.query_growth != 0 && batch.longest > c.query_period;
}

/// Writes the angles of a step's rows, and those of the queries where `query_angles` has rows: times query_scale.
/// `host`: the batch in host memory. `rows`: the same in device memory.
template <class D>
void write_angles(D& device, const ModelConfig& c, RotaryFrequencies& rotary, const RotaryConfig& config,
                  const BatchView& host, const BatchView& rows, MatrixView<float> angles,
                  MatrixView<float> query_angles = {}) {
  const auto frequencies = rotary.of(host);
  const std::size_t count = (frequencies.stride == 0 ? 1 : std::size_t(rows.rows)) * std::size_t(c.head_dim / 2);
  const float* const values = device.put(std::span(frequencies.data, count));
  const auto write = [&](int first, int n, float scale, const MatrixView<float>& to) {
    BatchView some = rows;
    some.positions += first;
    some.rows = n;
    rotary_angles(device, RotaryAnglesArgs{some, values + first * frequencies.stride, frequencies.stride,
                                           to.rows_from(first, n), config.angle_scale * scale});
  };
  write(0, rows.rows, 1, angles);
  for (int first = 0; first < query_angles.rows;) {  // runs of rows with one factor
    const float scale = c.query_scale(host.positions[first]);
    int end = first + 1;
    while (end < query_angles.rows && c.query_scale(host.positions[end]) == scale) ++end;
    write(first, end - first, scale, query_angles);
    first = end;
  }
}

/// Rotates queries and keys in place, by the angles among the activations.
template <class D>
void rotate_heads(D& device, const ModelConfig& c, Rotation rotation, const auto& activations,
                  const MatrixView<float>& q, const MatrixView<float>& k) {
  if (rotation == Rotation::none) return;
  const MatrixView<float>& angles = rotation == Rotation::local ? activations.local_angles : activations.angles;
  const MatrixView<float>& query_angles = activations.query_angles;
  if (query_angles.rows == 0 || rotation == Rotation::local)
    return rotate(device, RotateArgs{angles, q, k, c.heads, c.kv_heads, c.head_dim});
  rotate(device, RotateArgs{query_angles, q, k, c.heads, 0, c.head_dim});
  rotate(device, RotateArgs{angles, q, k, 0, c.kv_heads, c.head_dim});
}

}  // namespace tenon::detail
