#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/stablelm.h"

namespace tenon {

TENON_INLINE ModelConfig StableLm::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 4096,
                                        .kv_heads = 32,
                                        .tokens = {.bos = 0, .eos = 0},
                                        .epsilon = 1e-5,
                                        .epsilon_name = "layer_norm_eps",
                                        .rotary = {.part = 0.25, .reads_part = true}});
  check_architectures(fields, {"StableLmForCausalLM", "StableLmModel"});
  refuse_window(fields, c);
  c.norm_kind = NormKind::layer;
  c.qkv_bias = fields.boolean("use_qkv_bias", false);
  c.head_norms = fields.boolean("qk_layernorm", false);
  c.parallel_residual = fields.boolean("use_parallel_residual", false);
  return c;
}

TENON_INLINE DecoderSpec StableLm::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".", attention = h + "self_attn.";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.attention_norm = layer_norm_spec(h + "input_layernorm", c.hidden);
    layer.mlp_norm =
        c.parallel_residual ? DecoderSpec::Norm{} : layer_norm_spec(h + "post_attention_layernorm", c.hidden);
    if (!c.head_norms) continue;
    const auto norms = [&](const std::string& name, int heads) {  // one tensor a head
      VectorSpec gain{.shape = {heads * c.head_dim, 1}, .parts = {}};
      for (int head = 0; head < heads; ++head) {
        append_head(c.rotary, c.head_dim, true, attention + name + ".norms." + std::to_string(head) + ".weight", 0,
                    c.head_dim, gain.parts);
      }
      return DecoderSpec::Norm{gain, {.shape = gain.shape, .parts = {}, .fill = 0.0f}};
    };
    layer.query_norm = norms("q_layernorm", c.heads);
    layer.key_norm = norms("k_layernorm", c.kv_heads);
  }
  spec.final_norm = layer_norm_spec("norm", c.hidden);
  return spec;
}

}  // namespace tenon
