#pragma once
#include <limits>
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/qwen.h"

namespace tenon {

namespace detail {

// Layers from max_window_layers on have the window, where the file has no layer_types.
TENON_INLINE void read_qwen_windows(const Fields& fields, ModelConfig& c) {
  const bool uses = fields.boolean("use_sliding_window", false);
  const int size = window_field(fields, 4096);
  const int first = fields.integer("max_window_layers", 0, std::numeric_limits<int>::max(), 28);
  read_windows(
      fields, uses ? size : 0, [&](int layer) { return layer >= first; }, c);
}

}  // namespace detail

TENON_INLINE ModelConfig Qwen2::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type, {.positions = 32768, .kv_heads = 32});
  check_architectures(fields, {"Qwen2ForCausalLM", "Qwen2Model"});
  c.qkv_bias = true;
  detail::read_qwen_windows(fields, c);
  return c;
}

TENON_INLINE DecoderSpec Qwen2::tensors(const ModelConfig& c) { return llama_like_tensors(c); }

TENON_INLINE ModelConfig Qwen3::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type, {.positions = 32768, .kv_heads = 32, .head_dim = 128});
  check_architectures(fields, {"Qwen3ForCausalLM", "Qwen3Model"});
  c.attention_bias = fields.boolean("attention_bias", false);
  detail::read_qwen_windows(fields, c);
  return c;
}

TENON_INLINE DecoderSpec Qwen3::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  add_head_gains(c, false, spec);
  return spec;
}

}  // namespace tenon
