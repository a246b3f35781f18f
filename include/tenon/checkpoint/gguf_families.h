// The architectures of GGUF files that are read: which key is which field of config.json, and which tensor is which.
// Source: convert_hf_to_gguf.py of llama.cpp and gguf-py 0.19 (constants.py, tensor_mapping.py).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon::detail {

// The converter's reordering of a tensor's rows.
enum class GgufOrder : std::uint8_t {
  same,
  rotary,      // each head's rows i and i + head_dim / 2 were put side by side, for rotary positions of neighbours
  transposed,  // a matrix [inputs, outputs] (Conv1D) became [outputs, inputs]
  parts,       // queries, keys and values of each head became all queries, all keys, all values
};

// A key below the architecture, "block_count" for "llama.block_count", and the field of config.json that it gives.
struct GgufField {
  std::string_view key, field;
  bool needed = true;
};

// A tensor without its ".weight" or ".bias".
struct GgufName {
  std::string_view stored, name;
  GgufOrder order = GgufOrder::same;
};

// A key of these groups is checked, not mapped.
struct GgufRules {
  bool rotary = false;        // rope.dimension_count, rope.scaling.*, rope_freqs; attention.key_length is head_dim
  bool grouped_keys = false;  // attention.head_count_kv may be below attention.head_count
};

struct GgufFamily {
  std::string_view architecture, model_type;
  std::string_view heads;  // the field of config.json that has attention.head_count
  std::string_view layer;  // the prefix of a layer's tensors, before its number
  GgufRules rules;
  std::span<const GgufField> fields;
  std::span<const GgufName> tensors;  // outside layers
  std::span<const GgufName> of_layer;
};

inline constexpr GgufField kLlamaFields[] = {{"block_count", "num_hidden_layers"},
                                             {"context_length", "max_position_embeddings"},
                                             {"embedding_length", "hidden_size"},
                                             {"feed_forward_length", "intermediate_size"},
                                             {"attention.head_count", "num_attention_heads"},
                                             {"attention.head_count_kv", "num_key_value_heads", false},
                                             {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                             {"rope.freq_base", "rope_theta", false}};
inline constexpr GgufName kLlamaTensors[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
inline constexpr GgufName kLlamaLayer[] = {{"attn_norm", "input_layernorm"},
                                           {"attn_q", "self_attn.q_proj", GgufOrder::rotary},
                                           {"attn_k", "self_attn.k_proj", GgufOrder::rotary},
                                           {"attn_v", "self_attn.v_proj"},
                                           {"attn_output", "self_attn.o_proj"},
                                           {"ffn_norm", "post_attention_layernorm"},
                                           {"ffn_gate", "mlp.gate_proj"},
                                           {"ffn_up", "mlp.up_proj"},
                                           {"ffn_down", "mlp.down_proj"}};

inline constexpr GgufField kGpt2Fields[] = {
    {"block_count", "n_layer"},         {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},     {"feed_forward_length", "n_inner", false},
    {"attention.head_count", "n_head"}, {"attention.layer_norm_epsilon", "layer_norm_epsilon"}};
inline constexpr GgufName kGpt2Tensors[] = {{"token_embd", "transformer.wte"},
                                            {"position_embd", "transformer.wpe"},
                                            {"output_norm", "transformer.ln_f"},
                                            {"output", "lm_head"}};
inline constexpr GgufName kGpt2Layer[] = {{"attn_norm", "ln_1"},
                                          {"attn_qkv", "attn.c_attn", GgufOrder::transposed},
                                          {"attn_output", "attn.c_proj", GgufOrder::transposed},
                                          {"ffn_norm", "ln_2"},
                                          {"ffn_up", "mlp.c_fc", GgufOrder::transposed},
                                          {"ffn_down", "mlp.c_proj", GgufOrder::transposed}};
inline constexpr GgufName kStarcoderLayer[] = {{"attn_norm", "ln_1"},          {"attn_qkv", "attn.c_attn"},
                                               {"attn_output", "attn.c_proj"}, {"ffn_norm", "ln_2"},
                                               {"ffn_up", "mlp.c_fc"},         {"ffn_down", "mlp.c_proj"}};

inline constexpr GgufField kBloomFields[] = {
    {"block_count", "n_layer"},          {"context_length", "seq_length"},
    {"embedding_length", "hidden_size"}, {"feed_forward_length", "n_inner", false},
    {"attention.head_count", "n_head"},  {"attention.layer_norm_epsilon", "layer_norm_epsilon"}};
inline constexpr GgufName kBloomTensors[] = {{"token_embd", "transformer.word_embeddings"},
                                             {"token_embd_norm", "transformer.word_embeddings_layernorm"},
                                             {"output_norm", "transformer.ln_f"},
                                             {"output", "lm_head"}};
inline constexpr GgufName kBloomLayer[] = {
    {"attn_norm", "input_layernorm"},        {"attn_qkv", "self_attention.query_key_value", GgufOrder::parts},
    {"attn_output", "self_attention.dense"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.dense_h_to_4h"},         {"ffn_down", "mlp.dense_4h_to_h"}};

inline constexpr GgufFamily kGgufFamilies[] = {
    {"llama",
     "llama",
     "num_attention_heads",
     "model.layers.",
     {.rotary = true, .grouped_keys = true},
     kLlamaFields,
     kLlamaTensors,
     kLlamaLayer},
    {"gpt2", "gpt2", "n_head", "transformer.h.", {}, kGpt2Fields, kGpt2Tensors, kGpt2Layer},
    {"starcoder",
     "gpt_bigcode",
     "n_head",
     "transformer.h.",
     {.grouped_keys = true},
     kGpt2Fields,
     kGpt2Tensors,
     kStarcoderLayer},
    {"bloom", "bloom", "n_head", "transformer.h.", {}, kBloomFields, kBloomTensors, kBloomLayer},
};

}  // namespace tenon::detail
