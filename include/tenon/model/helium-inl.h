#pragma once
#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/helium.h"

namespace tenon {

TENON_INLINE ModelConfig Helium::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  check_architectures(fields, {"HeliumForCausalLM", "HeliumModel"});
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 4096,
                                        .kv_heads = 20,
                                        .tokens = {.bos = 1, .eos = 2, .pad = 3},
                                        .head_dim = 128,
                                        .epsilon = 1e-8,
                                        .rotary = {.theta = 1e5, .neighbours = true}});
  refuse_window(fields, c);
  c.qkv_bias = fields.boolean("attention_bias", false);
  c.mlp_bias = fields.boolean("mlp_bias", false);
  return c;
}

}  // namespace tenon
