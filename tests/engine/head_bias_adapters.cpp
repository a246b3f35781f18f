// Adapters of a model whose head has a bias: changes of the embedding and the head give the logits of the merged model,
// and rows of single tokens are refused.
#include <tenon/tenon.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "../model/made_model.h"
#include "tenon/model/merge.h"
#include "tenon/model/phi.h"
#include "tenon/testing/random_adapter.h"

BOOST_AUTO_TEST_SUITE(engine_head_bias_adapters)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using testing::RandomKind;

namespace {

const nlohmann::json kSmallPhi = {{"model_type", "phi"},          {"vocab_size", 37},       {"hidden_size", 32},
                                  {"intermediate_size", 48},      {"num_hidden_layers", 2}, {"num_attention_heads", 4},
                                  {"max_position_embeddings", 32}};
const std::vector<TokenId> kText = {3, 1, 4, 15, 9, 2, 6, 5};

float distance(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

struct BaseWithAdapter {
  Scratch scratch;

  explicit BaseWithAdapter(RandomKind kind, bool tied = false) {
    nlohmann::json config = kSmallPhi;
    config["tie_word_embeddings"] = tied;
    test::make_model<Phi>(scratch / "base", config);
    test::TensorFile file;
    file.read(scratch / "base" / "model.safetensors");
    for (const std::string name : {"lm_head.weight", "lm_head.bias"}) {  // as transformers names them
      auto moved = file.tensors.extract("model." + name);
      if (!moved) continue;
      moved.key() = name;
      file.tensors.insert(std::move(moved));
    }
    file.write(scratch / "base" / "model.safetensors");
    const ModelFiles files = load_checkpoint(scratch / "base");
    const AdapterSites sites =
        adapter_sites(Phi::tensors(Phi::configure(*files.config)), Phi::name_prefix, files.tensors);
    BOOST_TEST(sites.base.head_bias);
    testing::write_adapter(scratch / "adapter", sites.sites, {.rank = 3, .alpha = 2, .seed = 5, .kind = kind}, {},
                           sites.base);
  }
  // The logits after the text.
  std::vector<float> logits(const std::string& model, const std::vector<AdapterUse>& adapters) const {
    Engine<Phi> engine(load_checkpoint(scratch / model));
    const Completion c =
        engine.complete({.input_ids = kText, .adapters = adapters, .options = {.max_new_tokens = 0, .logits_at = {7}}});
    if (!c.error.empty()) throw Error(Error::Kind::invalid_file, "adapter", c.error);
    return c.scores->logits[0].second;
  }
  // Adds a head to the adapter, as modules_to_save does, with the model's bias or another one.
  void save_head(bool other_bias) const {
    nlohmann::json config;
    std::ifstream(scratch / "adapter" / "adapter_config.json") >> config;
    config["modules_to_save"] = {"lm_head"};
    std::ofstream(scratch / "adapter" / "adapter_config.json") << config;
    test::TensorFile base, own;
    base.read(scratch / "base" / "model.safetensors");
    own.read(scratch / "adapter" / "adapter_model.safetensors");
    own.add("base_model.model.lm_head.weight", DType::f32, {37, 32}, std::vector<float>(37 * 32, 0.25f));
    own.tensors["base_model.model.lm_head.bias"] = base.tensors.at("lm_head.bias");
    if (other_bias) own.add("base_model.model.lm_head.bias", DType::f32, {37}, std::vector<float>(37, 0.5f));
    own.write(scratch / "adapter" / "adapter_model.safetensors");
  }
  // The adapter beside the model gives the logits of the merged model, but for the rounding of merged weights.
  void check_merged() const {
    ThreadPool pool(1);
    merge_checkpoint(scratch / "base", scratch / "adapter", scratch / "merged", pool, {});
    const std::vector<float> plain = logits("base", {}), adapted = logits("base", adapter()),
                             merged = logits("merged", {});
    BOOST_TEST(distance(adapted, merged) < 1e-3f * distance(adapted, plain));
  }
  std::vector<AdapterUse> adapter() const { return {{(scratch / "adapter").string()}}; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(updates_of_the_tables_give_the_logits_of_the_merged_model) {
  for (const RandomKind kind : {RandomKind::tables, RandomKind::dora_tables}) {
    for (const bool tied : {false, true}) BaseWithAdapter(kind, tied).check_merged();
  }
}

BOOST_AUTO_TEST_CASE(a_saved_head_keeps_the_bias) {
  const BaseWithAdapter kept(RandomKind::lora);
  kept.save_head(false);
  kept.check_merged();
  const BaseWithAdapter other(RandomKind::lora);
  other.save_head(true);
  const std::string why = refusal([&] { other.logits("base", other.adapter()); });
  BOOST_TEST(mentions(why, {"lm_head.bias", "replacing this bias is not supported"}), why);
}

BOOST_AUTO_TEST_CASE(single_rows_of_the_head_are_refused) {
  for (const bool tied : {false, true}) {
    const BaseWithAdapter pair(RandomKind::rows, tied);
    const std::string why = refusal([&] { pair.logits("base", pair.adapter()); });
    BOOST_TEST(mentions(why, {"trainable_token_indices", "the head has a bias"}), why);
    BOOST_TEST(mentions(why, {"tied to the embedding"}) == tied, why);
  }
}

BOOST_AUTO_TEST_SUITE_END()
