#pragma once
#include <limits>
#include <string>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/granite.h"

namespace tenon {

namespace detail {

TENON_INLINE void read_multipliers(const Fields& fields, ModelConfig& c) {
  c.attention_bias = fields.boolean("attention_bias", false);
  c.embedding_scale = static_cast<float>(fields.positive("embedding_multiplier", 1));
  c.attention_scale = static_cast<float>(fields.positive("attention_multiplier", 1));
  c.residual_scale = static_cast<float>(fields.positive("residual_multiplier", 1));
  c.logit_scale = static_cast<float>(1 / fields.positive("logits_scaling", 1));
}

// Refuses layers of state spaces and experts.
TENON_INLINE void need_attention_alone(const Fields& fields, int layers) {
  const auto refuse = [&](const std::string& key, const std::string& what) {
    throw Error(Error::Kind::unsupported, fields.where(key), what);
  };
  const std::string key = one_name(fields, {"layer_types", "layers_block_type"});
  if (!fields.has(key)) refuse(key, "is missing, which means Mamba layers; they are not supported");
  const auto types = fields.strings(key);
  for (const std::string& type : types)  // the names in transformers 4 and 5
    if (type != "attention" && type != "full_attention")
      refuse(key, "\"" + printable(type, 60) + "\" is not supported; supported: attention in every layer");
  if (static_cast<int>(types.size()) != layers)
    fields.refuse(key, "must name " + std::to_string(layers) + " layers, has " + std::to_string(types.size()));
  if (fields.integer("num_local_experts", 0, std::numeric_limits<int>::max(), 8) > 0)
    refuse("num_local_experts", "experts are not supported in this family: it must be 0");
}

}  // namespace detail

TENON_INLINE ModelConfig Granite::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type, {.tokens = {.bos = 1, .eos = 2}});
  check_architectures(fields, {"GraniteForCausalLM", "GraniteModel"});
  refuse_window(fields, c);
  c.mlp_bias = fields.boolean("mlp_bias", false);
  detail::read_multipliers(fields, c);
  return c;
}

TENON_INLINE DecoderSpec Granite::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  spec.final_norm.gain.times = c.logit_scale;
  return spec;
}

TENON_INLINE ModelConfig GraniteHybrid::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.tokens = {.bos = 1, .eos = 2}, .inner_name = "shared_intermediate_size"});
  check_architectures(fields, {"GraniteMoeHybridForCausalLM", "GraniteMoeHybridModel"});
  detail::need_attention_alone(fields, c.layers);
  detail::read_multipliers(fields, c);
  const bool turns = fields.string("position_embedding_type", "nope") == "rope";
  if (!turns) c.rotations.assign(static_cast<std::size_t>(c.layers), Rotation::none);
  return c;
}

TENON_INLINE DecoderSpec GraniteHybrid::tensors(const ModelConfig& c) {
  DecoderSpec spec = Granite::tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string mlp = "layers." + std::to_string(l) + ".shared_mlp.";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.up = linear_spec(mlp + "input_linear", {2 * c.inner, c.hidden}, false);
    layer.down = linear_spec(mlp + "output_linear", {c.hidden, c.inner}, false);
  }
  return spec;
}

}  // namespace tenon
