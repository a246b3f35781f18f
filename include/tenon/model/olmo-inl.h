#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/olmo.h"

namespace tenon {

TENON_INLINE ModelConfig Olmo::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type, {.tokens = {.eos = 50279, .pad = 1}});
  check_architectures(fields, {"OlmoForCausalLM", "OlmoModel"});
  refuse_window(fields, c);
  c.norm_kind = NormKind::layer;
  c.norm_epsilon = 1e-5f;
  c.attention_bias = fields.boolean("attention_bias", false);
  if (fields.has("clip_qkv")) c.qkv_bound = static_cast<float>(fields.positive("clip_qkv"));
  return c;
}

TENON_INLINE DecoderSpec Olmo::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (auto& layer : spec.layers) layer.attention_norm = layer.mlp_norm = plain_norm_spec(c.hidden);
  spec.final_norm = plain_norm_spec(c.hidden);
  return spec;
}

namespace detail {

TENON_INLINE ModelConfig configure_olmo2(const ConfigFile& file, std::string_view model_type, bool reads_rotary) {
  ModelConfig c = configure_llama_like(
      file, model_type, {.tokens = {.eos = 50279, .pad = 1}, .epsilon = 1e-5, .reads_rotary = reads_rotary});
  c.attention_bias = file.fields().boolean("attention_bias", false);
  c.output_norms = c.norms_all_heads = true;
  return c;
}

}  // namespace detail

TENON_INLINE ModelConfig Olmo2::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  check_architectures(fields, {"Olmo2ForCausalLM", "Olmo2Model"});
  ModelConfig c = detail::configure_olmo2(file, model_type, true);
  refuse_window(fields, c);
  return c;
}

TENON_INLINE DecoderSpec Olmo2::tensors(const ModelConfig& c) { return output_norm_tensors(c, true); }

TENON_INLINE ModelConfig Olmo3::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  check_architectures(fields, {"Olmo3ForCausalLM", "Olmo3Model"});
  ModelConfig c = detail::configure_olmo2(file, model_type, false);
  read_two_rotations(fields, {}, {}, c);
  read_windows(
      fields, window_field(fields, 4096), [](int l) { return (l + 1) % 4 != 0; }, c, true);
  turn_windows_locally(c);
  return c;
}

TENON_INLINE DecoderSpec Olmo3::tensors(const ModelConfig& c) { return output_norm_tensors(c, true); }

}  // namespace tenon
