// Checkpoints without a language head: classifiers, and bare models that embed.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "configured.h"
#include "tenon/engine/make.h"
#include "tenon/model/any_family.h"
#include "tenon/model/gpt2.h"
#include "tenon/model/llama.h"
#include "tenon/model/mistral.h"
#include "tenon/ops/cpu/all.h"

BOOST_AUTO_TEST_SUITE(model_classifiers)

using namespace tenon;
using nlohmann::json;

namespace {

constexpr const char* kLlama = "tests/golden/llama_linear";
const std::filesystem::path kHeads = TENON_SOURCE_DIR "/tests/golden_heads";

test::Change classifier(const test::Change& change = [](json&) {}) {
  return [change](json& c) {
    c["architectures"] = {"LlamaForSequenceClassification"};
    c["tie_word_embeddings"] = false;
    change(c);
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(labels_are_those_of_the_config) {
  const ModelConfig two = test::configured<Llama>(kLlama, classifier());
  BOOST_TEST(two.labels == (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
  BOOST_TEST(!two.language_head);
  BOOST_TEST(two.tied_head);
  BOOST_TEST(!two.independent_labels);
  const auto three = test::configured<Llama>(kLlama, classifier([](json& c) {
                                               c["id2label"] = {{"0", "bad"}, {"2", "good"}, {"1", "so-so"}};
                                               c["problem_type"] = "multi_label_classification";
                                             }));
  BOOST_TEST(three.labels == (std::vector<std::string>{"bad", "so-so", "good"}));
  BOOST_TEST(three.independent_labels);
  BOOST_TEST(test::configured<Llama>(kLlama, classifier([](json& c) { c["num_labels"] = 1; })).labels.size() == 1u);
  BOOST_TEST(test::configured<Llama>(kLlama).labels.empty());
  BOOST_TEST(test::configured<Llama>(kLlama).language_head);
  test::refused<Llama>(kLlama, "id2label.1", classifier([](json& c) { c["id2label"] = {{"0", "a"}, {"7", "b"}}; }));
  test::refused<Llama>(kLlama, "num_labels", classifier([](json& c) { c["num_labels"] = 0; }));
}

BOOST_AUTO_TEST_CASE(pads_are_those_of_the_config_or_the_class) {
  const auto pad = [](const json& value) {
    return test::configured<Llama>(kLlama, [&](json& c) { c["pad_token_id"] = value; }).pad;
  };
  BOOST_TEST((pad(5) == std::optional<TokenId>(5)));
  BOOST_TEST(!pad(nullptr).has_value());
  BOOST_TEST(!pad(-1).has_value());  // equals no token
  BOOST_TEST(!pad(1 << 20).has_value());
  const auto opt = test::configured<AnyFamily<>>("tests/golden/opt_350m", [](json& c) { c.erase("pad_token_id"); });
  BOOST_TEST((opt.pad == std::optional<TokenId>(1)));
}

BOOST_AUTO_TEST_CASE(other_heads_are_refused) {
  for (const char* name :
       {"LlamaForTokenClassification", "MistralForSequenceClassification", "ForSequenceClassification"})
    test::refused<Llama>(kLlama, "architectures", [&](json& c) { c["architectures"] = {name}; });
}

BOOST_AUTO_TEST_CASE(a_head_must_fit_the_config) {
  ModelFiles files = load_checkpoint(kHeads / "llama");
  const ModelConfig config = Llama::configure(*files.config);
  BOOST_TEST(config.labels == (std::vector<std::string>{"bad", "good", "neither"}));
  const DecoderSpec spec = tensors_of(family_of<Llama>, config);
  const TensorSource source(files, Llama::name_prefix);
  BOOST_CHECK_NO_THROW(source.check(spec, config.tied_head));
  BOOST_TEST(source.unused(spec, config.tied_head).empty());
  ModelConfig four = config;
  four.labels.push_back("more");
  BOOST_CHECK_EXCEPTION(source.check(tensors_of(family_of<Llama>, four), true), Error, [](const Error& error) {
    return std::string(error.what()).find("score.weight") != std::string::npos;
  });
}

// MistralModel is saved without its lm_head, which is not tied to the embedding.
BOOST_AUTO_TEST_CASE(a_bare_model_has_no_language_head) {
  const ModelConfig bare = configure(load_checkpoint(kHeads / "mistral_bare"), family_of<Mistral>);
  BOOST_TEST(!bare.language_head);
  BOOST_TEST(bare.tied_head);
  const auto whole = load_checkpoint(TENON_SOURCE_DIR "/tests/golden/mistral_window7");
  BOOST_TEST(configure(whole, family_of<Mistral>).language_head);
}

BOOST_AUTO_TEST_SUITE_END()
