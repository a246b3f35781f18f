// The sizes and switches of a model from its config.json. The traits have those that are fixed at compile time.
#pragma once
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/model/rotary.h"
#include "tenon/ops/args.h"

namespace tenon {

/// The sizes and switches of a model.
struct ModelConfig {
  std::string model_type;
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int inner = 0;  ///< width of the MLP
  int vocab = 0;
  int positions = 0;  ///< tokens of the longest sequence
  int window = 0;     ///< number of positions that a token attends to, including its own; 0: all of them
  float norm_epsilon = 0;
  Activation activation = Activation::gelu_new;
  RotaryConfig rotary;                 ///< read if the family has rotary positions
  bool attention_bias = false;         ///< all linears of attention have a bias; read if the family makes it optional
  bool mlp_bias = false;               ///< all linears of the MLP have a bias; read if the family makes it optional
  bool interleaved_qkv = false;        ///< queries, keys and values are stored head by head; read by GPTBigCode
  bool tied_head = true;               ///< the head is the embedding matrix
  bool scale_scores = true;            ///< scores are scaled by 1 / sqrt(head_dim)
  bool scale_scores_by_layer = false;  ///< and by 1 / (layer + 1)
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;                      ///< each of these tokens ends an answer
  std::vector<std::string> dropped_tokens = {};  ///< ids outside the vocabulary: SpecialTokens::dropped

  /// Widths of a token's queries, keys (or values), and all three, in elements.
  int query_width() const { return heads * head_dim; }
  int kv_width() const { return kv_heads * head_dim; }
  int qkv_width() const { return query_width() + 2 * kv_width(); }
  KvShape kv() const { return {layers, kv_heads, head_dim, positions, window}; }

  /// The factor of the scores in layer `layer` (from 0).
  float score_scale(int layer) const {
    const double scale = scale_scores ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
    return static_cast<float>(scale_scores_by_layer ? scale / (layer + 1) : scale);
  }
};

}  // namespace tenon
