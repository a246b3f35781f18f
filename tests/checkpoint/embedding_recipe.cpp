#include <tenon/checkpoint/embedding_recipe.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

#include "../io/scratch.h"
#include "tenon/core/error.h"

BOOST_AUTO_TEST_SUITE(checkpoint_embedding_recipe)

using namespace tenon;
using test::Scratch;

namespace {

const std::string kModules =
    R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])";

std::optional<EmbeddingRecipe> recipe(const std::string& modules, const std::string& pooling) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.folder() / "1_Pooling");
  scratch.write("modules.json", modules);
  scratch.write("1_Pooling/config.json", pooling);
  return read_embedding_recipe(scratch.folder());
}

void refused(const std::string& modules, const std::string& pooling, const std::string& part) {
  try {
    recipe(modules, pooling);
  } catch (const Error& error) {
    BOOST_TEST(std::string(error.what()).find(part) != std::string::npos, error.what());
    return;
  }
  BOOST_ERROR("accepted " + pooling);
}

}  // namespace

BOOST_AUTO_TEST_CASE(reads_old_and_new_files) {
  const Scratch scratch;
  BOOST_TEST(!read_embedding_recipe(scratch.folder()).has_value());
  const auto last = recipe(kModules, R"({"pooling_mode_cls_token": false, "pooling_mode_lasttoken": true})");
  BOOST_TEST((last->pooling == Pooling::last));
  BOOST_TEST(!last->normalize);
  BOOST_TEST((recipe(kModules, R"({"pooling_mode_mean_tokens": true})")->pooling == Pooling::mean));
  BOOST_TEST((recipe(kModules, R"({"pooling_mode": "mean"})")->pooling == Pooling::mean));
  std::string normalized = kModules;
  normalized.insert(normalized.rfind(']'),
                    R"(, {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})");
  BOOST_TEST(recipe(normalized, R"({"pooling_mode": "lasttoken"})")->normalize);
}

BOOST_AUTO_TEST_CASE(reads_the_settings_of_texts) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.folder() / "1_Pooling");
  scratch.write("modules.json", kModules);
  scratch.write("1_Pooling/config.json", R"({"pooling_mode": "cls"})");
  const auto read = [&] { return *read_embedding_recipe(scratch.folder(), Pooling::mean); };
  BOOST_TEST((read().pooling == Pooling::mean));  // in place of the folder's, which is not supported
  BOOST_TEST(read().prompt == "");
  BOOST_TEST(read().max_tokens == 0);
  scratch.write("config_sentence_transformers.json",
                R"({"prompts": {"query": "Q: ", "document": ""}, "default_prompt_name": null})");
  BOOST_TEST(read().prompt == "");
  scratch.write("config_sentence_transformers.json",
                R"({"prompts": {"query": "Q: "}, "default_prompt_name": "query"})");
  BOOST_TEST(read().prompt == "Q: ");
  scratch.write("1_Pooling/config.json", R"({"pooling_mode": "lasttoken", "include_prompt": false})");
  BOOST_CHECK_THROW(read(), Error);  // a mean of some rows
  BOOST_TEST(read_embedding_recipe(scratch.folder())->prompt == "Q: ");
  scratch.write("1_Pooling/config.json", "{}");
  scratch.write("sentence_bert_config.json", R"({"max_seq_length": 512, "do_lower_case": false})");
  BOOST_TEST(read().max_tokens == 512);
  scratch.write("sentence_bert_config.json", R"({"do_lower_case": true})");
  BOOST_CHECK_THROW(read(), Error);
  scratch.write("sentence_bert_config.json", "{}");
  scratch.write("config_sentence_transformers.json", R"({"prompts": {}, "default_prompt_name": "query"})");
  BOOST_CHECK_THROW(read(), Error);
}

BOOST_AUTO_TEST_CASE(finds_the_folders_of_modules) {
  const Scratch scratch;
  BOOST_TEST(module_folders(scratch.folder()).empty());
  scratch.write("modules.json",
                R"([{"path": "", "type": "x.Transformer"}, {"path": "1_LogitScore", "type": "y.LogitScore"},
                                    {"path": "2_Dense", "type": "z.Dense"}])");
  BOOST_TEST((module_folders(scratch.folder()) == std::vector<std::string>{"1_LogitScore"}));
  BOOST_TEST(module_folder(scratch.folder(), "LogitScore").value() == "1_LogitScore");
  BOOST_TEST(!module_folder(scratch.folder(), "Pooling").has_value());
}

BOOST_AUTO_TEST_CASE(refuses_what_it_does_not_compute) {
  refused(kModules, R"({"pooling_mode_cls_token": true})", "pooling_mode_cls_token");
  refused(kModules, R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})", "pooling_mode_m");
  refused(kModules, R"({"pooling_mode": "cls"})", "pooling_mode");
  refused(kModules, R"({"pooling_mode_mean_tokens": false})", "no kind of pooling");
  refused(R"([{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])", "{}", "Dense");
  refused(R"([{"path": "..", "type": "sentence_transformers.models.Pooling"}])", "{}", "path");
  refused(R"({"type": "x"})", "{}", "list");
}

BOOST_AUTO_TEST_SUITE_END()
