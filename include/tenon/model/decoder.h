// The forward pass of every model on every device, one op per line.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"
#include "tenon/core/error.h"
#include "tenon/core/kv_prefetch.h"
#include "tenon/core/operand_tiles.h"
#include "tenon/model/activations.h"
#include "tenon/model/add_mixture.h"
#include "tenon/model/alibi.h"
#include "tenon/model/angles.h"
#include "tenon/model/config.h"
#include "tenon/model/device_batch.h"
#include "tenon/model/low_rank_updates.h"
#include "tenon/model/parts.h"
#include "tenon/model/rotary.h"
#include "tenon/ops/args.h"
#include "tenon/ops/change_args.h"
#include "tenon/ops/convolve_args.h"
#include "tenon/ops/gate_rows_args.h"

namespace tenon {

/// The weights of a decoder as views. W: view type of the matrices; H: of the embedding and the head.
template <class W, class H>
using DecoderViews = DecoderParts<W, H, const float*>;

/// Everything that a decoder needs besides its weights and the cache: activations, adapter updates, and constants of
/// the positions. W: view type of the weights.
template <class D, class W>
struct DecoderState {
  explicit DecoderState(const ModelConfig& c);

  Activations<D, typename OperandOf<W>::Result> activations;
  LastRows last_rows;
  LowRankUpdates<D> updates;
  RotaryFrequencies rotary, local_rotary;
  std::vector<float> slopes;      // [heads]; empty: no ALiBi
  std::vector<float> key_biases;  // [heads, positions rounded up to 64]; empty: none

  /// Prepares the activations for a batch.
  void resize(D& device, const ModelConfig& c, const BatchView& batch);
};

// Outside the class they are not inline: extern templates (engine/instances.h) then prevent another instance in each
// unit.
template <class D, class W>
DecoderState<D, W>::DecoderState(const ModelConfig& c) {
  if (c.position_kind == PositionKind::rotary) rotary = RotaryFrequencies(c.rotary, c.head_dim);
  if (c.turns_twice()) local_rotary = RotaryFrequencies(c.local_rotary, c.head_dim);
  if (c.rounded_alibi)
    key_biases = rounded_alibi_biases(c.heads, c.positions, c.score_scale(0));
  else if (c.position_kind == PositionKind::alibi)
    slopes = alibi_slopes(c.heads);
}

template <class D, class W>
void DecoderState<D, W>::resize(D& device, const ModelConfig& c, const BatchView& batch) {
  activations.resize(device, c, batch.rows, batch.logit_count, detail::scales_queries(c, batch) ? batch.rows : 0);
}

/// One step through a model. Its members are the views that the ops share; its functions are the blocks of a layer.
/// Adapts: rows may have adapters. All constructor arguments must outlive it.
template <DevicePolicy D, class W, class V, bool Adapts>
class DecoderPass {
  using Operand = typename OperandOf<W>::Result;
  using Input = typename OperandOf<W>::Input;
  static constexpr bool kReadsFloats = std::is_same_v<Operand, MatrixView<float>>;

 public:
  /// tile_rows: the argument of on_device().
  DecoderPass(D& device, const ModelConfig& config, const BatchView& host_batch, int tile_rows, const V& kv,
              const RowGrouper& group, DecoderState<D, W>& state)
      : device_(device),
        c_(config),
        kv_(kv),
        group_(group),
        state_(state),
        host_batch_(host_batch),
        rows_(on_device(device, host_batch, tile_rows)),
        x_(state.activations.x),
        branch_(state.activations.branch),
        gate_and_up_(state.activations.gate_and_up),
        q_(columns(0, config.query_width())),
        k_(columns(config.query_width(), config.kv_width())),
        v_(columns(config.query_width() + config.kv_width(), config.kv_width())),
        normed_(state.activations.normed),
        attended_(state.activations.attended),
        inner_(state.activations.inner) {
    host_last_ = drops_rows() ? state.last_rows.select(host_batch) : host_batch;
    last_ = drops_rows() ? on_device(device, host_last_, tile_rows) : rows_;
    if (!state.slopes.empty()) slopes_ = device.put(std::span<const float>(state.slopes));
    if (!state.key_biases.empty()) key_biases_ = device.put(std::span<const float>(state.key_biases));
    if constexpr (Adapts) state.updates.arrange(device, group, host_batch);
  }

  /// Writes the embeddings of the step's tokens to x: with learned positions and the embedding norm, if the model has
  /// them. Computes the angles of rotary positions.
  template <class H>
  void embed_tokens(const DecoderViews<W, H>& weights) {
    if (c_.embedding_width > 0)
      embed_projected(weights);
    else
      embed_rows(EmbedArgs<H>{rows_, weights.embedding, weights.position_table, x_, c_.embedding_scale});
    if (weights.embedding_norm.gain) norm(weights.embedding_norm, 0, NormSite::embedding, x_, x_);
    auto& activations = state_.activations;
    if (c_.position_kind == PositionKind::rotary)
      detail::write_angles(device_, c_, state_.rotary, c_.rotary, host_batch_, rows_, activations.angles,
                           activations.query_angles);
    if (c_.turns_twice())
      detail::write_angles(device_, c_, state_.local_rotary, c_.local_rotary, host_batch_, rows_,
                           activations.local_angles);
  }

  /// Queries, keys and values of layer `l`. Keys and values go into the cache.
  void project_qkv(const auto& layer, int l) {
    if constexpr (PrefetchesKv<D>) {  // not in a layer that drops rows: its attention may read few sequences
      if (l + 1 < c_.layers || !drops_rows())
        device_.will_read(kv_prefetch_hint(host_batch_, kv_, l, c_.kv_heads, c_.head_dim, c_.window_of(l)));
    }
    multiply(LinearArgs<W, Input>{.x = normed(layer.attention_norm, l, NormSite::attention),
                                  .weight = layer.qkv.weight,
                                  .bias = layer.qkv.bias,
                                  .y = columns(0, c_.qkv_width())},
             l, Site::qkv);
    if (!c_.norms_after_rotation) norm_queries_and_keys(layer, l);
    if (c_.qkv_bound > 0) clamp(device_, ClampArgs{state_.activations.qkv, c_.qkv_bound});
    detail::rotate_heads(device_, c_, c_.rotation_of(l), state_.activations, q_, k_);
    if (c_.norms_after_rotation) norm_queries_and_keys(layer, l);
    store_kv(device_, StoreKvArgs<V>{rows_, k_, v_, kv_, l, c_.kv_heads, c_.head_dim});
  }

  /// Gates and inputs of the short convolution of layer `l`. The gates go to the columns of queries. The inputs go into
  /// the cache, half as keys and half as values.
  void project_convolved(const auto& layer, int l) {
    const int n = c_.hidden;
    multiply(LinearArgs<W, Input>{.x = normed(layer.attention_norm, l, NormSite::attention),
                                  .weight = layer.qkv.weight,
                                  .bias = layer.qkv.bias,
                                  .y = columns(0, 3 * n)},
             l, Site::qkv);
    if constexpr (kReadsFloats) gate(device_, GateArgs{columns(n, 2 * n), Activation::none, columns(n, n)});
    store_kv(device_,
             StoreKvArgs<V>{rows_, columns(n, n / 2), columns(n + n / 2, n / 2), kv_, l, c_.conv_heads(), c_.head_dim});
  }

  /// The short convolution of layer `l`, times its gates.
  void convolve(const auto& layer, int l) {
    if constexpr (kReadsFloats && ConvolvesPositions<D>)
      convolve_positions(device_, ConvolveArgs<V>{rows_, q_, kv_, l, c_.conv_heads(), c_.head_dim, c_.conv_taps,
                                                  layer.conv_weight, layer.conv_bias, attended_});
  }

  /// Whether the step has rows without logits. After the last layer's keys and values are stored, no op reads them.
  bool drops_rows() const { return host_batch_.logit_count < host_batch_.rows; }
  /// Keeps only the rows with logits, for the rest of the last layer. Call it after the layer's project_qkv().
  void drop_rows() {
    const int count = rows_.logit_count;
    gather_rows(device_, GatherRowsArgs{rows_.logit_rows, count, x_, q_});
    rows_ = last_;
    const auto keep = [&](auto&... all) { ((all.rows = count), ...); };
    keep(x_, branch_, normed_, attended_, gate_and_up_, inner_, q_);
    if constexpr (Adapts) {
      if (count > 0) state_.updates.arrange(device_, group_, host_last_);
    }
  }

  /// Attention of layer `l` over the cache.
  template <class Attend>
  void attend(const Attend& policy, const auto& layer, int l) {
    const auto positions = static_cast<std::ptrdiff_t>(state_.key_biases.size()) / c_.heads;
    attention(device_, policy,
              AttentionArgs<V, Operand>{rows_, q_, kv_, l, c_.heads, c_.kv_heads, c_.head_dim, c_.score_scale(l),
                                        attended_, c_.window_of(l), slopes_, c_.attention_soft_cap, key_biases_,
                                        positions, layer.sinks});
  }

  /// The output matrix of attention: x += W attended + bias, or its norm, times ModelConfig::residual_scale.
  void add_attention(const auto& layer, int l) {
    multiply_and_add(layer.attention_out, attended_, layer.attention_out_norm, NormSite::attention_out, l,
                     Site::attn_out);
    if (layer.after_attention_norm.gain) norm(layer.after_attention_norm, l, NormSite::after_attention, x_, x_);
  }

  /// The MLP of layer `l` up to its last product, from the norm of x as it is now.
  void mlp_inner(const auto& layer, int l) {
    const bool shares_norm = c_.parallel_residual && !layer.mlp_norm.gain;
    // The shared norm is in normed_ already, unless the last layer has dropped rows since.
    const bool is_normed = shares_norm && (l + 1 < c_.layers || !drops_rows());
    const Operand& input = is_normed     ? normed_
                           : shares_norm ? normed(layer.attention_norm, l, NormSite::attention)
                                         : normed(layer.mlp_norm, l, NormSite::mlp);
    if (c_.mlp_kind == MlpKind::gated) {
      multiply(LinearArgs<W, Input>{.x = input, .weight = layer.up.weight, .bias = layer.up.bias, .y = gate_and_up_}, l,
               Site::mlp_up);
      gate(device_, GateArgsOf<Operand>{gate_and_up_, c_.activation, inner_});
    } else {
      multiply(
          LinearArgs<W, Input, Operand>{
              .x = input, .weight = layer.up.weight, .bias = layer.up.bias, .activation = c_.activation, .y = inner_},
          l, Site::mlp_up);
    }
  }

  /// The last product of the MLP: x += W inner + bias, or its norm, times ModelConfig::residual_scale.
  void add_mlp(const auto& layer, int l) {
    multiply_and_add(layer.down, inner_, layer.mlp_out_norm, NormSite::mlp_out, l, Site::mlp_down);
    if (layer.after_mlp_norm.gain) norm(layer.after_mlp_norm, l, NormSite::after_mlp, x_, x_);
  }

  /// x += the shared expert of layer `l`, if it has one, and the mixture of its experts, each times
  /// ModelConfig::residual_scale.
  void add_mixture(const auto& layer, [[maybe_unused]] int l) {
    if constexpr (kReadsFloats && MixesExperts<D, W>) {
      const MatrixView<float> input = normed(layer.mlp_norm, l, NormSite::mlp);
      if (c_.shared_inner > 0) add_shared(layer, input, l);
      detail::add_mixture(device_,
                          MixtureArgs<W>{input, layer.router, layer.router_bias, layer.experts, layer.expert_table,
                                         c_.experts_chosen, c_.router_kind, c_.expert_gate, &state_.activations.experts,
                                         x_, layer.choice_bias, c_.router_scale, c_.router_epsilon},
                          branch_, c_.residual_scale);
    }
  }

  /// The rows that the head reads: the final norm of x, projected to the width of the embedding if it has its own.
  template <class H>
  MatrixView<const float> head_rows(const DecoderViews<W, H>& weights) {
    MatrixView<const float> rows = x_;
    if (weights.final_norm.gain) {
      norm(weights.final_norm, 0, NormSite::final_norm, x_, state_.activations.hidden);
      rows = state_.activations.hidden;
    }
    if constexpr (kReadsFloats) {
      if (c_.embedding_width > 0) {
        const auto& out = weights.embedding_out;
        multiply(LinearArgs<W>{.x = rows, .weight = out.weight, .bias = out.bias, .y = state_.activations.projected}, 0,
                 Site::embedding_out);
        rows = state_.activations.projected;
      }
    }
    return rows;
  }

 private:
  // x += the MLP beside the experts, times the sigmoid of its gate. The memory of the experts holds its output.
  void add_shared(const auto& layer, const MatrixView<float>& input, int l) {
    const auto first_columns = [&](int width) {
      return MatrixView<float>{gate_and_up_.data, gate_and_up_.rows, width, gate_and_up_.stride};
    };
    const MatrixView<float> both = first_columns(2 * c_.shared_inner), inner = first_columns(c_.shared_inner);
    const MatrixView<float> out = state_.activations.experts.out.rows_from(0, x_.rows);
    multiply(LinearArgs<W>{.x = input, .weight = layer.up.weight, .bias = layer.up.bias, .y = both}, l, Site::mlp_up);
    gate(device_, GateArgs{both, c_.activation, inner});
    multiply(LinearArgs<W>{.x = inner, .weight = layer.down.weight, .bias = layer.down.bias, .y = out}, l,
             Site::mlp_down);
    if constexpr (GatesRows<D>) {
      if (layer.shared_gate) gate_rows(device_, GateRowsArgs{input, layer.shared_gate, out});
    }
    add(device_, AddArgs{out, c_.residual_scale, x_});
  }

  // The embeddings of the step's tokens, each as its adapter has it.
  template <class H>
  void embed_rows(const EmbedArgs<H>& args) {
    embed(device_, args);
    if constexpr (Adapts && ChangesProducts<D>) state_.updates.apply_to_embeddings(device_, args);
  }

  // The embedding, projected to the width of x, plus the positions.
  template <class H>
  void embed_projected(const DecoderViews<W, H>& weights) {
    if constexpr (kReadsFloats && AddsPositions<D>) {
      const MatrixView<float>& embedded = state_.activations.embedded;
      embed_rows(EmbedArgs<H>{rows_, weights.embedding, nullptr, embedded, c_.embedding_scale});
      const auto& in = weights.embedding_in;
      multiply(LinearArgs<W>{.x = embedded, .weight = in.weight, .bias = in.bias, .y = x_}, 0, Site::embedding_in);
      if (weights.position_table) add_positions(device_, AddPositionsArgs{rows_, weights.position_table, x_});
    }
  }

  // Calls body(first, count, gain, bias) for runs of rows with one norm: the model's `n`, or an adapter's in its place.
  // Y: what the norm writes.
  template <class Y, class Body>
  void for_norms(const auto& n, int l, NormSite site, int rows, Body&& body) {
    if constexpr (Adapts && ChangesProducts<D> && std::is_same_v<Y, MatrixView<float>>) {
      state_.updates.for_norm_runs(rows, l, site, [&](int first, int count, const NormChange& own) {
        body(first, count, own.gain ? own.gain : n.gain, own.bias ? own.bias : n.bias);
      });
    } else {
      body(0, rows, n.gain, n.bias);
    }
  }

  template <class Y>
  void norm(const auto& n, int l, NormSite site, MatrixView<const float> x, const Y& out) {
    for_norms<Y>(n, l, site, x.rows, [&](int first, int count, const float* gain, const float* bias) {
      const MatrixView<const float> from = x.rows_from(first, count);
      Y to = out;
      if constexpr (std::is_same_v<Y, MatrixView<float>>) to = out.rows_from(first, count);
      if (c_.norm_kind == NormKind::rms)
        rms_norm(device_, RmsNormArgsOf<Y>{from, gain, c_.norm_epsilon, to});
      else
        layer_norm(device_, LayerNormArgsOf<Y>{from, gain, bias, c_.norm_epsilon, to});
    });
  }

  // The norm of x, or x itself where a family has none there.
  const Operand& normed(const auto& n, int l, NormSite site) {
    if (n.gain) return norm(n, l, site, x_, normed_), normed_;
    if constexpr (kReadsFloats) return x_;
    return normed_;  // check_runs() has refused it
  }

  // Norms of heads, or of all heads together where the family's gain is one vector for all of them.
  void norm_heads(const auto& n, int l, NormSite site, MatrixView<float> x, int heads) {
    if (!n.gain) return;
    const int together = c_.norms_all_heads ? heads : 1;
    for_norms<MatrixView<float>>(n, l, site, x.rows, [&](int first, int count, const float* gain, const float* bias) {
      head_norm(device_, HeadNormArgs{x.rows_from(first, count), gain, bias, c_.norm_epsilon, heads / together,
                                      c_.head_dim * together});
    });
  }

  void norm_queries_and_keys(const auto& layer, int l) {
    norm_heads(layer.query_norm, l, NormSite::query, q_, c_.heads);
    norm_heads(layer.key_norm, l, NormSite::key, k_, c_.kv_heads);
  }

  MatrixView<float> columns(int first, int width) const {
    const MatrixView<float>& qkv = state_.activations.qkv;
    return {qkv.data + first, qkv.rows, width, qkv.stride};
  }

  void multiply(const auto& args, int l, Site site) {
    if constexpr (Adapts)
      state_.updates.multiply(device_, args, l, site);
    else
      linear(device_, args);
  }
  // x += W in + bias, for each row.
  void multiply_and_add(const auto& matrix, const Operand& in, const auto& n, NormSite norm_site, int l, Site site) {
    if (branch_.cols > 0) {
      multiply(LinearArgs<W, Input>{.x = in, .weight = matrix.weight, .bias = matrix.bias, .y = branch_}, l, site);
      if (n.gain) norm(n, l, norm_site, branch_, branch_);
      return add(device_, AddArgs{branch_, c_.residual_scale, x_});
    }
    multiply(LinearArgs<W, Input>{.x = in, .weight = matrix.weight, .bias = matrix.bias, .residual = x_, .y = x_}, l,
             site);
  }

  D& device_;
  const ModelConfig& c_;
  const V& kv_;
  const RowGrouper& group_;
  DecoderState<D, W>& state_;
  const BatchView host_batch_;
  BatchView rows_, host_last_, last_;  // rows_: of the step; in the last layer those of last_
  const float* slopes_ = nullptr;      // [heads]
  const float* key_biases_ = nullptr;  // [heads, positions rounded up to 64]
  MatrixView<float> x_, branch_, gate_and_up_, q_;
  const MatrixView<float> k_, v_;
  Operand normed_, attended_, inner_;
};

/// Refuses a family that the device or the weight format lacks an op for. Error unsupported that names both.
template <class Attend, DevicePolicy D, class W>
void check_runs(const DecoderSpec& spec, const ModelConfig& c) {
  using Operand = typename OperandOf<W>::Result;
  constexpr bool reads_floats = std::is_same_v<Operand, MatrixView<float>>;
  const auto refuse = [&](const char* what) {
    throw Error(
        Error::Kind::unsupported, "config.json: model_type",
        c.model_type + " " + what + ", which this device or weight format lacks; use a CPU with another format");
  };
  const auto lacks_norm = [](const DecoderSpec::Layer& l) { return l.attention_norm.gain.none(); };
  if (!reads_floats && std::any_of(spec.layers.begin(), spec.layers.end(), lacks_norm))
    refuse("has products of rows without a norm before");
  if (c.experts > 0 && !(reads_floats && MixesExperts<D, W>)) refuse("mixes experts");
  const bool newer = c.router_kind >= RouterKind::sigmoid || c.choice_bias || c.router_scale != 1;
  if (!GatesRows<D> && c.experts > 0 && (newer || c.shared_inner > 0))
    refuse("has a shared expert, or a router with sigmoids, a factor or a bias for the choice alone");
  if (!c.conv_layers.empty() && !(reads_floats && ConvolvesPositions<D>)) refuse("has short convolutions");
  if (c.embedding_width > 0 && !(reads_floats && AddsPositions<D>)) refuse("projects its embeddings");
  const auto has_sinks = [](const DecoderSpec::Layer& l) { return !l.sinks.none(); };
  const bool biased = c.rounded_alibi || std::any_of(spec.layers.begin(), spec.layers.end(), has_sinks);
  if (biased && OnTensorCores<Attend>)
    throw Error(
        Error::Kind::unsupported, "config.json: model_type",
        c.model_type + " has sinks or rounded biases, which attention on tensor cores lacks; use FlashAttention");
}

namespace detail {

// The body of forward(). Adapts: AdapterPolicy::adds_at_runtime; where false, `group` is not called.
template <bool Adapts, class Attend, DevicePolicy D, class W, class H, class V>
MatrixView<const float> run_decoder(D& device, const ModelConfig& c, const BatchView& host_batch,
                                    const DecoderViews<W, H>& weights, const V& kv, const RowGrouper& group,
                                    const Attend& attend, DecoderState<D, W>& state) {
  state.resize(device, c, host_batch);
  const MatrixView<float> none = c.embedding_width > 0 ? state.activations.projected : state.activations.hidden;
  if (host_batch.rows == 0) return none;
  DecoderPass<D, W, V, Adapts> pass(device, c, host_batch, tile_rows<D, Attend>(c.heads / c.kv_heads), kv, group,
                                    state);
  pass.embed_tokens(weights);
  for (int l = 0; l < c.layers; ++l) {
    const auto& layer = weights.layers[static_cast<std::size_t>(l)];
    const bool convolves = c.is_convolution(l);
    convolves ? pass.project_convolved(layer, l) : pass.project_qkv(layer, l);
    if (l + 1 == c.layers && pass.drops_rows()) {
      pass.drop_rows();
      if (host_batch.logit_count == 0) return none;
    }
    convolves ? pass.convolve(layer, l) : pass.attend(attend, layer, l);
    if (c.parallel_residual) pass.mlp_inner(layer, l);
    pass.add_attention(layer, l);
    if (c.is_mixture(l)) {
      pass.add_mixture(layer, l);
      continue;
    }
    if (!c.parallel_residual) pass.mlp_inner(layer, l);
    pass.add_mlp(layer, l);
  }
  return pass.head_rows(weights);
}

}  // namespace detail

/// Runs one step of a model on any device. host_batch: in the host's memory. Returns the normalised hidden rows of
/// batch.logit_rows, [logit_count, ModelConfig::head_width()], which the head turns into logits.
template <class Attend, DevicePolicy D, class W, class H, class V, AdapterPolicy P>
MatrixView<const float> forward(D& device, const ModelConfig& c, const BatchView& host_batch,
                                const DecoderViews<W, H>& weights, const V& kv, const P& adapter, const Attend& attend,
                                DecoderState<D, W>& state) {
  return detail::run_decoder<P::adds_at_runtime>(device, c, host_batch, weights, kv, row_grouper(adapter), attend,
                                                 state);
}

}  // namespace tenon
