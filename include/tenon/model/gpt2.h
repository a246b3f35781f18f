// GPT-2 (Radford et al., 2019) in the form of Hugging Face's GPT2LMHeadModel.
#pragma once
#include <string>
#include <string_view>

#include "tenon/model/configure.h"
#include "tenon/model/traits.h"

namespace tenon {

// What GPT-2 and GPTBigCode have in common.
inline ModelConfig configure_gpt_like(const ConfigFile& file, std::string_view model_type,
                                      std::string_view activation) {
  const Fields fields = file.fields();
  fields.choice("model_type", {model_type});
  refuse_window(fields);
  ModelConfig c;
  c.model_type = model_type;
  c.layers = fields.positive_int(one_name(fields, {"n_layer", "num_hidden_layers"}));
  const std::string hidden = one_name(fields, {"n_embd", "hidden_size"});
  c.hidden = width_field(fields, hidden);
  heads_fields(fields, one_name(fields, {"n_head", "num_attention_heads"}), hidden, c);
  c.inner = inner_field(fields, "n_inner", hidden, c.hidden);
  c.vocab = fields.positive_int("vocab_size");
  c.positions = fields.positive_int(one_name(fields, {"n_positions", "max_position_embeddings"}));
  c.norm_epsilon = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
  c.activation = activation_field(fields, "activation_function", activation);
  c.tied_head = fields.boolean("tie_word_embeddings", true);
  c.scale_scores = fields.boolean("scale_attn_weights", true);
  special_tokens(file, c, {.bos = 50256, .eos = 50256});
  return c;
}

// Their names. linear(name, outputs, inputs): how a matrix and its bias are stored.
template <class Linear>
DecoderSpec gpt_like_tensors(const ModelConfig& c, Linear&& linear) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("wte.weight", {c.vocab, c.hidden});
  spec.position_table = table_spec("wpe.weight", {c.positions, c.hidden});
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "h." + std::to_string(l) + ".";
    spec.layers.push_back({.attention_norm = layer_norm_spec(h + "ln_1", c.hidden),
                           .mlp_norm = layer_norm_spec(h + "ln_2", c.hidden),
                           .qkv = linear(h + "attn.c_attn", c.qkv_width(), c.hidden),
                           .attention_out = linear(h + "attn.c_proj", c.hidden, c.query_width()),
                           .up = linear(h + "mlp.c_fc", c.inner, c.hidden),
                           .down = linear(h + "mlp.c_proj", c.hidden, c.inner)});
  }
  spec.final_norm = layer_norm_spec("ln_f", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
  return spec;
}

struct Gpt2 {
  static constexpr std::string_view model_type = "gpt2";
  static constexpr std::string_view name_prefix = "transformer.";  // names are stored with it or without it
  static constexpr NormKind norm = NormKind::layer;
  static constexpr PositionKind positions = PositionKind::learned;
  static constexpr MlpKind mlp = MlpKind::plain;

  static ModelConfig configure(const ConfigFile& file) {
    const Fields fields = file.fields();
    ModelConfig c = configure_gpt_like(file, model_type, "gelu_new");
    check_architectures(fields, {"GPT2LMHeadModel", "GPT2Model", "GPT2DoubleHeadsModel"});
    c.scale_scores_by_layer = fields.boolean("scale_attn_by_inverse_layer_idx", false);
    return c;
  }

  static DecoderSpec tensors(const ModelConfig& c) {
    // Stored as Conv1D: [inputs, outputs].
    return gpt_like_tensors(c, [](const std::string& name, int outputs, int inputs) {
      auto linear = linear_spec(name, {outputs, inputs}, true);
      linear.weight.parts.front().transposed = true;
      return linear;
    });
  }

  // The shapes of the published model of 124 million parameters.
  static ModelConfig small() {
    ModelConfig c;
    c.model_type = model_type;
    c.layers = c.heads = c.kv_heads = 12;
    c.hidden = 768;
    c.head_dim = 64;
    c.inner = 3072;
    c.vocab = 50257;
    c.positions = 1024;
    c.norm_epsilon = 1e-5f;
    return c;
  }
};

}  // namespace tenon
