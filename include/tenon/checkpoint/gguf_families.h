// The architectures of GGUF files that are read: which key is which field of config.json, and which tensor is which.
// Source: convert_hf_to_gguf.py of llama.cpp and gguf-py 0.19 (constants.py, tensor_mapping.py).
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
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
  plus_one,    // 1 was added to a gain
  taps,        // the middle dimension of [n, 1, taps] was removed
  one_row,     // a matrix [1, n] may have become a vector
  bare,        // ".weight" was appended; or ".bias" in place of "_bias"
  experts,     // matrices of all experts were stacked; "#" in the name is the number of the expert
  stack,       // of stacked matrices [experts, inputs, outputs], each became [outputs, inputs]; a bias ends in "_bias"
  gate,
  up,  // the same, and of rows that alternate, gate has the even ones and up the odd ones
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
  bool rotary = false;     // rope.* are known, and config.json has head_dim
  bool grouped = false;    // attention.head_count_kv may be below attention.head_count
  bool one_key = false;    // attention.head_count_kv must be 1
  bool of_layers = false;  // it has a number for each layer: 0 in layers with a short convolution
  std::string_view part;   // the field for rope.dimension_count / head_dim; empty: must be 1
  bool scaled = true;      // the class in transformers reads rope_scaling
  bool whole_ramp = true;  // yarn's ramp begins and ends at whole dimensions
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
  bool mixture = false;  // expert_count is above 0
};

// Lists of tensors, joined.
template <std::size_t... Sizes>
constexpr auto joined(const std::array<GgufName, Sizes>&... lists) {
  std::array<GgufName, (Sizes + ...)> out{};
  auto at = out.begin();
  ((at = std::copy(lists.begin(), lists.end(), at)), ...);
  return out;
}

// The same tensors in another order.
template <std::size_t Size>
constexpr auto reordered(std::array<GgufName, Size> list, GgufOrder order) {
  for (GgufName& each : list) each.order = order;
  return list;
}

inline constexpr GgufField kGgufSizes[] = {{"block_count", "num_hidden_layers"},
                                           {"context_length", "max_position_embeddings"},
                                           {"embedding_length", "hidden_size"},
                                           {"feed_forward_length", "intermediate_size"},
                                           {"attention.head_count", "num_attention_heads"},
                                           {"attention.head_count_kv", "num_key_value_heads", false},
                                           {"rope.freq_base", "rope_theta", false}};
inline constexpr GgufField kRmsNorm[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"}};
inline constexpr GgufField kLayerNorm[] = {{"attention.layer_norm_epsilon", "layer_norm_eps"}};

// The parts of layers that most families name alike.
inline constexpr auto kQueriesKeys =
    std::to_array<GgufName>({{"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"}});
inline constexpr auto kValuesOut =
    std::to_array<GgufName>({{"attn_v", "self_attn.v_proj"}, {"attn_output", "self_attn.o_proj"}});
inline constexpr auto kHeadNorms =
    std::to_array<GgufName>({{"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"}});
inline constexpr auto kInputNorms =
    std::to_array<GgufName>({{"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"}});
inline constexpr auto kOutputNorms = std::to_array<GgufName>(
    {{"post_attention_norm", "post_attention_layernorm"}, {"post_ffw_norm", "post_feedforward_layernorm"}});
inline constexpr auto kGatedMlp =
    std::to_array<GgufName>({{"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}});
inline constexpr auto kPlainMlp = std::to_array<GgufName>({{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}});
inline constexpr auto kUpDown = std::to_array<GgufName>({{"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}});
inline constexpr auto kWideMlp =
    std::to_array<GgufName>({{"ffn_up", "mlp.dense_h_to_4h"}, {"ffn_down", "mlp.dense_4h_to_h"}});

inline constexpr auto kGgufTensors = std::to_array<GgufName>(
    {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}});
inline constexpr auto kHeads = joined(kQueriesKeys, kValuesOut);
inline constexpr auto kLlamaLayer =
    joined(kInputNorms, reordered(kQueriesKeys, GgufOrder::rotary), kValuesOut, kGatedMlp);
inline constexpr auto kQwen2Layer = joined(kInputNorms, kHeads, kGatedMlp);  // Qwen2, StableLM: rows keep their order
inline constexpr auto kQwen3Layer = joined(kQwen2Layer, kHeadNorms);         // Qwen3, Command R
inline constexpr auto kHunYuanLayer =
    joined(kQwen2Layer, std::to_array<GgufName>({{"attn_q_norm", "self_attn.query_layernorm"},
                                                 {"attn_k_norm", "self_attn.key_layernorm"}}));
inline constexpr auto kOlmo2Layer = joined(kHeads, kHeadNorms, kOutputNorms, kGatedMlp);
inline constexpr auto kStarcoder2Layer = joined(kInputNorms, kHeads, kPlainMlp);
inline constexpr GgufField kStarcoder2Fields[] = {{"attention.layer_norm_epsilon", "norm_epsilon"}};
inline constexpr GgufField kGraniteFields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                               {"attention.scale", "attention_multiplier", false},
                                               {"embedding_scale", "embedding_multiplier", false},
                                               {"residual_scale", "residual_multiplier", false},
                                               {"logit_scale", "logits_scaling", false}};
inline constexpr GgufField kCommandRFields[] = {{"attention.layer_norm_epsilon", "layer_norm_eps"},
                                                {"logit_scale", "logit_scale"}};
inline constexpr GgufField kCohere2Fields[] = {{"attention.layer_norm_epsilon", "layer_norm_eps"},
                                               {"logit_scale", "logit_scale"},
                                               {"attention.sliding_window", "sliding_window"}};
inline constexpr auto kArceeLayer =
    joined(kInputNorms, reordered(kQueriesKeys, GgufOrder::rotary), kValuesOut, kUpDown);
inline constexpr GgufField kNemotronFields[] = {{"attention.layer_norm_epsilon", "norm_eps"}};
inline constexpr auto kNemotronTensors = std::to_array<GgufName>(
    {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm", GgufOrder::plus_one}, {"output", "lm_head"}});
inline constexpr auto kNemotronLayer = joined(reordered(kInputNorms, GgufOrder::plus_one), kHeads, kUpDown);
inline constexpr auto kGlm4Layer = joined(kInputNorms, kHeads,
                                          std::to_array<GgufName>({{"post_attention_norm", "post_self_attn_layernorm"},
                                                                   {"post_ffw_norm", "post_mlp_layernorm"},
                                                                   {"ffn_up", "mlp.gate_up_proj"},
                                                                   {"ffn_down", "mlp.down_proj"}}));
// Qwen-VL's files of the decoder. Sections and layers that images change have no effect on texts.
inline constexpr GgufField kQwenVlFields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                              {"rope.dimension_sections", "", false},
                                              {"n_deepstack_layers", "", false}};
inline constexpr GgufField kLfm2Fields[] = {{"block_count", "num_hidden_layers"},
                                            {"context_length", "max_position_embeddings"},
                                            {"embedding_length", "hidden_size"},
                                            {"feed_forward_length", "intermediate_size"},
                                            {"attention.head_count", "num_attention_heads"},
                                            {"attention.layer_norm_rms_epsilon", "norm_eps"},
                                            {"rope.freq_base", "rope_theta", false},
                                            {"shortconv.l_cache", "conv_L_cache"}};
inline constexpr GgufField kLfm2MoeFields[] = {{"expert_feed_forward_length", "moe_intermediate_size"},
                                               {"leading_dense_block_count", "num_dense_layers"}};
inline constexpr auto kLfm2Tensors = std::to_array<GgufName>(
    {{"token_embd", "model.embed_tokens"}, {"token_embd_norm", "model.embedding_norm"}, {"output", "lm_head"}});
inline constexpr auto kLfm2Layer =
    joined(kQueriesKeys, std::to_array<GgufName>({{"attn_v", "self_attn.v_proj"},
                                                  {"attn_output", "self_attn.out_proj"},
                                                  {"attn_q_norm", "self_attn.q_layernorm"},
                                                  {"attn_k_norm", "self_attn.k_layernorm"},
                                                  {"attn_norm", "operator_norm"},
                                                  {"ffn_norm", "ffn_norm"},
                                                  {"ffn_gate", "feed_forward.w1"},
                                                  {"ffn_up", "feed_forward.w3"},
                                                  {"ffn_down", "feed_forward.w2"},
                                                  {"shortconv.conv", "conv.conv", GgufOrder::taps},
                                                  {"shortconv.in_proj", "conv.in_proj"},
                                                  {"shortconv.out_proj", "conv.out_proj"}}));
inline constexpr auto kLfm2MoeLayer =
    joined(kLfm2Layer, std::to_array<GgufName>({{"ffn_gate_inp", "feed_forward.gate"},
                                                {"exp_probs_b", "feed_forward.expert", GgufOrder::bare},  // ..._bias
                                                {"ffn_gate_exps", "feed_forward.experts.#.w1", GgufOrder::experts},
                                                {"ffn_up_exps", "feed_forward.experts.#.w3", GgufOrder::experts},
                                                {"ffn_down_exps", "feed_forward.experts.#.w2", GgufOrder::experts}}));
// Ministral 3, and Mistral Small 3.1, whose files have neither of the two.
inline constexpr GgufField kMinistral3Fields[] = {
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.temperature_scale", "rope_scaling.llama_4_scaling_beta", false},
    {"rope.scaling.yarn_log_multiplier", "rope_scaling.mscale_all_dim", false}};
inline constexpr GgufField kStableLmFields[] = {{"attention.layer_norm_epsilon", "layer_norm_eps"},
                                                {"use_parallel_residual", "use_parallel_residual"}};
inline constexpr GgufField kOlmoFields[] = {{"attention.layer_norm_epsilon", ""},  // 1e-5 in the family
                                            {"attention.clamp_kqv", "clip_qkv", false}};

inline constexpr GgufField kGemma2Fields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                              {"attn_logit_softcapping", "attn_logit_softcapping", false},
                                              {"final_logit_softcapping", "final_logit_softcapping", false},
                                              {"attention.sliding_window", "sliding_window", false}};
inline constexpr GgufField kGemma3Fields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                              {"final_logit_softcapping", "final_logit_softcapping", false},
                                              {"attention.sliding_window", "sliding_window", false},
                                              {"rope.freq_base_swa", "rope_local_base_freq", false}};
inline constexpr auto kGemmaTensors =
    std::to_array<GgufName>({{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm", GgufOrder::plus_one}});
inline constexpr auto kGemmaLayer = joined(reordered(kInputNorms, GgufOrder::plus_one), kHeads, kGatedMlp);
inline constexpr auto kGemma2Norms =
    joined(std::to_array<GgufName>({{"attn_norm", "input_layernorm"}, {"ffn_norm", "pre_feedforward_layernorm"}}),
           kOutputNorms);
inline constexpr auto kGemma2Layer = joined(reordered(kGemma2Norms, GgufOrder::plus_one), kHeads, kGatedMlp);
inline constexpr auto kGemma3Layer = joined(kGemma2Layer, reordered(kHeadNorms, GgufOrder::plus_one));

inline constexpr auto kPhi2Tensors = std::to_array<GgufName>(
    {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.final_layernorm"}, {"output", "lm_head"}});
inline constexpr auto kPhi2Layer = joined(kQueriesKeys, std::to_array<GgufName>({{"attn_norm", "input_layernorm"},
                                                                                 {"attn_v", "self_attn.v_proj"},
                                                                                 {"attn_output", "self_attn.dense"},
                                                                                 {"ffn_up", "mlp.fc1"},
                                                                                 {"ffn_down", "mlp.fc2"}}));
inline constexpr GgufField kPhi3Fields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                            {"attention.sliding_window", "sliding_window", false}};
inline constexpr auto kPhi3Layer = joined(kInputNorms, std::to_array<GgufName>({{"attn_qkv", "self_attn.qkv_proj"},
                                                                                {"attn_output", "self_attn.o_proj"},
                                                                                {"ffn_up", "mlp.gate_up_proj"},
                                                                                {"ffn_down", "mlp.down_proj"}}));
inline constexpr GgufField kGptNeoXFields[] = {{"block_count", "num_hidden_layers"},
                                               {"context_length", "max_position_embeddings"},
                                               {"embedding_length", "hidden_size"},
                                               {"feed_forward_length", "intermediate_size"},
                                               {"attention.head_count", "num_attention_heads"},
                                               {"attention.layer_norm_epsilon", "layer_norm_eps"},
                                               {"use_parallel_residual", "use_parallel_residual"},
                                               {"rope.freq_base", "rotary_emb_base", false}};
inline constexpr auto kGptNeoXTensors = std::to_array<GgufName>(
    {{"token_embd", "gpt_neox.embed_in"}, {"output_norm", "gpt_neox.final_layer_norm"}, {"output", "embed_out"}});
inline constexpr auto kGptNeoXLayer =
    joined(kInputNorms, kWideMlp,
           std::to_array<GgufName>(
               {{"attn_qkv", "attention.query_key_value", GgufOrder::parts}, {"attn_output", "attention.dense"}}));

inline constexpr GgufField kGpt2Fields[] = {
    {"block_count", "n_layer"},         {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},     {"feed_forward_length", "n_inner", false},
    {"attention.head_count", "n_head"}, {"attention.layer_norm_epsilon", "layer_norm_epsilon"}};
inline constexpr auto kGpt2Tensors = std::to_array<GgufName>({{"token_embd", "transformer.wte"},
                                                              {"position_embd", "transformer.wpe"},
                                                              {"output_norm", "transformer.ln_f"},
                                                              {"output", "lm_head"}});
inline constexpr auto kGpt2Norms = std::to_array<GgufName>({{"attn_norm", "ln_1"}, {"ffn_norm", "ln_2"}});
inline constexpr auto kGpt2Matrices =
    joined(std::to_array<GgufName>({{"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"}}), kPlainMlp);
inline constexpr auto kGpt2Layer = joined(kGpt2Norms, reordered(kGpt2Matrices, GgufOrder::transposed));
inline constexpr auto kStarcoderLayer = joined(kGpt2Norms, kGpt2Matrices);

inline constexpr GgufField kBloomFields[] = {
    {"block_count", "n_layer"},          {"context_length", "seq_length"},
    {"embedding_length", "hidden_size"}, {"feed_forward_length", "n_inner", false},
    {"attention.head_count", "n_head"},  {"attention.layer_norm_epsilon", "layer_norm_epsilon"}};
inline constexpr auto kBloomTensors =
    std::to_array<GgufName>({{"token_embd", "transformer.word_embeddings"},
                             {"token_embd_norm", "transformer.word_embeddings_layernorm"},
                             {"output_norm", "transformer.ln_f"},
                             {"output", "lm_head"}});
inline constexpr auto kBloomLayer =
    joined(kInputNorms, kWideMlp,
           std::to_array<GgufName>({{"attn_qkv", "self_attention.query_key_value", GgufOrder::parts},
                                    {"attn_output", "self_attention.dense"}}));

// Falcon 7B: one head of keys and values, so the rows of query_key_value keep their order.
inline constexpr GgufField kFalconFields[] = {{"block_count", "num_hidden_layers"},
                                              {"context_length", "max_position_embeddings"},
                                              {"embedding_length", "hidden_size"},
                                              {"feed_forward_length", "ffn_hidden_size"},
                                              {"attention.head_count", "num_attention_heads"},
                                              {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
                                              {"rope.freq_base", "rope_theta", false}};
inline constexpr auto kFalconTensors = std::to_array<GgufName>(
    {{"token_embd", "transformer.word_embeddings"}, {"output_norm", "transformer.ln_f"}, {"output", "lm_head"}});
inline constexpr auto kFalconLayer =
    joined(kWideMlp, std::to_array<GgufName>({{"attn_norm", "input_layernorm"},
                                              {"attn_qkv", "self_attention.query_key_value"},
                                              {"attn_output", "self_attention.dense"}}));

inline constexpr GgufField kMptFields[] = {
    {"block_count", "n_layers"},         {"context_length", "max_seq_len"},
    {"embedding_length", "d_model"},     {"feed_forward_length", ""},
    {"attention.head_count", "n_heads"}, {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
    {"attention.max_alibi_bias", ""},    {"attention.clamp_kqv", "attn_config.clip_qkv", false}};
inline constexpr auto kMptTensors = std::to_array<GgufName>(
    {{"token_embd", "transformer.wte"}, {"output_norm", "transformer.norm_f"}, {"output", "lm_head"}});
inline constexpr auto kMptLayer = std::to_array<GgufName>({{"attn_norm", "norm_1"},
                                                           {"ffn_norm", "norm_2"},
                                                           {"attn_qkv", "attn.Wqkv"},
                                                           {"attn_output", "attn.out_proj"},
                                                           {"ffn_up", "ffn.up_proj"},
                                                           {"ffn_down", "ffn.down_proj"}});

// Mixtures of experts. Their converters drop norm_topk_prob, and the architecture gives it, as in llama.cpp.
inline constexpr auto kMixtralLayer = joined(
    kLlamaLayer, std::to_array<GgufName>({{"ffn_gate_inp", "block_sparse_moe.gate"},
                                          {"ffn_gate_exps", "block_sparse_moe.experts.#.w1", GgufOrder::experts},
                                          {"ffn_up_exps", "block_sparse_moe.experts.#.w3", GgufOrder::experts},
                                          {"ffn_down_exps", "block_sparse_moe.experts.#.w2", GgufOrder::experts}}));
inline constexpr auto kQwenExperts =
    std::to_array<GgufName>({{"ffn_gate_inp", "mlp.gate"},
                             {"ffn_gate_exps", "mlp.experts.#.gate_proj", GgufOrder::experts},
                             {"ffn_up_exps", "mlp.experts.#.up_proj", GgufOrder::experts},
                             {"ffn_down_exps", "mlp.experts.#.down_proj", GgufOrder::experts}});
inline constexpr auto kQwen3MoeLayer = joined(kQwen3Layer, kQwenExperts);
inline constexpr auto kQwen2MoeLayer =
    joined(kQwen2Layer, kQwenExperts,
           std::to_array<GgufName>({{"ffn_gate_inp_shexp", "mlp.shared_expert_gate", GgufOrder::one_row},
                                    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                    {"ffn_down_shexp", "mlp.shared_expert.down_proj"}}));
inline constexpr GgufField kQwen2MoeFields[] = {
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", false}};
inline constexpr GgufField kQwen3MoeFields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                                {"expert_feed_forward_length", "moe_intermediate_size"}};
inline constexpr GgufField kGptOssFields[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                              {"attention.sliding_window", "sliding_window"},
                                              {"expert_feed_forward_length", "intermediate_size"}};
inline constexpr auto kGptOssLayer =
    joined(kHeads, std::to_array<GgufName>({{"attn_norm", "input_layernorm"},
                                            {"post_attention_norm", "post_attention_layernorm"},
                                            {"attn_sinks", "self_attn.sinks", GgufOrder::bare},
                                            {"ffn_gate_inp", "mlp.router"},
                                            {"ffn_gate_exps", "mlp.experts.gate_up_proj", GgufOrder::gate},
                                            {"ffn_up_exps", "mlp.experts.gate_up_proj", GgufOrder::up},
                                            {"ffn_down_exps", "mlp.experts.down_proj", GgufOrder::stack}}));

inline constexpr GgufHeads kPlainHeads{};
inline constexpr GgufHeads kOneKeyHead{.grouped = true, .one_key = true, .part = {}};
inline constexpr GgufHeads kGgufRotary{.rotary = true, .grouped = true, .part = {}};
inline constexpr GgufHeads kFalconHeads{.rotary = true, .grouped = true, .one_key = true, .part = {}};
inline constexpr GgufHeads kGemma2Heads{.rotary = true, .grouped = true, .part = {}, .layers_of_27b = 46};
inline constexpr GgufHeads kGemma3Heads{.rotary = true, .grouped = true, .part = {}, .layers_of_27b = 62};
inline constexpr GgufHeads kGgufPartly{.rotary = true, .grouped = true, .part = "partial_rotary_factor"};
inline constexpr GgufHeads kNemotronHeads{
    .rotary = true, .grouped = true, .part = "partial_rotary_factor", .scaled = false};
inline constexpr GgufHeads kGptOssHeads{.rotary = true, .grouped = true, .part = {}, .whole_ramp = false};
inline constexpr GgufHeads kLfm2Heads{.rotary = true, .grouped = true, .of_layers = true, .part = {}};
inline constexpr GgufHeads kGptNeoXHeads{.rotary = true, .part = "rotary_pct"};

inline constexpr std::string_view kGgufLayers = "model.layers.", kGgufBlocks = "transformer.h.";
inline constexpr GgufFamily kGgufFamilies[] = {
    {"llama", "llama", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kLlamaLayer},
    {"mistral3", "ministral3", kGgufLayers, kGgufRotary, kGgufSizes, kMinistral3Fields, kGgufTensors, kLlamaLayer},
    {"hunyuan-dense", "hunyuan_v1_dense", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kHunYuanLayer},
    {"smollm3", "smollm3", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kLlamaLayer},
    {"granite", "granite", kGgufLayers, kGgufRotary, kGgufSizes, kGraniteFields, kGgufTensors, kLlamaLayer},
    {"olmo", "olmo", kGgufLayers, kGgufRotary, kGgufSizes, kOlmoFields, kGgufTensors, kLlamaLayer},
    {"olmo2", "olmo2", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kOlmo2Layer},
    {"qwen2", "qwen2", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kQwen2Layer},
    {"qwen3", "qwen3", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kQwen3Layer},
    {"qwen2vl", "qwen2", kGgufLayers, kGgufRotary, kGgufSizes, kQwenVlFields, kGgufTensors, kQwen2Layer},
    {"qwen3vl", "qwen3", kGgufLayers, kGgufRotary, kGgufSizes, kQwenVlFields, kGgufTensors, kQwen3Layer},
    {"command-r", "cohere", kGgufLayers, kGgufRotary, kGgufSizes, kCommandRFields, kGgufTensors, kQwen3Layer},
    {"cohere2", "cohere2", kGgufLayers, kGgufRotary, kGgufSizes, kCohere2Fields, kGgufTensors, kQwen2Layer},
    {"lfm2", "lfm2", kGgufLayers, kLfm2Heads, kLfm2Fields, {}, kLfm2Tensors, kLfm2Layer},
    {"arcee", "arcee", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kArceeLayer},
    {"nemotron", "nemotron", kGgufLayers, kNemotronHeads, kGgufSizes, kNemotronFields, kNemotronTensors,
     kNemotronLayer},
    {"glm4", "glm4", kGgufLayers, kGgufPartly, kGgufSizes, kRmsNorm, kGgufTensors, kGlm4Layer},
    {"stablelm", "stablelm", kGgufLayers, kGgufPartly, kGgufSizes, kStableLmFields, kGgufTensors, kQwen2Layer},
    {"starcoder2", "starcoder2", kGgufLayers, kGgufRotary, kGgufSizes, kStarcoder2Fields, kGgufTensors,
     kStarcoder2Layer},
    {"gemma", "gemma", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGemmaTensors, kGemmaLayer},
    {"gemma2", "gemma2", kGgufLayers, kGemma2Heads, kGgufSizes, kGemma2Fields, kGemmaTensors, kGemma2Layer},
    {"gemma3", "gemma3_text", kGgufLayers, kGemma3Heads, kGgufSizes, kGemma3Fields, kGemmaTensors, kGemma3Layer},
    {"phi2", "phi", kGgufLayers, kGgufPartly, kGgufSizes, kLayerNorm, kPhi2Tensors, kPhi2Layer},
    {"phi3", "phi3", kGgufLayers, kGgufPartly, kGgufSizes, kPhi3Fields, kGgufTensors, kPhi3Layer},
    {"gptneox", "gpt_neox", "gpt_neox.layers.", kGptNeoXHeads, kGptNeoXFields, {}, kGptNeoXTensors, kGptNeoXLayer},
    {"gpt2", "gpt2", kGgufBlocks, kPlainHeads, kGpt2Fields, {}, kGpt2Tensors, kGpt2Layer},
    {"starcoder", "gpt_bigcode", kGgufBlocks, kOneKeyHead, kGpt2Fields, {}, kGpt2Tensors, kStarcoderLayer},
    {"bloom", "bloom", kGgufBlocks, kPlainHeads, kBloomFields, {}, kBloomTensors, kBloomLayer},
    {"falcon", "falcon", kGgufBlocks, kFalconHeads, kFalconFields, {}, kFalconTensors, kFalconLayer},
    {"mpt", "mpt", "transformer.blocks.", kPlainHeads, kMptFields, {}, kMptTensors, kMptLayer},
    {"llama", "mixtral", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kMixtralLayer, true},
    {"olmoe", "olmoe", kGgufLayers, kGgufRotary, kGgufSizes, kRmsNorm, kGgufTensors, kQwen3MoeLayer, true},
    {"qwen3moe", "qwen3_moe", kGgufLayers, kGgufRotary, kGgufSizes, kQwen3MoeFields, kGgufTensors, kQwen3MoeLayer,
     true},
    {"qwen2moe", "qwen2_moe", kGgufLayers, kGgufRotary, kGgufSizes, kQwen2MoeFields, kGgufTensors, kQwen2MoeLayer,
     true},
    {"lfm2moe", "lfm2_moe", kGgufLayers, kLfm2Heads, kLfm2Fields, kLfm2MoeFields, kLfm2Tensors, kLfm2MoeLayer, true},
    {"gpt-oss", "gpt_oss", kGgufLayers, kGptOssHeads, kGgufSizes, kGptOssFields, kGgufTensors, kGptOssLayer, true},
};

}  // namespace tenon::detail
