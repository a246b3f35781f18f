#pragma once
#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/mistral.h"

namespace tenon {

namespace detail {

TENON_INLINE ModelConfig configure_mistral(const ConfigFile& file, std::string_view model_type) {
  const Fields fields = file.fields();
  ModelConfig c =
      configure_llama_like(file, model_type, {.positions = 4096 * 32, .kv_heads = 8, .tokens = {.bos = 1, .eos = 2}});
  read_windows(
      fields, window_field(fields, 4096), [](int) { return true; }, c);
  return c;
}

}  // namespace detail

TENON_INLINE ModelConfig Mistral::configure(const ConfigFile& file) {
  check_architectures(file.fields(), {"MistralForCausalLM", "MistralModel"});
  return detail::configure_mistral(file, model_type);
}

TENON_INLINE ModelConfig Mistral3::configure(const ConfigFile& file) {
  ModelConfig c = Mistral::configure(file);
  c.model_type = model_type;
  return c;
}

TENON_INLINE ModelConfig Ministral::configure(const ConfigFile& file) {
  check_architectures(file.fields(), {"MinistralForCausalLM", "MinistralModel"});
  return detail::configure_mistral(file, model_type);
}

TENON_INLINE ModelConfig Mistral::seven_billion() {
  ModelConfig c = llama_like(model_type);
  c.layers = 32;
  c.hidden = 4096;
  c.heads = 32;
  c.kv_heads = 8;
  c.head_dim = 128;
  c.inner = 14336;
  c.vocab = 32000;
  c.positions = 32768;
  c.window = 4096;
  c.norm_epsilon = 1e-5f;
  c.tied_head = false;
  return c;
}

}  // namespace tenon
