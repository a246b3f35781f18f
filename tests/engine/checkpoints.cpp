// Checkpoints that people have (tests/model/checkpoints.json): the config.json of each, with all of its fields. Each is
// read at its own sizes, and runs with random weights at smaller sizes, or is refused by name. docs/checkpoints.md has
// the table.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "../model/made_model.h"
#include "tenon/cache/window.h"
#include "tenon/engine/any_model.h"
#include "tenon/model/tensor_source.h"

BOOST_AUTO_TEST_SUITE(engine_checkpoints)

using namespace tenon;
using tenon::test::refusal;
using Json = nlohmann::json;

namespace {

int number(const Json& config, const std::string& name, int fallback) {
  const auto found = config.find(name);
  return found == config.end() || !found->is_number() ? fallback : found->get<int>();
}

void set(Json& config, std::initializer_list<const char*> names, int value) {
  for (const char* name : names)
    if (config.contains(name) && config[name].is_number()) config[name] = value;
}

void cut_list(Json& list, std::size_t size) {
  if (list.is_array() && list.size() > size) list.erase(list.begin() + static_cast<std::ptrdiff_t>(size), list.end());
}

// Smaller sizes with the same proportions: six layers at most, two heads of keys and values, a quarter of the width of
// a head, 1/50 of the vocabulary, short texts.
Json smaller(Json config) {
  const int heads = number(config, "num_attention_heads", number(config, "n_head", number(config, "num_heads", 0)));
  const int hidden = number(config, "hidden_size", number(config, "n_embd", number(config, "n_embed", 0)));
  const int kv = number(config, "num_key_value_heads", heads);
  const bool codegen = config["model_type"] == "codegen";  // its heads come in four groups
  const int few_kv = codegen ? 4 : std::min(kv, 2), few_heads = heads / kv * few_kv;
  const int head_dim = number(config, "head_dim", hidden / heads) / 4;
  const bool blocks = config.contains("quantization_config");  // of 32 columns
  const int narrow = blocks ? hidden / 16 / 32 * 32 : hidden / 16;
  const int width = config.contains("head_dim") ? narrow : few_heads * head_dim;
  const int layers =
      std::min(number(config, "num_hidden_layers", number(config, "n_layer", number(config, "num_layers", 0))), 6);
  set(config, {"num_attention_heads", "n_head", "num_heads"}, few_heads);
  set(config, {"num_key_value_heads"}, few_kv);
  set(config, {"head_dim"}, head_dim);
  set(config, {"rotary_dim"}, number(config, "rotary_dim", 0) / 4);
  for (const char* name : {"intermediate_size", "n_inner", "shared_intermediate_size", "ffn_dim", "block_ff_dim"})
    set(config, {name}, number(config, name, 0) / 64 * width / (hidden / 64));
  set(config, {"word_embed_proj_dim"}, width * number(config, "word_embed_proj_dim", 0) / hidden);
  if (blocks) set(config, {"intermediate_size"}, width);
  set(config, {"num_local_experts"}, number(config, "num_local_experts", 0) / 4);
  set(config, {"hidden_size", "n_embd", "n_embed"}, width);
  set(config, {"num_hidden_layers", "n_layer", "num_layers"}, layers);
  set(config, {"vocab_size"}, number(config, "vocab_size", 0) / 50);
  set(config, {"max_position_embeddings", "n_positions", "n_ctx", "seq_length"}, 96);
  set(config, {"original_max_position_embeddings"}, 24);
  set(config, {"sliding_window", "window_size"}, 8);
  if (config.contains("full_attn_idxs")) config["full_attn_idxs"] = {layers - 1};
  for (const char* name : {"layer_types", "no_rope_layers", "attention_layers"})
    if (config.contains(name)) cut_list(config[name], static_cast<std::size_t>(layers));
  if (config.contains("attention_types")) config["attention_types"][0][1] = layers / 2;
  if (config.contains("rope_scaling") && config["rope_scaling"].is_object()) {
    Json& scaling = config["rope_scaling"];
    set(scaling, {"original_max_position_embeddings"}, 24);
    for (const char* name : {"long_factor", "short_factor"})
      if (scaling.contains(name)) cut_list(scaling[name], scaling[name].size() / 4);
  }
  return config;
}

ConfigFile config_file(const Json& config) {
  return ConfigFile(std::make_shared<const tenon::Json>(tenon::Json::parse(config.dump())), "config.json");
}

// Elements of all tensors that the model reads.
std::size_t parameters_of(const ModelConfig& config) {
  std::size_t count = 0;
  std::set<std::string> names;
  const auto add = [&](const auto& spec) {
    for (const TensorPart& part : spec.parts)
      if (names.insert(part.name).second)
        count += static_cast<std::size_t>(part.stored_rows()) * static_cast<std::size_t>(spec.shape.cols);
  };
  visit_parts(AnyFamily<>::tensors(config), config.tied_head, {add, add, add});
  return count;
}

// Stores the experts of a folder as gpt-oss is published: in MXFP4, with random codes.
void store_as_mxfp4(const std::filesystem::path& folder) {
  test::TensorFile file;
  file.read(folder / "model.safetensors");
  for (const auto& [name, tensor] : std::map(file.tensors)) {
    if (!name.ends_with("_proj") || tensor.shape.size() != 3) continue;
    const std::uint64_t experts = tensor.shape[0], blocks = tensor.shape[1] / 32, outputs = tensor.shape[2];
    std::vector<std::uint8_t> codes(experts * outputs * blocks * 16);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * i * 2654435761u >> 13);
    file.add(name + "_blocks", DType::u8, {experts, outputs, blocks, 16}, codes);
    file.add(name + "_scales", DType::u8, {experts, outputs, blocks},
             std::vector<std::uint8_t>(codes.size() / 16, std::uint8_t{121}));  // 2^-6
    file.tensors.erase(name);
  }
  std::filesystem::remove(folder / "model.safetensors");
  file.write(folder / "model.safetensors");
}

// Loads the model with random weights, and generates a few tokens.
void run(const std::string& name, const Json& config) {
  const test::Scratch scratch;
  const Family& family = find_family(BuiltInModels{}, config["model_type"].get<std::string>());
  test::make_model(family, scratch / "model", config);
  if (config.contains("quantization_config")) store_as_mxfp4(scratch / "model");
  const ModelFiles files = load_checkpoint(scratch / "model");
  const ModelConfig c = family.configure(*files.config);
  const TensorSource source(files, family.name_prefix);
  BOOST_TEST(source.unused(family.tensors(c), c.tied_head) == std::vector<std::string>{"of.no.use"},
             boost::test_tools::per_element());
  const auto engine = any_model<Cache<WindowKV>>(load_checkpoint(scratch / "model"), EngineOptions{.threads = 2});
  std::vector<TokenId> ids;
  engine->submit({.input_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22},
                  .options = {.max_new_tokens = 6, .ignore_eos = true}});
  while (!engine->idle())
    for (const Event& event : engine->step())
      if (event.kind == Event::Kind::token) ids.push_back(event.token);
  BOOST_TEST(ids.size() == 6u, name);
}

}  // namespace

BOOST_AUTO_TEST_CASE(checkpoints_that_people_have_run_or_are_refused_by_name) {
  const Json list = Json::parse(std::ifstream(TENON_SOURCE_DIR "/tests/model/checkpoints.json"));
  BOOST_TEST(list.size() == 41u);
  std::size_t refused = 0;
  for (const Json& each : list) {
    const std::string name = each["name"];
    BOOST_TEST_CONTEXT(name) {
      if (each.contains("refused")) {
        ++refused;
        const std::string message = refusal([&] { AnyFamily<>::configure(config_file(each["config"])); });
        BOOST_TEST(message.find(each["refused"].get<std::string>()) != message.npos, message);
        continue;
      }
      const std::string message = refusal([&] {
        BOOST_TEST(parameters_of(AnyFamily<>::configure(config_file(each["config"]))) ==
                   each["parameters"].get<std::size_t>());
        run(name, smaller(each["config"]));
      });
      BOOST_TEST(message == "accepted");
    }
  }
  BOOST_TEST(refused <= 4u);
}

BOOST_AUTO_TEST_SUITE_END()
