// The sizes and switches of a model, as its config.json gives them: what is fixed at compile time stands in the traits.
#pragma once
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/model/rotary.h"
#include "tenon/ops/args.h"

namespace tenon {

struct ModelConfig {
  std::string model_type;
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int inner = 0;  // width of the MLP
  int vocab = 0;
  int positions = 0;  // the longest sequence
  int window = 0;     // positions that a token attends to, its own included; 0: all before it
  float norm_epsilon = 0;
  Activation activation = Activation::gelu_new;
  RotaryConfig rotary;                 // of families with rotary positions
  bool attention_bias = false;         // of families in which biases are optional: all linears of attention have one
  bool mlp_bias = false;               // likewise those of the MLP
  bool interleaved_qkv = false;        // of families that store queries, keys and values in one of two orders
  bool tied_head = true;               // the head is the embedding matrix
  bool scale_scores = true;            // by 1 / sqrt(head_dim)
  bool scale_scores_by_layer = false;  // and by 1 / (layer + 1)
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;                      // each of them ends an answer
  std::vector<std::string> dropped_tokens = {};  // ids of files outside the vocabulary: SpecialTokens::dropped

  int query_width() const { return heads * head_dim; }
  int kv_width() const { return kv_heads * head_dim; }
  int qkv_width() const { return query_width() + 2 * kv_width(); }
  KvShape kv() const { return {layers, kv_heads, head_dim, positions, window}; }

  float score_scale(int layer) const {
    const double scale = scale_scores ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
    return static_cast<float>(scale_scores_by_layer ? scale / (layer + 1) : scale);
  }
};

}  // namespace tenon
