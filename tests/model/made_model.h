// A model folder with random weights in the shapes of a config.json.
#pragma once
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "../checkpoint/tensor_file.h"
#include "../io/scratch.h"
#include "tenon/checkpoint/config.h"
#include "tenon/model/config.h"
#include "tenon/model/parts.h"
#include "tenon/model/random.h"
#include "tenon/model/traits.h"

namespace tenon::test {

// The tensors of the family in float32, with the family's prefix.
inline TensorFile made_tensors(const Family& family, const ModelConfig& config) {
  TensorFile file;
  const auto add = [&](const TensorPart& part, int cols, bool matrix) {
    const int rows = part.stored_rows();
    std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
    random_rows(7, part.name, cols, 0, rows, values.data());
    // Rows have different ranges; some are zeros.
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] *= static_cast<float>(i / static_cast<std::size_t>(cols) % 5);
    const auto r = static_cast<std::uint64_t>(rows), c = static_cast<std::uint64_t>(cols);
    std::vector<std::uint64_t> shape{r};
    const auto stacked = static_cast<std::uint64_t>(part.stacked), each = r / stacked;
    if (matrix) shape = part.transposed ? std::vector{c, each} : std::vector{each, c};
    const bool is_stack = stacked > 1 || part.is_stack;
    if (is_stack && !matrix) shape = {each};
    if (is_stack) shape.insert(shape.begin(), stacked);
    file.add(std::string(family.name_prefix) + part.name, DType::f32, shape, values);
  };
  const auto matrix = [&](const MatrixSpec& m) {
    for (const TensorPart& part : m.parts) add(part, m.shape.cols, true);
  };
  const auto vector = [&](const VectorSpec& v) {
    for (const TensorPart& part : v.parts) add(part, v.shape.cols, v.table);
  };
  visit_parts(family.tensors(config), config.tied_head, {matrix, matrix, vector});
  return file;
}

// Writes config.json, model.safetensors, and in it a tensor that no model uses.
inline void make_model(const Family& family, const std::filesystem::path& folder, const nlohmann::json& config) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump(1);
  TensorFile file = made_tensors(family, family.configure(ConfigFile(folder)));
  file.add<float>("of.no.use", DType::f32, {2}, {1, 2});
  file.write(folder / "model.safetensors");
}

template <ModelTraits Model>
void make_model(const std::filesystem::path& folder, const nlohmann::json& config) {
  make_model(family_of<Model>, folder, config);
}

// Widths are odd, so that rows of four-bit codes begin within a byte. Every kind of part occurs: transposed, stacked,
// interleaved, tied and not tied.
inline const nlohmann::json kSmallGpt2 = {{"model_type", "gpt2"}, {"vocab_size", 37}, {"n_embd", 15},
                                          {"n_layer", 2},         {"n_head", 3},      {"n_inner", 21},
                                          {"n_positions", 24}};
inline const nlohmann::json kSmallGptBigCode = {{"model_type", "gpt_bigcode"},
                                                {"vocab_size", 37},
                                                {"n_embd", 15},
                                                {"n_layer", 2},
                                                {"n_head", 3},
                                                {"n_inner", 21},
                                                {"n_positions", 24},
                                                {"multi_query", false},
                                                {"tie_word_embeddings", false}};
inline const nlohmann::json kSmallLlama = {{"model_type", "llama"},
                                           {"vocab_size", 37},
                                           {"hidden_size", 45},
                                           {"num_hidden_layers", 2},
                                           {"num_attention_heads", 3},
                                           {"num_key_value_heads", 1},
                                           {"head_dim", 6},
                                           {"intermediate_size", 133},
                                           {"max_position_embeddings", 24},
                                           {"tie_word_embeddings", false}};
inline const nlohmann::json kSmallMistral = {
    {"model_type", "mistral"}, {"vocab_size", 37},           {"hidden_size", 33},
    {"num_hidden_layers", 1},  {"num_attention_heads", 3},   {"num_key_value_heads", 3},
    {"head_dim", 10},          {"intermediate_size", 65},    {"max_position_embeddings", 24},
    {"sliding_window", 7},     {"tie_word_embeddings", true}};
inline const nlohmann::json kSmallQwen3Moe = {
    {"model_type", "qwen3_moe"},    {"vocab_size", 37},         {"hidden_size", 33},        {"num_hidden_layers", 2},
    {"num_attention_heads", 3},     {"num_key_value_heads", 3}, {"head_dim", 10},           {"intermediate_size", 65},
    {"moe_intermediate_size", 21},  {"num_experts", 3},         {"num_experts_per_tok", 2}, {"mlp_only_layers", {0}},
    {"max_position_embeddings", 24}};
inline const nlohmann::json kSmallGptOss = {
    {"model_type", "gpt_oss"},
    {"vocab_size", 37},
    {"hidden_size", 33},
    {"num_hidden_layers", 2},
    {"num_attention_heads", 3},
    {"num_key_value_heads", 3},
    {"head_dim", 10},
    {"intermediate_size", 21},
    {"num_local_experts", 3},
    {"num_experts_per_tok", 2},
    {"max_position_embeddings", 24},
    {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 6}}}};
inline const nlohmann::json kSmallBloom = {
    {"model_type", "bloom"}, {"vocab_size", 37}, {"hidden_size", 15}, {"n_layer", 2}, {"n_head", 3}};

}  // namespace tenon::test
