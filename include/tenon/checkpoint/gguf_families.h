// The architectures of GGUF files that are read: which key is which field of config.json, and which tensor is which.
// Source: convert_hf_to_gguf.py of llama.cpp and gguf-py 0.19 (constants.py, tensor_mapping.py).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon::detail {

// The converter's change of a tensor.
enum class GgufOrder : std::uint8_t {
  same,
  rotary,      // each head's rows i and i + head_dim / 2 were put side by side, for rotary positions of neighbours
  transposed,  // a matrix [inputs, outputs] (Conv1D) became [outputs, inputs]
  parts,       // queries, keys and values of each head became all queries, all keys, all values
  plus_one,    // 1 was added
};

// A key below the architecture, "block_count" for "llama.block_count", and the field of config.json that it gives.
// Without a field the key is known and has no effect.
struct GgufField {
  std::string_view key, field;
  bool needed = true;
};

// A tensor without its ".weight" or ".bias".
struct GgufName {
  std::string_view stored, name;
  GgufOrder order = GgufOrder::same;
};

// How sizes of heads are read.
struct GgufHeads {
  bool rotary = false;    // rope.* are known, and config.json has head_dim
  bool grouped = false;   // attention.head_count_kv may be below attention.head_count
  std::string_view part;  // the field for rope.dimension_count / head_dim; empty: must be 1
  // Layers of the model whose scores are scaled by the width of all heads (Gemma's 27B; llama-model.cpp). 0: the
  // family has no query_pre_attn_scalar.
  int layers_of_27b = 0;
};

struct GgufFamily {
  std::string_view architecture, model_type;
  std::string_view layer;  // the prefix of a layer's tensors, before its number
  GgufHeads heads;
  std::span<const GgufField> fields, more_fields;
  std::span<const GgufName> tensors;  // outside layers
  std::span<const GgufName> of_layer;
};

inline constexpr GgufField kGgufSizes[] = {{"block_count", "num_hidden_layers"},
                                           {"context_length", "max_position_embeddings"},
                                           {"embedding_length", "hidden_size"},
                                           {"feed_forward_length", "intermediate_size"},
                                           {"attention.head_count", "num_attention_heads"},
                                           {"attention.head_count_kv", "num_key_value_heads", false},
                                           {"rope.freq_base", "rope_theta", false}};
inline constexpr GgufField kRmsNorm[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"}};
inline constexpr GgufField kLayerNorm[] = {{"attention.layer_norm_epsilon", "layer_norm_eps"}};
inline constexpr GgufName kGgufTensors[] = {
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
// Qwen2, StableLM: rows keep their order.
inline constexpr GgufName kQwen2Layer[] = {
    {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"}};
// Qwen3, Command R
inline constexpr GgufName kQwen3Layer[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
inline constexpr GgufName kOlmo2Layer[] = {{"attn_q", "self_attn.q_proj"},
                                           {"attn_k", "self_attn.k_proj"},
                                           {"attn_v", "self_attn.v_proj"},
                                           {"attn_q_norm", "self_attn.q_norm"},
                                           {"attn_k_norm", "self_attn.k_norm"},
                                           {"attn_output", "self_attn.o_proj"},
                                           {"post_attention_norm", "post_attention_layernorm"},
                                           {"post_ffw_norm", "post_feedforward_layernorm"},
                                           {"ffn_gate", "mlp.gate_proj"},
                                           {"ffn_up", "mlp.up_proj"},
                                           {"ffn_down", "mlp.down_proj"}};
inline constexpr GgufName kStarcoder2Layer[] = {
    {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.c_fc"},           {"ffn_down", "mlp.c_proj"}};
inline constexpr GgufField kStarcoder2Fields[] = {{"attention.layer_norm_epsilon", "norm_epsilon"}};
inline constexpr GgufField kGraniteFields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                               {"attention.scale", "attention_multiplier", false},
                                               {"embedding_scale", "embedding_multiplier", false},
                                               {"residual_scale", "residual_multiplier", false},
                                               {"logit_scale", "logits_scaling", false}};
inline constexpr GgufField kCommandRFields[] = {{"attention.layer_norm_epsilon", "layer_norm_eps"},
                                                {"logit_scale", "logit_scale"}};
inline constexpr GgufField kStableLmFields[] = {{"attention.layer_norm_epsilon", "layer_norm_eps"},
                                                {"use_parallel_residual", "use_parallel_residual"}};
inline constexpr GgufField kOlmoFields[] = {{"attention.layer_norm_epsilon", ""}};  // 1e-5 in the family

inline constexpr GgufField kGemma2Fields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                              {"attn_logit_softcapping", "attn_logit_softcapping", false},
                                              {"final_logit_softcapping", "final_logit_softcapping", false},
                                              {"attention.sliding_window", "sliding_window", false}};
inline constexpr GgufField kGemma3Fields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                              {"final_logit_softcapping", "final_logit_softcapping", false},
                                              {"attention.sliding_window", "sliding_window", false},
                                              {"rope.freq_base_swa", "rope_local_base_freq", false}};
inline constexpr GgufName kGemmaTensors[] = {{"token_embd", "model.embed_tokens"},
                                             {"output_norm", "model.norm", GgufOrder::plus_one}};
inline constexpr GgufName kGemmaLayer[] = {{"attn_norm", "input_layernorm", GgufOrder::plus_one},
                                           {"attn_q", "self_attn.q_proj"},
                                           {"attn_k", "self_attn.k_proj"},
                                           {"attn_v", "self_attn.v_proj"},
                                           {"attn_output", "self_attn.o_proj"},
                                           {"ffn_norm", "post_attention_layernorm", GgufOrder::plus_one},
                                           {"ffn_gate", "mlp.gate_proj"},
                                           {"ffn_up", "mlp.up_proj"},
                                           {"ffn_down", "mlp.down_proj"}};
inline constexpr GgufName kGemma2Layer[] = {{"attn_norm", "input_layernorm", GgufOrder::plus_one},
                                            {"attn_q", "self_attn.q_proj"},
                                            {"attn_k", "self_attn.k_proj"},
                                            {"attn_v", "self_attn.v_proj"},
                                            {"attn_output", "self_attn.o_proj"},
                                            {"post_attention_norm", "post_attention_layernorm", GgufOrder::plus_one},
                                            {"ffn_norm", "pre_feedforward_layernorm", GgufOrder::plus_one},
                                            {"ffn_gate", "mlp.gate_proj"},
                                            {"ffn_up", "mlp.up_proj"},
                                            {"ffn_down", "mlp.down_proj"},
                                            {"post_ffw_norm", "post_feedforward_layernorm", GgufOrder::plus_one}};
inline constexpr GgufName kGemma3Layer[] = {{"attn_norm", "input_layernorm", GgufOrder::plus_one},
                                            {"attn_q", "self_attn.q_proj"},
                                            {"attn_k", "self_attn.k_proj"},
                                            {"attn_v", "self_attn.v_proj"},
                                            {"attn_q_norm", "self_attn.q_norm", GgufOrder::plus_one},
                                            {"attn_k_norm", "self_attn.k_norm", GgufOrder::plus_one},
                                            {"attn_output", "self_attn.o_proj"},
                                            {"post_attention_norm", "post_attention_layernorm", GgufOrder::plus_one},
                                            {"ffn_norm", "pre_feedforward_layernorm", GgufOrder::plus_one},
                                            {"ffn_gate", "mlp.gate_proj"},
                                            {"ffn_up", "mlp.up_proj"},
                                            {"ffn_down", "mlp.down_proj"},
                                            {"post_ffw_norm", "post_feedforward_layernorm", GgufOrder::plus_one}};

inline constexpr GgufName kPhi2Tensors[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.final_layernorm"}, {"output", "lm_head"}};
inline constexpr GgufName kPhi2Layer[] = {
    {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},     {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.dense"}, {"ffn_up", "mlp.fc1"},
    {"ffn_down", "mlp.fc2"}};
inline constexpr GgufField kPhi3Fields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                            {"attention.sliding_window", "sliding_window", false}};
inline constexpr GgufName kPhi3Layer[] = {{"attn_norm", "input_layernorm"},    {"attn_qkv", "self_attn.qkv_proj"},
                                          {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
                                          {"ffn_up", "mlp.gate_up_proj"},      {"ffn_down", "mlp.down_proj"}};
inline constexpr GgufName kGptNeoXTensors[] = {
    {"token_embd", "gpt_neox.embed_in"}, {"output_norm", "gpt_neox.final_layer_norm"}, {"output", "embed_out"}};
inline constexpr GgufName kGptNeoXLayer[] = {
    {"attn_norm", "input_layernorm"},   {"attn_qkv", "attention.query_key_value", GgufOrder::parts},
    {"attn_output", "attention.dense"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.dense_h_to_4h"},    {"ffn_down", "mlp.dense_4h_to_h"}};

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

inline constexpr GgufHeads kPlainHeads{};
inline constexpr GgufHeads kSharedKeys{.grouped = true, .part = {}};
inline constexpr GgufHeads kGgufRotary{.rotary = true, .grouped = true, .part = {}};
inline constexpr GgufHeads kGemma2Heads{.rotary = true, .grouped = true, .part = {}, .layers_of_27b = 46};
inline constexpr GgufHeads kGemma3Heads{.rotary = true, .grouped = true, .part = {}, .layers_of_27b = 62};
inline constexpr GgufHeads kGgufPartly{.rotary = true, .grouped = true, .part = "partial_rotary_factor"};
inline constexpr GgufHeads kGptNeoXHeads{.rotary = true, .part = "rotary_pct"};

inline constexpr std::string_view kGgufLayers = "model.layers.", kGgufBlocks = "transformer.h.";
inline constexpr GgufFamily kGgufFamilies[] = {
    {"llama", "llama", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kLlamaLayer},
    {"smollm3", "smollm3", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kLlamaLayer},
    {"granite", "granite", kGgufLayers, kGgufRotary, kGgufSizes, kGraniteFields, kGgufTensors, kLlamaLayer},
    {"olmo", "olmo", kGgufLayers, kGgufRotary, kGgufSizes, kOlmoFields, kGgufTensors, kLlamaLayer},
    {"olmo2", "olmo2", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kOlmo2Layer},
    {"qwen2", "qwen2", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kQwen2Layer},
    {"qwen3", "qwen3", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kQwen3Layer},
    {"command-r", "cohere", kGgufLayers, kGgufRotary, kGgufSizes, kCommandRFields, kGgufTensors, kQwen3Layer},
    {"stablelm", "stablelm", kGgufLayers, kGgufPartly, kGgufSizes, kStableLmFields, kGgufTensors, kQwen2Layer},
    {"starcoder2", "starcoder2", kGgufLayers, kGgufRotary, kGgufSizes, kStarcoder2Fields, kGgufTensors,
     kStarcoder2Layer},
    {"gemma", "gemma", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGemmaTensors, kGemmaLayer},
    {"gemma2", "gemma2", kGgufLayers, kGemma2Heads, kGgufSizes, kGemma2Fields, kGemmaTensors, kGemma2Layer},
    {"gemma3", "gemma3_text", kGgufLayers, kGemma3Heads, kGgufSizes, kGemma3Fields, kGemmaTensors, kGemma3Layer},
    {"phi2", "phi", kGgufLayers, kGgufPartly, kGgufSizes, kLayerNorm, kPhi2Tensors, kPhi2Layer},
    {"phi3", "phi3", kGgufLayers, kGgufPartly, kGgufSizes, kPhi3Fields, kGgufTensors, kPhi3Layer},
    {"gptneox", "gpt_neox", "gpt_neox.layers.", kGptNeoXHeads, kGgufSizes, kStableLmFields, kGptNeoXTensors,
     kGptNeoXLayer},
    {"gpt2", "gpt2", kGgufBlocks, kPlainHeads, kGpt2Fields, {}, kGpt2Tensors, kGpt2Layer},
    {"starcoder", "gpt_bigcode", kGgufBlocks, kSharedKeys, kGpt2Fields, {}, kGpt2Tensors, kStarcoderLayer},
    {"bloom", "bloom", kGgufBlocks, kPlainHeads, kBloomFields, {}, kBloomTensors, kBloomLayer},
};

}  // namespace tenon::detail
