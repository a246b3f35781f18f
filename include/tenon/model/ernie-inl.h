#pragma once
#include <limits>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/ernie.h"
#include "tenon/model/experts.h"

namespace tenon {

TENON_INLINE ModelConfig Ernie45::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 131072,
                                        .kv_heads = 2,
                                        .tokens = {.bos = 1, .eos = 2, .pad = 0},
                                        .head_dim = 128,
                                        .tied_head = true,
                                        .epsilon = 1e-5,
                                        .rotary = {.theta = 5e5, .neighbours = true}});
  check_architectures(fields, {"Ernie4_5ForCausalLM", "Ernie4_5Model"});
  refuse_window(fields, c);
  c.attention_bias = c.mlp_bias = fields.boolean("use_bias", false);
  return c;
}

TENON_INLINE ModelConfig Ernie45Moe::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 131072,
                                        .kv_heads = 4,
                                        .tokens = {.bos = 1, .eos = 2, .pad = 0},
                                        .tied_head = true,
                                        .epsilon = 1e-5,
                                        .rotary = {.theta = 5e5, .neighbours = true}});
  check_architectures(fields, {"Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeModel"});
  refuse_window(fields, c);
  c.attention_bias = c.mlp_bias = fields.boolean("use_bias", false);
  detail::read_experts(fields, {"moe_num_experts", "num_experts"}, 64, 6, c, {"moe_k", "num_experts_per_tok"});
  c.expert_inner = detail::expert_width(fields, "moe_intermediate_size", 1536);
  c.shared_inner = c.expert_inner * fields.integer("moe_num_shared_experts", 0, kLargestWidth / c.expert_inner, 2);
  constexpr int most = std::numeric_limits<int>::max();
  const int first = fields.integer("moe_layer_start_index", 0, most, 1);
  const int last = fields.integer("moe_layer_end_index", -1, most, -1);
  const int interval = fields.positive_int("moe_layer_interval", 1);
  for (int l = 0; l < c.layers; ++l)
    c.dense_layers.push_back((l + 1) % interval != 0 || l < first || (last >= 0 && l > last));
  c.router_kind = RouterKind::normalised;
  c.router_epsilon = static_cast<float>(fields.number("moe_norm_min", 0, 1, 1e-12));
  c.choice_bias = true;
  return c;
}

TENON_INLINE DecoderSpec Ernie45Moe::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  detail::add_experts(c,
                      {.mixture = "mlp.",
                       .router = "gate",
                       .gate = "gate_proj",
                       .up = "up_proj",
                       .down = "down_proj",
                       .choice_bias = "moe_statics.e_score_correction_bias",
                       .shared = "shared_experts.",
                       .bias_is_row = true},
                      spec);
  if (c.mlp_bias && c.language_head) spec.head_bias = vector_spec("lm_head.bias", c.vocab);
  return spec;
}

}  // namespace tenon
