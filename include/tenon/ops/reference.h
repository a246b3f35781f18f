// The oracle: every op of args.h in its plainest form, for readers and tests. Sums run in double and are rounded to
// float32 once, at the end. Device ops differ from it by their rounding only.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/attention.h"
#include "tenon/ops/convolve_args.h"

namespace tenon::reference {

template <class W>
void embed(const EmbedArgs<W>& args) {
  for (int r = 0; r < args.batch.rows; ++r) {
    const std::ptrdiff_t position = args.batch.positions[r];
    for (int c = 0; c < args.x.cols; ++c) {
      double sum = args.table.at(token_of(args.batch, r), c);
      if (args.position_table) sum += args.position_table[position * args.x.cols + c];
      args.x.row(r)[c] = static_cast<float>(sum);
    }
  }
}

inline void layer_norm(const LayerNormArgs& args) {
  const int n = args.x.cols;
  for (int r = 0; r < args.x.rows; ++r) {
    const std::vector<double> x(args.x.row(r), args.x.row(r) + n);  // a copy: y may be x
    double mean = 0, variance = 0;
    for (const double value : x) mean += value / n;
    for (const double value : x) variance += (value - mean) * (value - mean) / n;
    const double deviation = std::sqrt(variance + args.epsilon);
    for (int c = 0; c < n; ++c) {
      args.y.row(r)[c] =
          static_cast<float>((x[static_cast<std::size_t>(c)] - mean) / deviation * args.gain[c] + args.bias[c]);
    }
  }
}

inline void rms_norm(const RmsNormArgs& args) {
  const int n = args.x.cols;
  for (int r = 0; r < args.x.rows; ++r) {
    double square = 0;
    for (int c = 0; c < n; ++c) square += static_cast<double>(args.x.row(r)[c]) * args.x.row(r)[c] / n;
    const double root = std::sqrt(square + args.epsilon);
    for (int c = 0; c < n; ++c) args.y.row(r)[c] = static_cast<float>(args.x.row(r)[c] / root * args.gain[c]);
  }
}

inline double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::gelu_new:
      return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::gelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.0));  // erfc: 1 + erf cancels where x is negative
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::quick_gelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::relu2:
      return std::max(x, 0.0) * std::max(x, 0.0);
  }
  return x;
}

template <class W>
void linear(const LinearArgs<W>& args) {
  for (int r = 0; r < args.x.rows; ++r) {
    for (int o = 0; o < args.y.cols; ++o) {
      double sum = 0;
      for (int k = 0; k < args.x.cols; ++k) sum += static_cast<double>(args.weight.at(o, k)) * args.x.row(r)[k];
      const ProductChange change = args.changes ? args.changes[r] : ProductChange{};
      const float* const bias = change.bias ? change.bias : args.bias;
      if (args.delta && args.delta[r]) sum += args.delta[r][o];
      if (change.gain) sum *= change.gain[o];
      if (bias) sum += bias[o];
      sum = activate(sum, args.activation);
      if (args.residual.data) sum += args.residual.row(r)[o];
      args.y.row(r)[o] = static_cast<float>(sum);
    }
  }
}

/// Element i of a factor.
inline double factor_at(const void* factor, FactorType type, std::ptrdiff_t i) {
  if (type == FactorType::float16) return static_cast<float>(static_cast<const float16*>(factor)[i]);
  if (type == FactorType::bfloat16) return static_cast<float>(static_cast<const bfloat16*>(factor)[i]);
  return static_cast<const float*>(factor)[i];
}

/// sums: [outputs of the matrix]
inline void add_update(const LowRank& update, const float* x /* [inputs] */, int inputs, double* sums) {
  for (int i = 0; i < update.rank; ++i) {
    double u = 0;
    for (int k = 0; k < inputs; ++k) u += factor_at(update.a, update.type, std::ptrdiff_t{i} * inputs + k) * x[k];
    for (int o = 0; o < update.outputs; ++o) {
      const int block = o / kFactorBlock * kFactorBlock, width = std::min(kFactorBlock, update.outputs - block);
      const std::ptrdiff_t at = std::ptrdiff_t{block} * update.rank + std::ptrdiff_t{i} * width + o - block;
      sums[update.first_output + o] += factor_at(update.b, update.type, at) * update.scale * u;
    }
  }
}

inline void low_rank(const LowRankArgs& args) {
  std::fill_n(args.deltas, args.x.rows, nullptr);
  for (const AdapterGroup& group : args.groups->groups) {
    const auto updates = group.adapters->at(args.layer, args.site);
    for (int i = group.first; !updates.empty() && i < group.first + group.count; ++i) {
      const int r = args.groups->rows[static_cast<std::size_t>(i)];
      std::vector<double> sums(static_cast<std::size_t>(args.delta.cols), 0.0);
      for (const LowRank& update : updates) add_update(update, args.x.row(r), args.x.cols, sums.data());
      std::transform(sums.begin(), sums.end(), args.delta.row(r), [](double x) { return static_cast<float>(x); });
      args.deltas[r] = args.delta.row(r);
    }
  }
}

inline void gate(const GateArgs& args) {
  const int n = args.y.cols;
  for (int r = 0; r < args.x.rows; ++r) {
    for (int i = 0; i < n; ++i) {
      args.y.row(r)[i] = static_cast<float>(activate(args.x.row(r)[i], args.activation) * args.x.row(r)[n + i]);
    }
  }
}

inline void rotary_angles(const RotaryAnglesArgs& args) {
  const int half = args.angles.cols / 2;
  for (int r = 0; r < args.batch.rows; ++r) {
    for (int i = 0; i < half; ++i) {
      const float angle = static_cast<float>(args.batch.positions[r]) * args.frequencies[r * args.frequency_stride + i];
      args.angles.row(r)[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      args.angles.row(r)[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

inline void rotate(const RotateArgs& args) {
  const int half = args.head_dim / 2;
  const auto turn = [&](MatrixView<float> m, int heads) {
    for (int r = 0; r < m.rows; ++r) {
      for (int i = 0; i < heads * half; ++i) {
        float* pair = m.row(r) + i / half * args.head_dim + i % half;  // elements 0 and half of it
        const double cosine = args.angles.row(r)[i % half], sine = args.angles.row(r)[half + i % half];
        const double x = pair[0], y = pair[half];
        pair[0] = static_cast<float>(x * cosine - y * sine);
        pair[half] = static_cast<float>(y * cosine + x * sine);
      }
    }
  };
  turn(args.q, args.heads);
  turn(args.k, args.kv_heads);
}

/// Stores a row as a cache does, element i at out[i * stride]. Returns its scale.
template <class E>
float round_row(const float* row /* [n] */, int n, E* out, std::ptrdiff_t stride) {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  float largest = 0;
  for (int i = 0; i < n; ++i) largest = std::isfinite(row[i]) ? std::max(largest, std::fabs(row[i])) : nan;
  const float scale = largest / 127 < std::numeric_limits<float>::min() ? 0 : largest / 127;
  for (int i = 0; i < n; ++i) {
    if constexpr (has_scales<E>)
      out[i * stride] = static_cast<E>(scale > 0 ? std::nearbyint(row[i] / scale) : 0);
    else
      out[i * stride] = static_cast<E>(row[i]);
  }
  return scale;
}

template <class V>
void store_kv(const StoreKvArgs<V>& args) {
  using E = typename V::Element;
  const int width = KvShape{.head_dim = args.head_dim}.value_stride();
  for (const SequenceRows* s = args.batch.sequences; s < args.batch.sequences + args.batch.sequence_count; ++s) {
    for (int i = 0; i < s->rows * args.kv_heads; ++i) {
      const int r = i / args.kv_heads, head = i % args.kv_heads, position = s->start + r,
                lane = position % kTilePositions;
      const auto tile = args.kv.tile(args.layer, s->slot, head, position / kTilePositions);
      const std::ptrdiff_t from = std::ptrdiff_t{head} * args.head_dim;
      E* values = tile.values + lane * width;  // [value_stride]
      const float key_scale =
          round_row(args.keys.row(s->first_row + r) + from, args.head_dim, tile.keys + lane, kTilePositions);
      const float value_scale = round_row(args.values.row(s->first_row + r) + from, args.head_dim, values, 1);
      std::fill(values + args.head_dim, values + width, E{});
      if (tile.key_scales) tile.key_scales[lane] = key_scale;
      if (tile.value_scales) tile.value_scales[lane] = value_scale;
    }
  }
}

/// The value of a stored element. scales: [16] of its tile, or null.
template <class E>
double value_of(E element, const float* scales, int lane) {
  return static_cast<double>(static_cast<float>(element)) * (scales ? scales[lane] : 1.0f);
}

/// In float32, as every device: a sum of two floats in double, rounded to float32, is their float32 sum.
template <class V>
void convolve_positions(const ConvolveArgs<V>& args) {
  const int n = args.gates.cols, half = n / 2, width = KvShape{.head_dim = args.head_dim}.value_stride();
  const auto input = [&](int slot, int t, int i) {
    const int d = i % half % args.head_dim, lane = t % kTilePositions;
    const auto tile = args.kv.tile(args.layer, slot, i % half / args.head_dim, t / kTilePositions);
    return i < half ? value_of(tile.keys[d * kTilePositions + lane], tile.key_scales, lane)
                    : value_of(tile.values[lane * width + d], tile.value_scales, lane);
  };
  for (const SequenceRows* s = args.batch.sequences; s < args.batch.sequences + args.batch.sequence_count; ++s) {
    for (int r = 0; r < s->rows * n; ++r) {
      const int row = s->first_row + r / n, position = s->start + r / n, i = r % n;
      float sum = 0;
      const int first = std::max(0, args.taps - 1 - position);
      for (int tap = first; tap < args.taps; ++tap) {
        const double x = static_cast<float>(input(s->slot, position - args.taps + 1 + tap, i));
        const float product = static_cast<float>(args.weights[i * args.taps + tap] * x);
        sum = tap == first ? product : static_cast<float>(static_cast<double>(sum) + static_cast<double>(product));
      }
      if (args.bias) sum = static_cast<float>(static_cast<double>(sum) + static_cast<double>(args.bias[i]));
      args.y.row(row)[i] = args.gates.row(row)[i] * sum;
    }
  }
}

/// Attention of one row and one head at a position of a sequence.
template <class V, class A>
void attend(const AttentionArgs<V>& args, [[maybe_unused]] const A& variant, int slot, int row, int head,
            int position) {
  const int n = args.head_dim, width = KvShape{.head_dim = n}.value_stride(),
            kv_head = head / (args.heads / args.kv_heads);
  const int first = args.window > 0 ? std::max(0, position - args.window + 1) : 0;  // the first position that it sees
  const float* q = args.q.row(row) + std::ptrdiff_t{head} * n;                      // [head_dim]
  std::vector<double> scores, out(static_cast<std::size_t>(n), 0.0);
  for (int t = first; t <= position; ++t) {
    const auto tile = args.kv.tile(args.layer, slot, kv_head, t / kTilePositions);
    const int lane = t % kTilePositions;
    double score = 0;
    for (int d = 0; d < n; ++d) score += q[d] * value_of(tile.keys[d * kTilePositions + lane], tile.key_scales, lane);
    score *= args.scale;
    if constexpr (ScoresKeys<A>) score = variant.score(position, t, head, static_cast<float>(score));
    if (args.slopes) score += static_cast<double>(args.slopes[head]) * (t - position);
    if (args.key_biases) score += static_cast<double>(args.key_biases[head * args.key_bias_stride + t]);
    if constexpr (MasksKeys<A>) {
      if (!variant.mask(position, t)) score = -std::numeric_limits<double>::infinity();
    }
    scores.push_back(score);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  if (std::isinf(largest) && largest < 0)
    return std::fill_n(args.out.row(row) + std::ptrdiff_t{head} * n, n, 0.0f), void();
  double total = args.sinks ? std::exp(static_cast<double>(args.sinks[head]) - largest) : 0;
  for (double& score : scores) total += score = std::exp(score - largest);
  for (int t = first; t <= position; ++t) {
    const auto tile = args.kv.tile(args.layer, slot, kv_head, t / kTilePositions);
    const int lane = t % kTilePositions;
    const double weight = scores[static_cast<std::size_t>(t - first)] / total;
    for (int d = 0; d < n; ++d) {
      out[static_cast<std::size_t>(d)] += weight * value_of(tile.values[lane * width + d], tile.value_scales, lane);
    }
  }
  std::transform(out.begin(), out.end(), args.out.row(row) + std::ptrdiff_t{head} * n,
                 [](double x) { return static_cast<float>(x); });
}

// `variant` is a variant or a tag. Algorithms of all tags agree in double precision.
template <class V, class A = FlashAttention>
void attention(const AttentionArgs<V>& args, const A& variant = {}) {
  for (const SequenceRows* s = args.batch.sequences; s < args.batch.sequences + args.batch.sequence_count; ++s) {
    for (int r = 0; r < s->rows; ++r) {
      for (int head = 0; head < args.heads; ++head)
        attend(args, variant, s->slot, s->first_row + r, head, s->start + r);
    }
  }
}

inline void gather_rows(const GatherRowsArgs& args) {
  for (int i = 0; i < args.count; ++i) {
    for (int c = 0; c < args.x.cols; ++c) args.x.row(i)[c] = args.x.row(args.rows[i])[c];
    for (int c = 0; c < args.q.cols; ++c) args.q.row(i)[c] = args.q.row(args.rows[i])[c];
  }
}

template <class W>
void head(const HeadArgs<W>& args) {
  linear(LinearArgs<W>{.x = args.hidden, .weight = args.weight, .y = args.logits});
}

}  // namespace tenon::reference
