// Decoders of models of images and texts: fields that their classes read in their own way.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "../io/scratch.h"
#include "tenon/io/json.h"
#include "tenon/model/any_family.h"

BOOST_AUTO_TEST_SUITE(model_image_decoders)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::filesystem::path kGolden = TENON_SOURCE_DIR "/tests/golden";

Json config_of(const std::string& golden) { return read_json_file(kGolden / golden / "config.json", 1 << 20); }

ConfigFile file_of(const Json& config) { return ConfigFile(std::make_shared<const Json>(config), "config.json"); }

ModelConfig read(const Json& config) {
  return find_family(BuiltInModels{}, config["model_type"].get<std::string>()).configure(file_of(config));
}

}  // namespace

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

BOOST_AUTO_TEST_SUITE_END()
