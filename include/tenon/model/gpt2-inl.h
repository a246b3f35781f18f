#pragma once
#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/gpt2.h"

namespace tenon {

TENON_INLINE ModelConfig configure_gpt_like(const ConfigFile& file, std::string_view model_type,
                                            std::string_view activation, int positions) {
  const Fields fields = file.fields();
  fields.choice("model_type", {model_type});
  ModelConfig c;
  c.model_type = model_type;
  c.layers = fields.positive_int(one_name(fields, {"n_layer", "num_hidden_layers"}));
  const std::string hidden = one_name(fields, {"n_embd", "hidden_size"});
  c.hidden = width_field(fields, hidden);
  heads_fields(fields, one_name(fields, {"n_head", "num_attention_heads"}), hidden, c);
  c.inner = inner_field(fields, "n_inner", hidden, c.hidden);
  c.vocab = fields.positive_int("vocab_size");
  c.positions = fields.positive_int(one_name(fields, {"n_positions", "max_position_embeddings"}), positions);
  refuse_window(fields, c);
  c.norm_epsilon = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
  c.activation = activation_field(fields, "activation_function", activation);
  c.tied_head = fields.flag("tie_word_embeddings", true);
  c.scale_scores = fields.flag("scale_attn_weights", true);
  special_tokens(file, c, {.bos = 50256, .eos = 50256});
  return c;
}

TENON_INLINE ModelConfig Gpt2::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_gpt_like(file, model_type, "gelu_new", 1024);
  check_architectures(fields, {"GPT2LMHeadModel", "GPT2Model", "GPT2DoubleHeadsModel"});
  c.scale_scores_by_layer = fields.boolean("scale_attn_by_inverse_layer_idx", false);
  return c;
}

TENON_INLINE DecoderSpec Gpt2::tensors(const ModelConfig& c) {
  // Stored as Conv1D: [inputs, outputs].
  return gpt_like_tensors(c, [](const std::string& name, int outputs, int inputs) {
    auto linear = linear_spec(name, {outputs, inputs}, true);
    linear.weight.parts.front().transposed = true;
    return linear;
  });
}

TENON_INLINE ModelConfig Gpt2::small() {
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

}  // namespace tenon
