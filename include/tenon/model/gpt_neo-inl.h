#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/gpt_neo.h"

namespace tenon {

namespace detail {

// attention_types is a list of [kinds, repetitions]: [[["global", "local"], 6]] is 12 layers. Returns which are local.
// attention_layers, which lists the layers one by one, wins over it.
TENON_INLINE std::vector<bool> local_layers(const Fields& fields, int layers) {
  const bool listed = fields.has("attention_layers");
  const char* key = listed ? "attention_layers" : "attention_types";
  std::vector<bool> out;
  const auto add = [&](const Json& kinds) {
    for (const Json& kind : kinds) {
      if (kind != "global" && kind != "local") fields.refuse(key, "must name \"global\" and \"local\" layers");
      out.push_back(kind == "local");
    }
  };
  if (!fields.has(key)) {
    for (int l = 0; l < layers; ++l) out.push_back(l % 2 == 1);
    return out;
  }
  const Json& value = fields.value(key);
  if (!value.is_array())
    fields.refuse(key, listed ? "must be a list of words" : "must be a list of [kinds, repetitions]");
  const auto add_item = [&](const Json& item) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_array())
      fields.refuse(key, "must be a list of [kinds, repetitions]");
    const int times = fields.check_integer(key, item[1], 0, layers);
    for (int i = 0; i < times && static_cast<int>(out.size()) <= layers; ++i) add(item[0]);
  };
  if (listed)
    add(value);
  else
    std::for_each(value.begin(), value.end(), add_item);
  if (static_cast<int>(out.size()) != layers)
    fields.refuse(key, "must name " + std::to_string(layers) + " layers, as num_layers says");
  return out;
}

}  // namespace detail

TENON_INLINE ModelConfig GptNeo::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  fields.choice("model_type", {model_type});
  check_architectures(fields, {"GPTNeoForCausalLM", "GPTNeoModel"});
  ModelConfig c;
  c.model_type = model_type;
  c.layers = fields.positive_int(one_name(fields, {"num_layers", "num_hidden_layers"}));
  c.hidden = width_field(fields, "hidden_size");
  heads_fields(fields, one_name(fields, {"num_heads", "num_attention_heads"}), "hidden_size", c);
  c.inner = inner_field(fields, "intermediate_size", "hidden_size", c.hidden);
  c.vocab = fields.positive_int("vocab_size");
  c.positions = fields.positive_int("max_position_embeddings", 2048);
  refuse_window(fields, c);
  c.norm_epsilon = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
  c.activation = activation_field(fields, "activation_function", "gelu_new");
  c.tied_head = fields.flag("tie_word_embeddings", true);
  c.scale_scores = false;
  const int size = fields.positive_int("window_size", 256);
  bool all = true, none = true;
  for (const bool local : detail::local_layers(fields, c.layers)) {
    c.windows.push_back(local ? size : 0);
    all = all && local;
    none = none && !local;
  }
  c.window = all ? size : 0;  // a cache may drop tokens only if no layer attends to all
  if (all || none) c.windows.clear();
  special_tokens(file, c, {.bos = 50256, .eos = 50256});
  return c;
}

TENON_INLINE DecoderSpec GptNeo::tensors(const ModelConfig& c) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("wte.weight", {c.vocab, c.hidden});
  spec.position_table = table_spec("wpe.weight", {c.positions, c.hidden});
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "h." + std::to_string(l) + ".", attention = h + "attn.attention.";
    spec.layers.push_back({.attention_norm = layer_norm_spec(h + "ln_1", c.hidden),
                           .mlp_norm = layer_norm_spec(h + "ln_2", c.hidden),
                           .qkv = stacked_spec({{attention + "q_proj", c.query_width()},
                                                {attention + "k_proj", c.kv_width()},
                                                {attention + "v_proj", c.kv_width()}},
                                               c.hidden, false),
                           .attention_out = linear_spec(attention + "out_proj", {c.hidden, c.query_width()}, true),
                           .up = linear_spec(h + "mlp.c_fc", {c.inner, c.hidden}, true),
                           .down = linear_spec(h + "mlp.c_proj", {c.hidden, c.inner}, true)});
  }
  spec.final_norm = layer_norm_spec("ln_f", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
  return spec;
}

}  // namespace tenon
