#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/nemotron.h"

namespace tenon {

TENON_INLINE ModelConfig Nemotron::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  check_architectures(fields, {"NemotronForCausalLM", "NemotronModel"});
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 4096,
                                        .tokens = {.bos = 2, .eos = 3},
                                        .epsilon = 1e-5,
                                        .epsilon_name = "norm_eps",
                                        .activation = "relu2",
                                        .reads_rotary = false});
  const RotaryDefaults rotary{.part = 0.5, .reads_part = true};
  // The class does not read rope_scaling. rope_parameters, in files of transformers 5, holds theta.
  c.rotary = fields.has("rope_parameters") ? rotary_fields(fields, c.head_dim, c.positions, rotary)
                                           : rotary_scaling(fields, nullptr, c.head_dim, c.positions, rotary);
  refuse_window(fields, c);
  c.norm_kind = NormKind::layer;
  c.mlp_kind = MlpKind::plain;
  c.attention_bias = fields.boolean("attention_bias", false);
  c.mlp_bias = fields.boolean("mlp_bias", false);
  return c;
}

TENON_INLINE DecoderSpec Nemotron::tensors(const ModelConfig& c) {
  const auto norm = [&](const std::string& name) {
    DecoderSpec::Norm spec = layer_norm_spec(name, c.hidden);
    add_one(spec);
    return spec;
  };
  DecoderSpec spec = plain_mlp_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.attention_norm = norm(h + "input_layernorm");
    layer.mlp_norm = norm(h + "post_attention_layernorm");
  }
  spec.final_norm = norm("norm");
  return spec;
}

}  // namespace tenon
