#pragma once
#include <cmath>
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/gemma.h"

namespace tenon {

namespace detail {

TENON_INLINE ModelConfig configure_gemma(const ConfigFile& file, std::string_view model_type, LlamaDefaults defaults) {
  const Fields fields = file.fields();
  defaults.tokens = {.bos = 2, .eos = 1, .pad = 0};
  defaults.head_dim = 256;
  defaults.tied_head = true;
  defaults.activation = "gelu_pytorch_tanh";
  ModelConfig c = configure_llama_like(file, model_type, defaults);
  c.attention_bias = fields.boolean("attention_bias", false);
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden));
  if (fields.boolean("use_bidirectional_attention", false)) {
    throw Error(Error::Kind::unsupported, fields.where("use_bidirectional_attention"), "true is not supported");
  }
  return c;
}

// A soft cap of the file or the class; 0: none.
TENON_INLINE float soft_cap(const Fields& fields, const char* name, double fallback) {
  if (fields.json().contains(name) && !fields.has(name)) return 0.0f;
  return static_cast<float>(fallback > 0 || fields.has(name) ? fields.positive(name, fallback) : 0);
}

// Sets output norms, the scale of scores by query_pre_attn_scalar, and the soft cap of logits (0: none).
TENON_INLINE void read_gemma2(const Fields& fields, float logit_cap, ModelConfig& c) {
  c.output_norms = true;
  c.attention_scale = static_cast<float>(1 / std::sqrt(fields.positive("query_pre_attn_scalar", 256)));
  c.logit_soft_cap = logit_cap;
}

TENON_INLINE DecoderSpec gemma2_tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.attention_out_norm = rms_norm_spec(h + "post_attention_layernorm", c.hidden);
    layer.mlp_norm = rms_norm_spec(h + "pre_feedforward_layernorm", c.hidden);
    layer.mlp_out_norm = rms_norm_spec(h + "post_feedforward_layernorm", c.hidden);
    for (auto* norm : {&layer.attention_norm, &layer.attention_out_norm, &layer.mlp_norm, &layer.mlp_out_norm})
      add_one(*norm);
  }
  add_one(spec.final_norm);
  return spec;
}

// The class with images has no cap of its logits, whatever final_logit_softcapping says.
TENON_INLINE ModelConfig configure_gemma3(const ConfigFile& file, float logit_cap) {
  const Fields fields = file.fields();
  // The text_config of published models has only the sizes that differ from those of the class.
  ModelConfig c = configure_gemma(file, Gemma3::model_type,
                                  {.layers = 26,
                                   .hidden = 2304,
                                   .heads = 8,
                                   .inner = 9216,
                                   .vocab = 262208,
                                   .positions = 131072,
                                   .kv_heads = 4,
                                   .activation_name = "hidden_activation",
                                   .reads_rotary = false});
  read_two_rotations(fields, {.theta = 1e6}, {.theta = 1e4, .theta_name = "rope_local_base_freq"}, c);
  check_architectures(fields, {"Gemma3ForCausalLM", "Gemma3TextModel"});
  // Attention in transformers ignores attn_logit_softcapping here, although Gemma3TextConfig has the field.
  read_gemma2(fields, logit_cap, c);
  const int pattern = fields.positive_int("sliding_window_pattern", 6);
  read_windows(
      fields, window_field(fields, 4096), [&](int l) { return (l + 1) % pattern != 0; }, c, true);
  turn_windows_locally(c);
  return c;
}

}  // namespace detail

TENON_INLINE ModelConfig Gemma::configure(const ConfigFile& file) {
  // The MLP in transformers 4.57 reads hidden_act, and ignores hidden_activation.
  ModelConfig c = detail::configure_gemma(file, model_type, {.positions = 8192, .kv_heads = 16});
  check_architectures(file.fields(), {"GemmaForCausalLM", "GemmaModel"});
  refuse_window(file.fields(), c);
  return c;
}

TENON_INLINE DecoderSpec Gemma::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (auto& layer : spec.layers) {
    add_one(layer.attention_norm);
    add_one(layer.mlp_norm);
  }
  add_one(spec.final_norm);
  return spec;
}

TENON_INLINE ModelConfig Gemma2::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = detail::configure_gemma(file, model_type,
                                          {.positions = 8192, .kv_heads = 4, .activation_name = "hidden_activation"});
  check_architectures(fields, {"Gemma2ForCausalLM", "Gemma2Model"});
  detail::read_gemma2(fields, detail::soft_cap(fields, "final_logit_softcapping", 30), c);
  c.attention_soft_cap = detail::soft_cap(fields, "attn_logit_softcapping", 50);
  read_windows(
      fields, window_field(fields, 4096), [](int l) { return l % 2 == 0; }, c, true);
  return c;
}

TENON_INLINE DecoderSpec Gemma2::tensors(const ModelConfig& c) { return detail::gemma2_tensors(c); }

TENON_INLINE ModelConfig Gemma3::configure(const ConfigFile& file) {
  const float cap = detail::soft_cap(file.fields(), "final_logit_softcapping", 0);
  return detail::configure_gemma3(file, cap);
}

TENON_INLINE ModelConfig Gemma3WithImages::configure(const ConfigFile& file) {
  return with_model_type(model_type, detail::configure_gemma3(file, 0));
}

TENON_INLINE DecoderSpec Gemma3::tensors(const ModelConfig& c) {
  DecoderSpec spec = detail::gemma2_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    add_head_gains(c, "layers." + std::to_string(l) + ".self_attn.", false, layer);
    add_one(layer.query_norm);
    add_one(layer.key_norm);
  }
  return spec;
}

}  // namespace tenon
