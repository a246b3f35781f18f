// Adapters of a model whose head has a bias: their updates of the embedding and the head give the logits of the merged
// model, and replaced rows of the head are refused.
#include <tenon/tenon.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
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

struct Pair {
  Scratch scratch;

  explicit Pair(RandomKind kind) {
    test::make_model<Phi>(scratch / "base", kSmallPhi);
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
  std::vector<AdapterUse> adapter() const { return {{(scratch / "adapter").string()}}; }
};

float distance(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_CASE(updates_of_the_tables_give_the_logits_of_the_merged_model) {
  for (const RandomKind kind : {RandomKind::tables, RandomKind::dora_tables}) {
    const Pair pair(kind);
    ThreadPool pool(1);
    merge_checkpoint(pair.scratch / "base", pair.scratch / "adapter", pair.scratch / "merged", pool, {});
    const std::vector<float> plain = pair.logits("base", {}), adapted = pair.logits("base", pair.adapter()),
                             merged = pair.logits("merged", {});
    // Merged weights are rounded once more.
    BOOST_TEST(distance(adapted, merged) < 1e-3f * distance(adapted, plain));
  }
}

BOOST_AUTO_TEST_CASE(replaced_rows_of_the_head_are_refused) {
  const Pair pair(RandomKind::rows);
  const std::string why = refusal([&] { pair.logits("base", pair.adapter()); });
  BOOST_TEST(mentions(why, {"lm_head", "replaces rows of a head that has a bias"}), why);
}

BOOST_AUTO_TEST_SUITE_END()
