// The forward pass of every model on every device, one op per line.
#pragma once
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"
#include "tenon/core/kv_prefetch.h"
#include "tenon/core/operand_tiles.h"
#include "tenon/model/alibi.h"
#include "tenon/model/config.h"
#include "tenon/model/low_rank_updates.h"
#include "tenon/model/parts.h"
#include "tenon/model/rotary.h"
#include "tenon/model/traits.h"
#include "tenon/ops/args.h"

namespace tenon {

/// The weights of a decoder as views, for the ops.
template <class W, class H>
using DecoderViews = DecoderParts<W, H, const float*>;

/// The activations of a step between ops. Memory grows to an eighth more than the largest step seen. Operand: the form
/// in which products read activations.
template <DevicePolicy D, class Operand>
class Activations {
 public:
  /// Whether products round activations to their own element.
  static constexpr bool rounds = !std::is_same_v<Operand, MatrixView<float>>;

  MatrixView<float> x, qkv, angles, gate_and_up, hidden;
  Operand normed, attended, inner;

  /// Places the matrices for `rows` rows and `logit_rows` rows of logits. gated: the MLP's first matrix also has
  /// outputs for the gate. angle_width: columns of `angles`; 0 without rotary positions.
  void resize(D& device, const ModelConfig& c, bool gated, int angle_width, int rows, int logit_rows) {
    std::byte* begin = nullptr;
    std::size_t at = 0;  // bytes placed so far
    const auto take = [&](auto& matrix, int count, int width) { at += place(matrix, begin, at, count, width); };
    const auto lay_out = [&] {
      at = 0;
      take(x, rows, c.hidden);
      take(normed, rows, c.hidden);
      take(qkv, rows, c.qkv_width());
      take(angles, rows, angle_width);
      take(attended, rows, c.query_width());
      if (gated) take(gate_and_up, rows, 2 * c.inner);
      if constexpr (!rounds) {
        if (gated) inner = {gate_and_up.data, rows, c.inner, gate_and_up.stride};  // the gate's memory is reused
      }
      if (rounds || !gated) take(inner, rows, c.inner);
      take(hidden, logit_rows, c.hidden);
    };
    lay_out();
    if (at > memory_.bytes()) memory_ = device.allocate(at + at / 8);  // slightly longer prompts need no new memory
    begin = reinterpret_cast<std::byte*>(memory_.data());
    lay_out();
  }

 private:
  static constexpr std::size_t kLine = 128;  // alignment of matrices in bytes

  // Sets the view, which is null while there is no memory. Returns its bytes.
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

/// The batch of the last layer: only rows whose logits are needed, each as a sequence of its own.
struct LastRows {
  std::vector<SequenceRows> sequences;

  /// The batch with rows batch.logit_rows. Valid until the next call.
  BatchView select(const BatchView& batch) {
    sequences.clear();
    int s = 0;
    for (int i = 0; i < batch.logit_count; ++i) {
      const int row = batch.logit_rows[i];
      while (row >= batch.sequences[s].first_row + batch.sequences[s].rows) ++s;
      const SequenceRows& from = batch.sequences[s];
      sequences.push_back({from.seq, i, 1, from.start + row - from.first_row, from.slot, from.prompt, from.adapters});
    }
    return {nullptr, nullptr, sequences.data(), nullptr, batch.logit_count, batch.logit_count, 0, batch.longest};
  }
};

/// Rows of a sequence that are one job of attention, together with `heads_together` heads that share keys. 0 if the
/// device uses no tiles.
template <DevicePolicy D, class Attend>
int tile_rows(int heads_together) {
  if constexpr (requires { Attend::queries_together; })
    return std::max(1, Attend::queries_together / heads_together);
  else if constexpr (requires { D::queries_together; })
    return std::max(1, D::queries_together / heads_together);
  else if constexpr (requires { D::rows_together; })
    return std::max(1, D::rows_together / heads_together);
  else
    return 0;
}

/// The batch in device memory, for the kernels of this step. tile_rows: from tile_rows().
template <DevicePolicy D>
BatchView on_device(D& device, const BatchView& b, int tile_rows) {
  const auto put = [&](const auto* values, int count) {
    return device.put(std::span(values, values ? static_cast<std::size_t>(count) : 0));
  };
  BatchView there = b;
  there.tokens = put(b.tokens, b.rows);
  there.positions = put(b.positions, b.rows);
  there.sequences = put(b.sequences, b.sequence_count);
  there.logit_rows = put(b.logit_rows, b.logit_count);
  if constexpr (requires { D::rows_together; }) {
    static_assert(
        requires { D::length_step; },
        "tenon: this Device says rows_together and no length_step; see docs/policies.md#device");
    const std::vector<RowTile> tiles = row_tiles(b, tile_rows);
    there.tile_rows = tile_rows;
    there.tile_count = static_cast<int>(tiles.size());
    there.tiles = put(tiles.data(), there.tile_count);
    there.longest = (b.longest + D::length_step - 1) / D::length_step * D::length_step;
  }
  return there;
}

/// The state of a decoder between steps, and what it knows in addition to the weights, in format W.
template <class Model, class D, class W>
struct DecoderState {
  explicit DecoderState(const ModelConfig& c) {
    if constexpr (Model::positions == PositionKind::rotary) rotary = RotaryFrequencies(c.rotary, c.head_dim);
    if constexpr (Model::positions == PositionKind::alibi) slopes = alibi_slopes(c.heads);
  }

  Activations<D, typename OperandOf<W>::Result> activations;
  LastRows last_rows;
  LowRankUpdates<D> updates;
  RotaryFrequencies rotary;
  std::vector<float> slopes;  // [heads]; empty: no ALiBi

  /// Prepares the activations for a batch.
  void resize(D& device, const ModelConfig& c, const BatchView& batch) {
    activations.resize(device, c, Model::mlp == MlpKind::gated,
                       Model::positions == PositionKind::rotary ? c.head_dim : 0, batch.rows, batch.logit_count);
  }
};

// host_batch: in the host's memory. Hidden rows [logit_count, hidden], normalised, of batch.logit_rows: what the head
// turns into logits.
template <ModelTraits Model, class Attend, DevicePolicy D, class W, class H, class V, AdapterPolicy P>
MatrixView<const float> forward(D& device, const ModelConfig& c, const BatchView& host_batch,
                                const DecoderViews<W, H>& weights, const V& kv, const P& adapter,
                                DecoderState<Model, D, W>& state) {
  using Operand = typename OperandOf<W>::Result;
  using Input = typename OperandOf<W>::Input;
  constexpr bool gated = Model::mlp == MlpKind::gated;
  state.resize(device, c, host_batch);
  auto& act = state.activations;
  if (host_batch.rows == 0) return act.hidden;
  const int tile = tile_rows<D, Attend>(c.heads / c.kv_heads);
  const BatchView batch = on_device(device, host_batch, tile);
  const bool fewer = batch.logit_count < batch.rows;  // rows whose logits somebody wants
  const BatchView host_last = fewer ? state.last_rows.select(host_batch) : host_batch;
  const BatchView last = fewer ? on_device(device, host_last, tile) : batch;
  const float* slopes = state.slopes.empty() ? nullptr : device.put(std::span<const float>(state.slopes));  // [heads]
  const auto columns = [](MatrixView<float> m, int first, int width) {
    return MatrixView<float>{m.data + first, m.rows, width, m.stride};
  };
  const auto norm = [&]<class Y>(const auto& n, MatrixView<const float> in, const Y& out) {
    if constexpr (Model::norm == NormKind::rms)
      rms_norm(device, RmsNormArgsOf<Y>{in, n.gain, c.norm_epsilon, out});
    else
      layer_norm(device, LayerNormArgsOf<Y>{in, n.gain, n.bias, c.norm_epsilon, out});
  };
  const auto multiply = [&](const auto& args, int layer, Site site) {
    if constexpr (P::adds_at_runtime)
      state.updates.multiply(device, args, layer, site);
    else
      linear(device, args);
  };
  if constexpr (P::adds_at_runtime) state.updates.arrange(device, adapter, host_batch);
  BatchView rows = batch;
  MatrixView<float> x = act.x, gate_and_up = act.gate_and_up;
  Operand normed = act.normed, attended = act.attended, inner = act.inner;
  MatrixView<float> q = columns(act.qkv, 0, c.query_width());
  const MatrixView<float> k = columns(act.qkv, c.query_width(), c.kv_width());
  const MatrixView<float> v = columns(act.qkv, c.query_width() + c.kv_width(), c.kv_width());

  embed(device, EmbedArgs<H>{batch, weights.embedding, weights.position_table, x});
  if (weights.embedding_norm.gain) norm(weights.embedding_norm, x, x);
  if constexpr (Model::positions == PositionKind::rotary) {
    const auto frequencies = state.rotary.of(host_batch);
    const auto count =
        static_cast<std::size_t>(frequencies.stride == 0 ? 1 : batch.rows) * static_cast<std::size_t>(c.head_dim / 2);
    rotary_angles(device, RotaryAnglesArgs{batch, device.put(std::span(frequencies.data, count)), frequencies.stride,
                                           act.angles});
  }
  for (int l = 0; l < c.layers; ++l) {
    const auto& layer = weights.layers[static_cast<std::size_t>(l)];
    // Few sequences may be read in the last layer.
    if constexpr (PrefetchesKv<D>) {
      if (l + 1 < c.layers || !fewer)
        device.will_read(kv_prefetch_hint(host_batch, kv, l, c.kv_heads, c.head_dim, c.window));
    }
    norm(layer.attention_norm, x, normed);
    multiply(LinearArgs<W, Input>{.x = normed, .weight = layer.qkv.weight, .bias = layer.qkv.bias, .y = act.qkv}, l,
             Site::qkv);
    if constexpr (Model::positions == PositionKind::rotary) {
      rotate(device, RotateArgs{act.angles, q, k, c.heads, c.kv_heads, c.head_dim});
    }
    store_kv(device, StoreKvArgs<V>{batch, k, v, kv, l, c.kv_heads, c.head_dim});
    if (l + 1 == c.layers && fewer) {
      // Behind the last layer's keys and values nobody reads the other rows again.
      gather_rows(device, GatherRowsArgs{batch.logit_rows, batch.logit_count, x, q});
      rows = last;
      const auto keep = [&](auto&... all) { ((all.rows = batch.logit_count), ...); };
      keep(x, normed, attended, gate_and_up, inner, q);
      if (batch.logit_count == 0) return act.hidden;
      if constexpr (P::adds_at_runtime) state.updates.arrange(device, adapter, host_last);
    }
    attention(device, Attend{},
              AttentionArgs<V, Operand>{rows, q, kv, l, c.heads, c.kv_heads, c.head_dim, c.score_scale(l), attended,
                                        c.window, slopes});
    multiply(LinearArgs<W, Input>{.x = attended,
                                  .weight = layer.attention_out.weight,
                                  .bias = layer.attention_out.bias,
                                  .residual = x,
                                  .y = x},
             l, Site::attn_out);
    norm(layer.mlp_norm, x, normed);
    if constexpr (gated) {
      multiply(LinearArgs<W, Input>{.x = normed, .weight = layer.up.weight, .bias = layer.up.bias, .y = gate_and_up}, l,
               Site::mlp_up);
      gate(device, GateArgsOf<Operand>{gate_and_up, c.activation, inner});
    } else {
      multiply(
          LinearArgs<W, Input, Operand>{
              .x = normed, .weight = layer.up.weight, .bias = layer.up.bias, .activation = c.activation, .y = inner},
          l, Site::mlp_up);
    }
    multiply(
        LinearArgs<W, Input>{.x = inner, .weight = layer.down.weight, .bias = layer.down.bias, .residual = x, .y = x},
        l, Site::mlp_down);
  }
  norm(weights.final_norm, x, act.hidden);
  return act.hidden;
}

}  // namespace tenon
