#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/smollm3.h"

namespace tenon {

TENON_INLINE ModelConfig SmolLm3::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 32768,
                                        .kv_heads = 4,
                                        .tokens = {.bos = 128000, .eos = 128001, .pad = 128004},
                                        .tied_head = true,
                                        .rotary = {.theta = 2e6}});
  check_architectures(fields, {"SmolLM3ForCausalLM", "SmolLM3Model"});
  c.attention_bias = fields.boolean("attention_bias", false);
  c.mlp_bias = fields.boolean("mlp_bias", false);
  const int interval = fields.positive_int("no_rope_layer_interval", 4);
  const bool listed = fields.has("no_rope_layers");
  const Json* list = listed ? &fields.value("no_rope_layers") : nullptr;
  if (list && (!list->is_array() || list->size() < static_cast<std::size_t>(c.layers)))
    fields.refuse("no_rope_layers", "must be a list of " + std::to_string(c.layers) + " numbers");
  for (int l = 0; l < c.layers; ++l) {
    const bool turns = list ? fields.check_integer("no_rope_layers", (*list)[static_cast<std::size_t>(l)], 0, 1) == 1
                            : (l + 1) % interval != 0;
    c.rotations.push_back(turns ? Rotation::global : Rotation::none);
  }
  // Masks in transformers follow layer_types if the file has it, whatever use_sliding_window says.
  const std::vector<bool> sliding = sliding_layers(fields, c.layers);
  const bool uses = sliding.empty() ? fields.boolean("use_sliding_window", false) && fields.has("sliding_window")
                                    : std::find(sliding.begin(), sliding.end(), true) != sliding.end();
  const int size = uses ? fields.positive_int("sliding_window") : 0;
  read_windows(
      fields, size, [&](int l) { return c.rotations[static_cast<std::size_t>(l)] == Rotation::none; }, c);
  return c;
}

TENON_INLINE DecoderSpec SmolLm3::tensors(const ModelConfig& c) { return llama_like_tensors(c); }

}  // namespace tenon
