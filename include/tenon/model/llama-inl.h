#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/llama.h"
#include "tenon/model/rotary_config.h"

namespace tenon {

TENON_INLINE ModelConfig llama_like(std::string_view model_type) {
  ModelConfig c;
  c.model_type = model_type;
  c.norm_kind = NormKind::rms;
  c.position_kind = PositionKind::rotary;
  c.mlp_kind = MlpKind::gated;
  c.activation = Activation::silu;
  return c;
}

TENON_INLINE ModelConfig configure_llama_like(const ConfigFile& file, std::string_view model_type,
                                              const LlamaDefaults& defaults) {
  const Fields fields = file.fields();
  fields.choice("model_type", {model_type}, std::string(model_type));  // a text_config may leave it out
  ModelConfig c = llama_like(model_type);
  const auto count = [&](const char* name, int fallback) {
    return fallback > 0 ? fields.positive_int(name, fallback) : fields.positive_int(name);
  };
  const auto size = [&](const char* name, int fallback) {
    return fallback > 0 && !fields.has(name) ? fallback : width_field(fields, name);
  };
  c.layers = count("num_hidden_layers", defaults.layers);
  c.hidden = size("hidden_size", defaults.hidden);
  c.heads = c.kv_heads = size("num_attention_heads", defaults.heads);
  if (fields.has("head_dim"))
    c.head_dim = fields.integer("head_dim", 1, kLargestWidth / c.heads);
  else if (defaults.head_dim > 0 && !fields.json().contains("head_dim"))
    c.head_dim = defaults.head_dim;
  else
    c.head_dim = width_of_heads(fields, "num_attention_heads", "hidden_size", c);
  const bool says = fields.json().contains("num_key_value_heads");
  c.kv_heads = fields.positive_int("num_key_value_heads", says || defaults.kv_heads == 0 ? c.heads : defaults.kv_heads);
  if (c.heads % c.kv_heads != 0) {
    fields.refuse("num_key_value_heads", "must divide num_attention_heads: " + std::to_string(c.heads) +
                                             " is no multiple of " + std::to_string(c.kv_heads));
  }
  c.inner = size(defaults.inner_name, defaults.inner);
  c.vocab = count("vocab_size", defaults.vocab);
  c.positions = fields.positive_int("max_position_embeddings", defaults.positions);
  if (defaults.reads_rotary) c.rotary = rotary_fields(fields, c.head_dim, c.positions, defaults.rotary);
  c.norm_epsilon = static_cast<float>(fields.positive(defaults.epsilon_name, defaults.epsilon));
  if (defaults.activation_name) c.activation = activation_field(fields, defaults.activation_name, defaults.activation);
  c.tied_head = file.ties_head(defaults.tied_head);
  special_tokens(file, c, defaults.tokens);
  return c;
}

TENON_INLINE std::vector<bool> layers_of_kind(const Fields& fields, int layers, std::string_view kind) {
  std::vector<bool> out;
  if (!fields.has("layer_types")) return out;
  for (const std::string& type : fields.strings("layer_types")) {
    if (type != kind && type != "full_attention")
      throw Error(Error::Kind::unsupported, fields.where("layer_types"),
                  "\"" + printable(type, 60) + "\" is not known");
    out.push_back(type == kind);
  }
  if (static_cast<int>(out.size()) != layers)
    fields.refuse("layer_types", "must name " + std::to_string(layers) + " layers, has " + std::to_string(out.size()));
  return out;
}

TENON_INLINE std::vector<bool> sliding_layers(const Fields& fields, int layers) {
  return layers_of_kind(fields, layers, "sliding_attention");
}

TENON_INLINE int window_field(const Fields& fields, int fallback) {
  if (fields.json().contains("sliding_window") && !fields.has("sliding_window")) return 0;
  return fields.positive_int("sliding_window", fallback);
}

TENON_INLINE void read_two_rotations(const Fields& fields, const RotaryDefaults& global, const RotaryDefaults& local,
                                     ModelConfig& c) {
  int positions = c.positions;  // max_position_embeddings is the length after scaling
  if (fields.has("rope_parameters") && fields.object("rope_parameters").has("full_attention")) {
    const Fields both = fields.object("rope_parameters");
    const Fields of_global = both.object("full_attention");
    c.rotary = rotary_scaling(fields, &of_global, c.head_dim, positions, global);
    if (!both.has("sliding_attention")) both.refuse("sliding_attention", "is missing");
    const Fields of_local = both.object("sliding_attention");
    c.local_rotary = rotary_scaling(fields, &of_local, c.head_dim, positions, local);
  } else {
    c.rotary = rotary_fields(fields, c.head_dim, positions, global);
    c.local_rotary = rotary_scaling(fields, nullptr, c.head_dim, positions, local);
    if (std::string_view(local.theta_name) == global.theta_name) c.local_rotary.theta = c.rotary.theta;
  }
}

TENON_INLINE void turn_windows_locally(ModelConfig& c) {
  if (c.rotary == c.local_rotary) return;
  for (int l = 0; l < c.layers; ++l) c.rotations.push_back(c.window_of(l) > 0 ? Rotation::local : Rotation::global);
}

TENON_INLINE DecoderSpec llama_like_tensors(const ModelConfig& c) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("embed_tokens.weight", {c.vocab, c.hidden});
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".", attention = h + "self_attn.", mlp = h + "mlp.";
    spec.layers.push_back(
        {.attention_norm = rms_norm_spec(h + "input_layernorm", c.hidden),
         .mlp_norm = rms_norm_spec(h + "post_attention_layernorm", c.hidden),
         .qkv = separate_heads_spec(c, attention + "q_proj", attention + "k_proj", attention + "v_proj",
                                    c.attention_bias || c.qkv_bias),
         .attention_out = linear_spec(attention + "o_proj", {c.hidden, c.query_width()}, c.attention_bias),
         .up = stacked_spec({{mlp + "gate_proj", c.inner}, {mlp + "up_proj", c.inner}}, c.hidden, c.mlp_bias),
         .down = linear_spec(mlp + "down_proj", {c.hidden, c.inner}, c.mlp_bias)});
  }
  spec.final_norm = rms_norm_spec("norm", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
  return spec;
}

TENON_INLINE void add_one(DecoderSpec::Norm& norm) { norm.gain.plus = 1; }

TENON_INLINE void pack_gates(const ModelConfig& c, DecoderSpec& spec) {
  for (int l = 0; l < c.layers; ++l)
    spec.layers[static_cast<std::size_t>(l)].up =
        linear_spec("layers." + std::to_string(l) + ".mlp.gate_up_proj", {2 * c.inner, c.hidden}, c.mlp_bias);
}

TENON_INLINE DecoderSpec plain_mlp_tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l)
    spec.layers[static_cast<std::size_t>(l)].up =
        linear_spec("layers." + std::to_string(l) + ".mlp.up_proj", {c.inner, c.hidden}, c.mlp_bias);
  return spec;
}

TENON_INLINE DecoderSpec output_norm_tensors(const ModelConfig& c, bool own) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.attention_norm = layer.mlp_norm = {};
    layer.attention_out_norm = rms_norm_spec(h + "post_attention_layernorm", c.hidden);
    layer.mlp_out_norm = rms_norm_spec(h + "post_feedforward_layernorm", c.hidden);
  }
  add_head_gains(c, own, spec);
  return spec;
}

TENON_INLINE ModelConfig configure_llama(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, Llama::model_type, {.tokens = {.bos = 1, .eos = 2}});
  refuse_window(fields, c);
  c.attention_bias = fields.boolean("attention_bias", false);
  c.mlp_bias = fields.boolean("mlp_bias", false);
  return c;
}

TENON_INLINE ModelConfig Llama::configure(const ConfigFile& file) {
  ModelConfig c = configure_llama(file);
  check_architectures(file.fields(), {"LlamaForCausalLM", "LlamaModel"});
  return c;
}

TENON_INLINE ModelConfig Llama::one_billion() {
  ModelConfig c = llama_like(model_type);
  c.layers = 16;
  c.hidden = 2048;
  c.heads = 32;
  c.kv_heads = 8;
  c.head_dim = 64;
  c.inner = 8192;
  c.vocab = 128256;
  c.positions = 131072;
  c.norm_epsilon = 1e-5f;
  c.rotary = {RotaryScaling::llama3, 500000, 32, 1, 4, 8192};
  return c;
}

}  // namespace tenon
