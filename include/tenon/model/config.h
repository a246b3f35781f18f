// The sizes and switches of a model, which its family reads from config.json.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/model/rotary.h"
#include "tenon/ops/args.h"

namespace tenon {

enum class NormKind { layer, rms };
enum class PositionKind { learned, rotary, alibi };
enum class MlpKind { plain, gated };
/// The rotation of a layer: none, by ModelConfig::rotary, or by ModelConfig::local_rotary.
enum class Rotation : std::uint8_t { none, global, local };

/// The sizes and switches of a model.
struct ModelConfig {
  std::string model_type;
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int inner = 0;                        ///< width of the MLP
  int expert_inner = 0;                 ///< width of an expert's MLP, in a mixture
  int experts = 0, experts_chosen = 0;  ///< in a mixture layer, and number that a token uses; 0: no mixture
  int shared_inner = 0;                 ///< width of the MLP beside the experts, which every token uses; 0: none
  int embedding_width = 0;              ///< of embedding and head; 0: `hidden`
  int vocab = 0;
  int positions = 0;       ///< tokens of the longest sequence
  int most_positions = 0;  ///< EngineOptions::positions may not be above it; 0: no limit
  int window = 0;          ///< number of positions that a token attends to, including its own; 0: all of them
  float norm_epsilon = 0;
  NormKind norm_kind = NormKind::layer;  ///< layer: gain and bias; rms: gain alone
  PositionKind position_kind = PositionKind::learned;
  MlpKind mlp_kind = MlpKind::plain;  ///< gated: activation(gate) x up
  Activation activation = Activation::gelu_new;
  RotaryConfig rotary;             ///< read if position_kind is rotary
  RotaryConfig local_rotary;       ///< the second rotation of families that have one, see rotations
  bool attention_bias = false;     ///< all linears of attention have a bias; read if the family makes it optional
  bool mlp_bias = false;           ///< all linears of the MLP have a bias; read if the family makes it optional
  bool parallel_residual = false;  ///< x + attention(norm x) + mlp(norm x), not one after the other
  bool norms_all_heads = false;    ///< a norm of queries or keys is over all heads, not over each
  bool output_norms = false;       ///< outputs of attention and MLP are normalised before they are added to x
  bool norms_after = false;        ///< x is normalised after attention and MLP are added to it; read by OPT
  bool final_norm = true;          ///< read by OPT
  float embedding_scale = 1;       ///< factor of a token's embedding
  float residual_scale = 1;        ///< factor of what attention and MLP add to x
  float logit_soft_cap = 0;        ///< logits become cap tanh(logit / cap); 0: they stay
  float attention_soft_cap = 0;    ///< the same for scores
  float qkv_bound = 0;             ///< queries, keys and values are clamped to [-qkv_bound, qkv_bound]; 0: they stay
  float logit_scale = 1;           ///< factor of the logits; folded into the final norm's gain
  float attention_scale = 0;       ///< factor of the scores; 0: scale_scores decides
  float query_growth = 0;          ///< queries are multiplied with query_scale(position); 0: they stay
  int query_period = 0;            ///< number of positions that share a query_scale; 1 or more with query_growth
  RouterKind router_kind = RouterKind::normalised;
  float router_scale = 1, router_epsilon = 0;  ///< MixtureArgs::scale and epsilon
  bool choice_bias = false;                    ///< routers have a bias for the choice alone
  ExpertGate expert_gate;
  bool rounded_alibi = false;          ///< ALiBi as Falcon computes it: slope * position of the key, in bfloat16
  std::vector<bool> dense_layers;      ///< [layers], which layers of a mixture have no experts; empty: none
  std::vector<int> windows;            ///< [layers]; empty: `window` in every layer
  std::vector<Rotation> rotations;     ///< [layers]; empty: Rotation::global in every layer
  std::vector<bool> conv_layers;       ///< [layers], which have a short convolution, no attention; empty: none
  int conv_taps = 0;                   ///< positions that a short convolution reads, its own included
  bool conv_bias = false;              ///< short convolutions and their matrices have a bias
  bool shared_norm = false;            ///< attention and MLP read one norm; read by Falcon
  bool norms_after_rotation = false;   ///< norms of queries and keys come after the rotation, not before it
  bool head_norms = false;             ///< norms of queries and keys; read if the family makes them optional
  bool qkv_bias = false;               ///< queries, keys and values have a bias, and the output matrix has none
  bool grouped_qkv = false;            ///< queries, keys and values are stored group by group; read by Falcon
  bool interleaved_qkv = false;        ///< queries, keys and values are stored head by head; read by GPTBigCode
  bool tied_head = true;               ///< the head is the embedding matrix
  bool scale_scores = true;            ///< scores are scaled by 1 / sqrt(head_dim)
  bool scale_scores_by_layer = false;  ///< and by 1 / (layer + 1)
  /// false: the checkpoint has no language head. It classifies or embeds, and tied_head is true.
  bool language_head = true;
  std::vector<std::string> labels;  ///< names of the classes of a classification head; empty: it has none
  bool independent_labels = false;  ///< each class is its own yes or no (multi_label_classification)
  std::optional<TokenId> pad;       ///< padding: a classification head skips it at the end of a prompt
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;                      ///< each of these tokens ends an answer
  std::vector<std::string> dropped_tokens = {};  ///< ids outside the vocabulary: SpecialTokens::dropped

  /// Widths of a token's queries, keys (or values), and all three, in elements.
  int query_width() const { return heads * head_dim; }
  int kv_width() const { return kv_heads * head_dim; }
  int qkv_width() const { return query_width() + 2 * kv_width(); }
  /// Heads of the cache that hold the input of a short convolution: half of it in keys, half in values.
  int conv_heads() const { return hidden / head_dim / 2; }
  KvShape kv() const {
    const int heads_kept = conv_layers.empty() ? kv_heads : std::max(kv_heads, conv_heads());
    return {layers, heads_kept, head_dim, positions, window};
  }

  /// Whether layer `layer` is a mixture of experts.
  bool is_mixture(int layer) const {
    return experts > 0 && (dense_layers.empty() || !dense_layers[static_cast<std::size_t>(layer)]);
  }
  /// Whether layer `layer` has a short convolution in place of attention.
  bool is_convolution(int layer) const { return !conv_layers.empty() && conv_layers[static_cast<std::size_t>(layer)]; }
  int head_width() const { return embedding_width > 0 ? embedding_width : hidden; }
  /// Whether some layers rotate by local_rotary.
  bool turns_twice() const { return std::find(rotations.begin(), rotations.end(), Rotation::local) != rotations.end(); }
  /// The window of layer `layer` (from 0). The member `window` is the cache's: 0 if any layer has no window.
  int window_of(int layer) const { return windows.empty() ? window : windows[static_cast<std::size_t>(layer)]; }
  /// How layer `layer` turns queries and keys.
  Rotation rotation_of(int layer) const {
    if (position_kind != PositionKind::rotary) return Rotation::none;
    return rotations.empty() ? Rotation::global : rotations[static_cast<std::size_t>(layer)];
  }

  /// The factor of the queries at a position, which grows in long texts: 1 + query_growth ln(1 + floor(position /
  /// query_period)).
  float query_scale(int position) const {
    if (query_growth == 0 || position < query_period) return 1;
    return 1 + query_growth * std::log(static_cast<float>(1 + position / query_period));
  }

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;

  /// The factor of the scores in layer `layer` (from 0).
  float score_scale(int layer) const {
    if (attention_scale != 0) return attention_scale;
    const double scale = scale_scores ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
    return static_cast<float>(scale_scores_by_layer ? scale / (layer + 1) : scale);
  }
};

}  // namespace tenon
