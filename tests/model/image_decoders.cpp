// Decoders of models of images and texts: fields of config.json that stand in two places, and names in adapters.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "../checkpoint/tensor_file.h"
#include "../io/scratch.h"
#include "tenon/checkpoint/peft.h"
#include "tenon/device/thread_pool.h"
#include "tenon/io/json.h"
#include "tenon/model/adapter_sites.h"
#include "tenon/model/any_family.h"
#include "tenon/model/files.h"
#include "tenon/model/merge.h"
#include "tenon/model/tensor_source.h"
#include "tenon/testing/random_adapter.h"

BOOST_AUTO_TEST_SUITE(model_image_decoders)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::filesystem::path kGolden = TENON_SOURCE_DIR "/tests/golden";
const std::string kAll = "base_model.model.";

Json config_of(const std::string& golden) { return read_json_file(kGolden / golden / "config.json", 1 << 20); }

ConfigFile file_of(const Json& config) { return ConfigFile(std::make_shared<const Json>(config), "config.json"); }

ModelConfig read(const Json& config) {
  return find_family(BuiltInModels{}, config["model_type"].get<std::string>()).configure(file_of(config));
}

// Sets tie_word_embeddings in text_config and at the top; empty: it is absent.
Json with_tied(Json config, std::optional<bool> in_text, std::optional<bool> at_top) {
  config["text_config"].erase("tie_word_embeddings"), config.erase("tie_word_embeddings");
  if (in_text) config["text_config"]["tie_word_embeddings"] = *in_text;
  if (at_top) config["tie_word_embeddings"] = *at_top;
  return config;
}

// A copy of a golden model. head: whether the file has one.
ModelFiles opened(const Scratch& scratch, const std::string& golden, const Json& config, bool head) {
  TensorFile file;
  file.read(kGolden / golden / "model.safetensors");
  const TensorFile::Tensor embedding = file.tensors.at("model.embed_tokens.weight");
  std::erase_if(file.tensors, [](const auto& each) { return each.first == "lm_head.weight"; });
  if (head) file.tensors["lm_head.weight"] = embedding;
  file.write(scratch / "model.safetensors");
  scratch.write("config.json", config.dump());
  return load_checkpoint(scratch.folder());
}

// Opens an adapter of a model. Returns its digest, or the error.
std::string digest_of(const std::filesystem::path& folder, const AdapterSites& sites) {
  try {
    return PeftAdapter::open(folder, sites.modules(), sites.base).digest();
  } catch (const Error& error) {
    return error.what();
  }
}

// Copies an adapter. Keys that begin with base_model.model.<newer> get <older> there.
void copy_renamed(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& newer,
                  const std::string& older, bool keep = false) {
  TensorFile in, out;
  in.read(from / "adapter_model.safetensors");
  for (const auto& [name, tensor] : in.tensors) {
    const bool changes = name.starts_with(kAll + newer);
    out.tensors[changes ? kAll + older + name.substr((kAll + newer).size()) : name] = tensor;
    if (keep) out.tensors[name] = tensor;
  }
  std::filesystem::create_directories(to);
  std::filesystem::copy_file(from / "adapter_config.json", to / "adapter_config.json");
  out.write(to / "adapter_model.safetensors");
}

}  // namespace

// transformers 4 goes by text_config. transformers 5 goes by the top, and uses a head that the file has.
BOOST_AUTO_TEST_CASE(two_fields_that_contradict_each_other_tie_the_head_where_the_file_has_none) {
  const Json config = config_of("qwen2_vl");
  for (const std::optional<bool> top : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
    for (const bool text : {false, true}) {
      for (const bool has_head : {false, true}) {
        ConfigFile file = file_of(with_tied(config, text, top));
        BOOST_TEST(file.ties_head(false) == text);
        file.set_has_head(has_head);
        const bool contradict = top && *top != text;
        BOOST_TEST(file.ties_head(false) == (contradict ? !has_head : text));
      }
    }
  }
  ConfigFile by_default = file_of(with_tied(config_of("gemma3_images"), {}, false));
  BOOST_TEST(by_default.ties_head(true));
  by_default.set_has_head(true);
  BOOST_TEST(!by_default.ties_head(true));
}

BOOST_AUTO_TEST_CASE(a_tied_model_of_transformers_5_is_found_by_its_tensors) {
  const Family& family = family_of<Qwen2Vl>;
  for (const bool head : {false, true}) {
    const Scratch scratch;
    const ModelFiles files = opened(scratch, "qwen2_vl", with_tied(config_of("qwen2_vl"), {}, true), head);
    const ModelConfig c = configure(files, family);
    BOOST_TEST(c.tied_head == !head);
    BOOST_CHECK_NO_THROW(TensorSource(files, family.name_prefix).check(tensors_of(family, c), c.tied_head));
  }
  const Scratch scratch;
  const ModelFiles files = opened(scratch, "qwen2_vl", with_tied(config_of("qwen2_vl"), {}, {}), false);
  const ModelConfig c = configure(files, family);
  const auto check = [&] { TensorSource(files, family.name_prefix).check(tensors_of(family, c), c.tied_head); };
  BOOST_TEST(mentions(refusal(check), {"tensor lm_head.weight is missing"}), refusal(check));
}

BOOST_AUTO_TEST_CASE(switches_are_set_in_text_config) {
  const ConfigFile file = file_of(config_of("smolvlm")).with({{"tie_word_embeddings", false}, {"mlp_bias", true}});
  BOOST_TEST(file.model_type() == "smolvlm");
  BOOST_TEST(!file.ties_head(true));
  BOOST_TEST(file.fields().boolean("mlp_bias"));
  BOOST_TEST(!file_of({{"model_type", "llama"}}).with({{"tie_word_embeddings", false}}).ties_head(true));
}

BOOST_AUTO_TEST_CASE(merging_unties_the_head_in_both_places) {
  const Scratch scratch;
  const std::filesystem::path base = kGolden / "gemma3_images";
  const ModelFiles files = load_checkpoint(base);
  const Family& family = family_of<Gemma3WithImages>;
  const AdapterSites sites = adapter_sites(tensors_of(family, configure(files, family)), family.name_prefix, files);
  std::filesystem::create_directories(scratch / "adapter");
  std::ofstream(scratch / "adapter" / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["embed_tokens"]})";
  TensorFile factors;
  const std::string stem = kAll + sites.base.embedding + ".lora_embedding_";
  const auto vocab = static_cast<std::uint64_t>(sites.base.vocab), width = static_cast<std::uint64_t>(sites.base.width);
  factors.add<float>(stem + "A", DType::f32, {1, vocab}, std::vector<float>(vocab, 1));
  factors.add<float>(stem + "B", DType::f32, {width, 1}, std::vector<float>(width, 1));
  factors.write(scratch / "adapter" / "adapter_model.safetensors");
  ThreadPool pool(1);
  const MergeReport report = merge_checkpoint(base, scratch / "adapter", scratch / "merged", pool);
  BOOST_TEST(report.config ==
                 (std::vector<std::string>{"text_config.tie_word_embeddings = false", "tie_word_embeddings = false"}),
             boost::test_tools::per_element());
  BOOST_TEST(!configure(load_checkpoint(scratch / "merged"), family).tied_head);
}

BOOST_AUTO_TEST_CASE(the_class_with_images_of_gemma_has_no_cap_of_its_logits) {
  Json config = config_of("gemma3_images");
  config["text_config"]["final_logit_softcapping"] = 3.0;
  BOOST_TEST(read(config).logit_soft_cap == 0);
  config["text_config"]["model_type"] = config["model_type"] = "gemma3_text";
  BOOST_TEST(read(config["text_config"]).logit_soft_cap == 3);
}

// CONFIG_MAPPING makes a Mistral of text_config, where AutoConfig makes a Ministral of a file with layer_types.
BOOST_AUTO_TEST_CASE(layer_types_of_mistral3_change_no_window) {
  Json config = config_of("mistral3_images");
  Json& text = config["text_config"];
  text["sliding_window"] = 7;
  for (const char* type : {"full_attention", "sliding_attention"}) {
    text["layer_types"] = {type, type};
    BOOST_TEST(read(config).window == 7);
    BOOST_TEST(read(config).windows.empty());
  }
  text["layer_types"] = {"full_attention", "sliding_attention"};
  BOOST_TEST(mentions(refusal([&] { read(config); }), {"text_config.layer_types"}));
  text["layer_types"] = nullptr, text["sliding_window"] = nullptr;
  BOOST_TEST(read(config).window == 0);
}

BOOST_AUTO_TEST_CASE(type_replaces_rope_type_in_older_files_of_qwen2_vl) {
  Json config = config_of("qwen2_vl");
  Json& text = config["text_config"];
  const auto scaling = [&](const char* type, const char* rope_type) {
    text["rope_scaling"] = {{"type", type}, {"rope_type", rope_type}, {"factor", 4}, {"mrope_section", {1, 1, 2}}};
    return read(config).rotary.scaling;
  };
  BOOST_CHECK(scaling("linear", "default") == RotaryScaling::linear);
  BOOST_CHECK(scaling("mrope", "linear") == RotaryScaling::none);
  BOOST_CHECK(scaling("default", "yarn") == RotaryScaling::none);
  text["rope_parameters"] = text["rope_scaling"], text.erase("rope_scaling");  // of transformers 5
  BOOST_CHECK(read(config).rotary.scaling == RotaryScaling::yarn);
  config["model_type"] = "qwen3_vl", text["model_type"] = "qwen3_vl_text", text["head_dim"] = 8;
  BOOST_CHECK(read(config).rotary.scaling == RotaryScaling::yarn);
}

// PeftModel.from_pretrained changes names by _checkpoint_conversion_mapping, which not all classes have.
BOOST_AUTO_TEST_CASE(adapters_may_have_names_from_before_transformers_4_52) {
  const std::map<std::string, std::pair<std::string, std::string>> renamed = {
      {"gemma3_images", {"model.language_model.", "language_model.model."}},
      {"mistral3_images", {"model.language_model.", "language_model.model."}},
      {"qwen2_vl", {"model.language_model.", "model."}},
      {"qwen2_5_vl", {"model.language_model.", "model."}},
      {"qwen3_vl", {"model.language_model.", "model."}},
      {"smolvlm", {"model.text_model.", "model."}},
      {"idefics3", {"model.text_model.", "model."}}};
  for (const auto& [golden, names] : renamed) {
    const Scratch scratch;
    const ModelFiles files = load_checkpoint(kGolden / golden);
    const Family& family = find_family(BuiltInModels{}, model_type_of(files));
    const AdapterSites sites = adapter_sites(tensors_of(family, configure(files, family)), family.name_prefix, files);
    testing::write_adapter(scratch / "newer", sites.sites, {.rank = 2, .kind = testing::RandomKind::dora});
    copy_renamed(scratch / "newer", scratch / "older", names.first, names.second);
    const std::string newer = digest_of(scratch / "newer", sites), older = digest_of(scratch / "older", sites);
    BOOST_TEST(newer.starts_with("sha256:"), newer);
    const bool maps = golden != "qwen3_vl" && golden != "smolvlm" && golden != "idefics3";
    BOOST_TEST((older == newer) == maps, golden + ": " + older);
    if (!maps) {
      BOOST_TEST(mentions(older, {"lora_A", "is missing"}), older);
      continue;
    }
    copy_renamed(scratch / "newer", scratch / "both", names.first, names.second, true);
    BOOST_TEST(mentions(digest_of(scratch / "both", sites), {"is there twice"}));
  }
}

// Their updates of the tower would be left out without a word.
BOOST_AUTO_TEST_CASE(adapters_that_change_the_vision_tower_are_refused) {
  const Scratch scratch;
  const ModelFiles files = load_checkpoint(kGolden / "qwen2_vl");
  const Family& family = family_of<Qwen2Vl>;
  const AdapterSites sites = adapter_sites(tensors_of(family, configure(files, family)), family.name_prefix, files);
  testing::write_adapter(scratch / "a", sites.sites, {.rank = 2});
  for (const std::string name : {"visual.blocks.0.attn.qkv", "model.visual.blocks.0.attn.qkv"}) {
    TensorFile file;
    file.read(scratch / "a" / "adapter_model.safetensors");
    file.add<float>(kAll + name + ".lora_A.weight", DType::f32, {2, 8}, std::vector<float>(16, 1));
    file.write(scratch / "a" / "changed.safetensors");
    std::filesystem::rename(scratch / "a" / "changed.safetensors", scratch / "a" / "adapter_model.safetensors");
    const std::string why = digest_of(scratch / "a", sites);
    BOOST_TEST(mentions(why, {"visual.blocks.0.attn.qkv.lora_A.weight"}), why);
  }
}

BOOST_AUTO_TEST_SUITE_END()
