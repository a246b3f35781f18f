#pragma once
#include <limits>
#include <string>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/qwen.h"

namespace tenon {

namespace detail {

// Layers from max_window_layers on have the window, where the file has no layer_types.
TENON_INLINE void read_qwen_windows(const Fields& fields, ModelConfig& c, int default_first = 28) {
  const bool uses = fields.boolean("use_sliding_window", false);
  const int size = window_field(fields, 4096);
  const int first = fields.integer("max_window_layers", 0, std::numeric_limits<int>::max(), default_first);
  read_windows(
      fields, uses ? size : 0, [&](int layer) { return layer >= first; }, c);
}

// Positions of these models have three parts: time, height and width. They are equal in texts, so the sections of a
// head, which mrope_section of rope_scaling (or of rope_parameters, in transformers 5) gives to the parts, have no
// effect. The classes need them, and a type: rope_type, or `type` in Qwen2's.
TENON_INLINE void check_sections(const Fields& fields, int head_dim, bool has_default) {
  const Fields scaling = fields.object(fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  if (!scaling.has("rope_type") && (has_default || !scaling.has("type"))) scaling.refuse("rope_type", "is missing");
  if (scaling.number("partial_rotary_factor", 0, 1, 1) != 1)
    scaling.refuse("partial_rotary_factor", "must be 1 in this family");
  if (has_default && !scaling.has("mrope_section")) return;
  const Json& sections = scaling.value("mrope_section");
  if (!sections.is_array() || sections.size() != 3) scaling.refuse("mrope_section", "must have three numbers");
  int sum = 0;
  for (const Json& each : sections) sum += scaling.check_integer("mrope_section", each, 0, head_dim);
  if (!has_default && 2 * sum != head_dim)
    scaling.refuse("mrope_section", "must have half the width of a head, " + std::to_string(head_dim) + ", in all");
}

TENON_INLINE ModelConfig configure_qwen2_vl(const ConfigFile& file, std::string_view model_type) {
  const Fields fields = file.fields();
  const bool flat = fields.string("model_type", "") == model_type;  // no text_config
  const bool older = !fields.has("rope_parameters");                // transformers 4: `type` replaces rope_type
  ModelConfig c = configure_llama_like(file, std::string(model_type) + (flat ? "" : "_text"),
                                       {.layers = 80,
                                        .hidden = 8192,
                                        .heads = 64,
                                        .inner = 29568,
                                        .vocab = 152064,
                                        .positions = 32768,
                                        .kv_heads = 8,
                                        .epsilon = 1e-5,
                                        .rotary = {.theta = 1e6, .sections = true, .type_wins = older}});
  check_sections(fields, c.head_dim, false);
  c.qkv_bias = true;
  read_qwen_windows(fields, c, 80);
  return with_model_type(model_type, std::move(c));
}

}  // namespace detail

TENON_INLINE ModelConfig Qwen2Vl::configure(const ConfigFile& file) {
  return detail::configure_qwen2_vl(file, model_type);
}

TENON_INLINE ModelConfig Qwen25Vl::configure(const ConfigFile& file) {
  return detail::configure_qwen2_vl(file, model_type);
}

TENON_INLINE ModelConfig Qwen3Vl::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, "qwen3_vl_text",
                                       {.layers = 32,
                                        .hidden = 4096,
                                        .heads = 32,
                                        .inner = 22016,
                                        .vocab = 151936,
                                        .positions = 128000,
                                        .kv_heads = 32,
                                        .head_dim = 128,
                                        .rotary = {.theta = 5e6, .sections = true}});
  detail::check_sections(fields, c.head_dim, true);
  c.attention_bias = fields.boolean("attention_bias", false);
  refuse_window(fields, c);
  return with_model_type(model_type, std::move(c));
}

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
