#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/cohere.h"
#include "tenon/model/configure.h"

namespace tenon {

namespace detail {

TENON_INLINE ModelConfig configure_cohere(const ConfigFile& file, std::string_view model_type, double theta) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 8192,
                                        .tokens = {.bos = 5, .eos = 255001, .pad = 0},
                                        .tied_head = true,
                                        .epsilon = 1e-5,
                                        .epsilon_name = "layer_norm_eps",
                                        .rotary = {.theta = theta, .neighbours = true}});
  c.norm_kind = NormKind::layer;
  c.parallel_residual = true;
  c.attention_bias = fields.boolean("attention_bias", false);
  c.logit_scale = static_cast<float>(fields.positive("logit_scale", 0.0625));
  return c;
}

}  // namespace detail

TENON_INLINE ModelConfig Cohere::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  check_architectures(fields, {"CohereForCausalLM", "CohereModel"});
  ModelConfig c = detail::configure_cohere(file, model_type, 5e5);
  refuse_window(fields, c);
  c.head_norms = fields.boolean("use_qk_norm", false);
  return c;
}

TENON_INLINE ModelConfig Cohere2::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  check_architectures(fields, {"Cohere2ForCausalLM", "Cohere2Model"});
  ModelConfig c = detail::configure_cohere(file, model_type, 1e4);
  const int pattern = fields.positive_int("sliding_window_pattern", 4);
  read_windows(
      fields, window_field(fields, 4096), [&](int l) { return (l + 1) % pattern != 0; }, c, true);
  for (int l = 0; l < c.layers; ++l) c.rotations.push_back(c.window_of(l) > 0 ? Rotation::global : Rotation::none);
  return c;
}

TENON_INLINE DecoderSpec Cohere::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.attention_norm = biasless_norm_spec(h + "input_layernorm", c.hidden);
    layer.mlp_norm = {};
    if (!c.head_norms) continue;
    add_head_gains(c, h + "self_attn.", true, layer);
    for (auto* norm : {&layer.query_norm, &layer.key_norm}) {
      for (TensorPart& part : norm->gain.parts) {  // stored [heads, head_dim]
        part.stacked = part.stored_rows() / c.head_dim;
        part.is_stack = true;
      }
      norm->bias = {.shape = norm->gain.shape, .parts = {}, .fill = 0.0f};  // layer norms
    }
  }
  spec.final_norm = biasless_norm_spec("norm", c.hidden);
  spec.final_norm.gain.times = c.logit_scale;
  return spec;
}

}  // namespace tenon
