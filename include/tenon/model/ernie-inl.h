#pragma once
#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/ernie.h"

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

}  // namespace tenon
