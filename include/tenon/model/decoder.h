// The forward pass of every model on every device, one verb a line.
#pragma once
#include <span>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"
#include "tenon/model/config.h"
#include "tenon/model/parts.h"
#include "tenon/model/traits.h"
#include "tenon/ops/args.h"

namespace tenon {

template <class W, class H>
using DecoderViews = DecoderParts<W, H, const float*>;

// The rows of a step between ops. Grows to the largest step seen.
template <DevicePolicy D>
class Activations {
 public:
  MatrixView<float> x, normed, qkv, attended, inner, hidden;

  void resize(D& device, const ModelConfig& c, int rows, int logit_rows) {
    const auto floats = static_cast<std::size_t>(rows) *
                            static_cast<std::size_t>(2 * c.hidden + c.qkv_width() + c.query_width() + c.inner) +
                        static_cast<std::size_t>(logit_rows) * static_cast<std::size_t>(c.hidden);
    if (floats * sizeof(float) > memory_.bytes()) memory_ = device.allocate(floats * sizeof(float));
    float* next = reinterpret_cast<float*>(memory_.data());
    const auto take = [&](int count, int width) {
      MatrixView<float> view{next, count, width, width};
      next += static_cast<std::ptrdiff_t>(count) * width;
      return view;
    };
    x = take(rows, c.hidden);
    normed = take(rows, c.hidden);
    qkv = take(rows, c.qkv_width());
    attended = take(rows, c.query_width());
    inner = take(rows, c.inner);
    hidden = take(logit_rows, c.hidden);
  }

 private:
  typename D::Memory memory_;
};

// The batch as the last layer sees it: only rows whose logits are wanted, each attending on its own.
struct LastRows {
  std::vector<SequenceRows> sequences;

  BatchView select(const BatchView& batch) {
    sequences.clear();
    int s = 0;
    for (int i = 0; i < batch.logit_count; ++i) {
      const int row = batch.logit_rows[i];
      while (row >= batch.sequences[s].first_row + batch.sequences[s].rows) ++s;
      const SequenceRows& from = batch.sequences[s];
      sequences.push_back({from.seq, i, 1, from.start + row - from.first_row, from.slot});
    }
    return {nullptr, nullptr, sequences.data(), nullptr, batch.logit_count, batch.logit_count, 0};
  }
};

// Hidden rows [logit_count, hidden], normalised, of batch.logit_rows: what the head turns into logits.
template <ModelTraits Model, class Attend, DevicePolicy D, class W, class H, class V>
MatrixView<const float> forward(D& device, const ModelConfig& c, const BatchView& batch, const DecoderViews<W, H>& weights,
                                const V& kv, Activations<D>& act, LastRows& last_rows) {
  static_assert(Model::norm == NormKind::layer && Model::positions == PositionKind::learned && Model::mlp == MlpKind::plain,
                "tenon: this version runs models with layer norms, learned positions and a plain MLP (Gpt2)");
  act.resize(device, c, batch.rows, batch.logit_count);
  if (batch.rows == 0) return act.hidden;
  const auto columns = [](MatrixView<float> m, int first, int width) {
    return MatrixView<float>{m.data + first, m.rows, width, m.stride};
  };
  const auto norm = [&](const auto& n, MatrixView<const float> x, MatrixView<float> y) {
    layer_norm(device, LayerNormArgs{x, n.gain, n.bias, c.norm_epsilon, y});
  };
  BatchView rows = batch;
  MatrixView<float> x = act.x, normed = act.normed, attended = act.attended, inner = act.inner;
  MatrixView<float> q = columns(act.qkv, 0, c.query_width());
  const MatrixView<float> k = columns(act.qkv, c.query_width(), c.kv_width());
  const MatrixView<float> v = columns(act.qkv, c.query_width() + c.kv_width(), c.kv_width());

  embed(device, EmbedArgs<H>{batch, weights.embedding, weights.position_table, x});
  for (int l = 0; l < c.layers; ++l) {
    const auto& layer = weights.layers[static_cast<std::size_t>(l)];
    norm(layer.attention_norm, x, normed);
    linear(device, LinearArgs<W>{.x = normed, .weight = layer.qkv.weight, .bias = layer.qkv.bias, .y = act.qkv});
    store_kv(device, StoreKvArgs<V>{batch, k, v, kv, l, c.kv_heads, c.head_dim});
    if (l + 1 == c.layers && batch.logit_count < batch.rows) {
      // Behind the last layer's keys and values nobody reads the other rows again.
      gather_rows(device, GatherRowsArgs{batch.logit_rows, batch.logit_count, x, q});
      rows = last_rows.select(batch);
      for (auto* m : {&x, &normed, &attended, &inner, &q}) m->rows = batch.logit_count;
      if (batch.logit_count == 0) return act.hidden;
    }
    attention(device, Attend{}, AttentionArgs<V>{rows, q, kv, l, c.heads, c.kv_heads, c.head_dim, c.score_scale(l), attended});
    linear(device, LinearArgs<W>{.x = attended, .weight = layer.attention_out.weight, .bias = layer.attention_out.bias,
                                 .residual = x, .y = x});
    norm(layer.mlp_norm, x, normed);
    linear(device, LinearArgs<W>{.x = normed, .weight = layer.up.weight, .bias = layer.up.bias,
                                 .activation = c.activation, .y = inner});
    linear(device, LinearArgs<W>{.x = inner, .weight = layer.down.weight, .bias = layer.down.bias, .residual = x, .y = x});
  }
  norm(weights.final_norm, x, act.hidden);
  return act.hidden;
}

}  // namespace tenon
