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
