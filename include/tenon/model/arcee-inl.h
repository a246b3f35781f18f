#pragma once
#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/arcee.h"
#include "tenon/model/configure.h"

namespace tenon {

TENON_INLINE ModelConfig Arcee::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  check_architectures(fields, {"ArceeForCausalLM", "ArceeModel"});
  ModelConfig c = configure_llama_like(
      file, model_type,
      {.positions = 4096, .tokens = {.bos = 128000, .eos = 128001}, .epsilon = 1e-5, .activation = "relu2"});
  refuse_window(fields, c);
  c.mlp_kind = MlpKind::plain;
  c.attention_bias = fields.boolean("attention_bias", false);
  c.mlp_bias = fields.boolean("mlp_bias", false);
  return c;
}

}  // namespace tenon
