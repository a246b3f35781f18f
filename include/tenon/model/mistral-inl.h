#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

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
  const Fields fields = file.fields();
  if (fields.string("model_type", "") == Ministral3::model_type)
    return with_model_type(model_type, Ministral3::configure(file));
  check_architectures(fields, {"MistralForCausalLM", "MistralModel"});
  ModelConfig c = detail::configure_mistral(file, Mistral::model_type);
  // Its Mistral has one window in all layers. layer_types changes its cache alone, which fails where they differ.
  if (std::adjacent_find(c.windows.begin(), c.windows.end(), std::not_equal_to<>()) != c.windows.end())
    fields.refuse("layer_types", "must name one kind of layers in this family");
  c.windows.clear();
  c.window = window_field(fields, 4096);
  return with_model_type(model_type, std::move(c));
}

TENON_INLINE ModelConfig Ministral::configure(const ConfigFile& file) {
  check_architectures(file.fields(), {"MinistralForCausalLM", "MinistralModel"});
  return detail::configure_mistral(file, model_type);
}

namespace detail {

// Sets `rotary`, and the growth of queries, from rope_parameters or its older name.
TENON_INLINE void read_growing_queries(const Fields& fields, const Fields& scaling, ModelConfig& c) {
  const char* const trained = "original_max_position_embeddings";
  const char* const beta = "llama_4_scaling_beta";
  const int longest = c.positions;
  if (fields.has(trained)) fields.refuse(trained, "must be a member of rope_parameters in this family");
  if (scaling.number("partial_rotary_factor", 0, 1, 1) != 1)
    scaling.refuse("partial_rotary_factor", "other than 1 is not supported in this family");
  c.rotary = rotary_scaling(fields, &scaling, c.head_dim, c.positions, {});
  c.query_growth = static_cast<float>(scaling.number(beta, -100, 100));
  if (c.query_growth == 0) return;
  const bool fills_in = c.rotary.scaling == RotaryScaling::yarn || c.rotary.scaling == RotaryScaling::llama3 ||
                        c.rotary.scaling == RotaryScaling::longrope;
  c.query_period = fills_in ? scaling.positive_int(trained, longest) : scaling.positive_int(trained);
}

// Every layer has the window. transformers reads layer_types for its cache alone, and fails if that does not fit.
TENON_INLINE void read_one_window(const Fields& fields, ModelConfig& c) {
  c.window = fields.integer("sliding_window", 1, std::numeric_limits<int>::max(), 0);
  const std::vector<bool> listed = sliding_layers(fields, c.layers);
  const auto sliding = std::count(listed.begin(), listed.end(), true);
  if (sliding > 0 && (c.window == 0 || sliding < c.layers))
    fields.refuse("layer_types", "must be sliding_attention in all layers and have a sliding_window, or in none");
}

}  // namespace detail

TENON_INLINE ModelConfig Ministral3::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 262144,
                                        .kv_heads = 8,
                                        .tokens = {.bos = 1, .eos = 2, .pad = 11},
                                        .head_dim = 128,
                                        .epsilon = 1e-5,
                                        .reads_rotary = false});
  check_architectures(fields, {"Ministral3ForCausalLM", "Ministral3Model"});
  detail::read_one_window(fields, c);
  const bool newer = fields.has("rope_parameters"), older = fields.has("rope_scaling");
  if (newer && older && fields.value("rope_parameters") != fields.value("rope_scaling"))
    fields.refuse("rope_scaling", "differs from rope_parameters");
  if (newer || older) {
    detail::read_growing_queries(fields, fields.object(newer ? "rope_parameters" : "rope_scaling"), c);
    return c;
  }
  const Json usual = {{"rope_type", "yarn"},
                      {"rope_theta", 1e6},
                      {"factor", 16.0},
                      {"beta_fast", 32.0},
                      {"beta_slow", 1.0},
                      {"mscale", 1.0},
                      {"mscale_all_dim", 1.0},
                      {"original_max_position_embeddings", 16384},
                      {"llama_4_scaling_beta", 0.1}};
  detail::read_growing_queries(fields, Fields(usual, fields.file(), "rope_parameters"), c);
  return c;
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
