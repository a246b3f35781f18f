// The files of a merged model: shards, tensors that no model uses, heads that are tied or copies, and refusals.
#include "tenon/model/merge.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "made_model.h"
#include "tenon/device/thread_pool.h"
#include "tenon/testing/random_adapter.h"

BOOST_AUTO_TEST_SUITE(model_merge)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;
using tenon::testing::RandomKind;

namespace {

// A model of the family in <folder>/base and an adapter for it in <folder>/adapter.
template <class Family>
void make_pair(const Scratch& scratch, const nlohmann::json& config, RandomKind kind) {
  test::make_model<Family>(scratch / "base", config);
  const ModelFiles files = load_checkpoint(scratch / "base");
  const ModelConfig sizes = Family::configure(*files.config);
  const AdapterSites sites = adapter_sites(Family::tensors(sizes), Family::name_prefix, files.tensors);
  const bool vectors = kind == RandomKind::vectors;
  testing::write_adapter(scratch / "adapter", sites.sites, {.rank = 3, .alpha = 2, .seed = 5, .kind = kind},
                         vectors ? std::span<const AdapterVector>(sites.vectors) : std::span<const AdapterVector>(),
                         sites.base);
}

MergeReport merge(const Scratch& scratch, const std::string& out, const MergeOptions& options = {}) {
  ThreadPool pool(2);
  return merge_checkpoint(scratch / "base", scratch / "adapter", scratch / out, pool, options);
}

// All tensors of a folder.
TensorFile read(const std::filesystem::path& folder) {
  TensorFile all;
  for (const auto& each : std::filesystem::directory_iterator(folder))
    if (each.path().extension() == ".safetensors") all.read(each.path());
  return all;
}

bool same(const TensorFile::Tensor& a, const TensorFile::Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
}

nlohmann::json config_of(const std::filesystem::path& folder) {
  nlohmann::json config;
  std::ifstream(folder / "config.json") >> config;
  return config;
}

// Changes the tensors of the base.
template <class Change>
void change_base(const Scratch& scratch, Change&& change) {
  TensorFile file = read(scratch / "base");
  change(file);
  file.write(scratch / "base" / "model.safetensors");
}

}  // namespace

BOOST_AUTO_TEST_CASE(shards_hold_the_tensors_of_one_file) {
  for (const RandomKind kind : {RandomKind::lora, RandomKind::dora, RandomKind::ia3, RandomKind::vectors,
                                RandomKind::tables, RandomKind::rows}) {
    const Scratch scratch;
    make_pair<Llama>(scratch, test::kSmallLlama, kind);
    const MergeReport whole = merge(scratch, "whole"), split = merge(scratch, "split", {.shard_bytes = 40'000});
    BOOST_TEST(whole.shards == 1u);
    BOOST_TEST(split.shards > 2u);
    BOOST_TEST(whole.bytes == split.bytes);
    const TensorFile base = read(scratch / "base"), one = read(scratch / "whole"), several = read(scratch / "split");
    BOOST_TEST(one.tensors.size() == base.tensors.size());
    BOOST_TEST(several.tensors.size() == base.tensors.size());
    int changed = 0;
    for (const auto& [name, tensor] : one.tensors) {
      BOOST_TEST(same(tensor, several.tensors.at(name)), name);
      changed += same(tensor, base.tensors.at(name)) ? 0 : 1;
    }
    BOOST_TEST(changed == whole.changed);
    BOOST_TEST(changed > 0);
    BOOST_TEST(same(one.tensors.at("of.no.use"), base.tensors.at("of.no.use")));
  }
}

BOOST_AUTO_TEST_CASE(other_types_are_copied_and_floats_converted) {
  const Scratch scratch;
  make_pair<Gpt2>(scratch, test::kSmallGpt2, RandomKind::vectors);
  change_base(scratch, [](TensorFile& file) {
    file.add<std::uint8_t>("transformer.h.0.attn.bias", DType::u8, {1, 1, 2, 2}, {1, 0, 1, 1});
    file.add<float>("some.scalar", DType::f32, {}, {-1e4f});
    file.add<float>("none", DType::f32, {0, 7}, {});
  });
  const TensorFile base = read(scratch / "base");
  merge(scratch, "same");
  BOOST_TEST(same(read(scratch / "same").tensors.at("some.scalar"), base.tensors.at("some.scalar")));
  merge(scratch, "halves", {.dtype = DType::f16});
  for (const auto& [name, tensor] : read(scratch / "halves").tensors) {
    BOOST_TEST((tensor.dtype == (name == "transformer.h.0.attn.bias" ? DType::u8 : DType::f16)), name);
    BOOST_TEST(tensor.shape == base.tensors.at(name).shape, name);
  }
}

BOOST_AUTO_TEST_CASE(a_tied_head_is_untied_where_it_differs) {
  const Scratch scratch;
  make_pair<Gpt2>(scratch, test::kSmallGpt2, RandomKind::tables);
  const MergeReport report = merge(scratch, "out");
  BOOST_TEST(report.added == std::vector<std::string>{"lm_head.weight"});
  BOOST_TEST(report.config == std::vector<std::string>{"tie_word_embeddings = false"});
  nlohmann::json wanted = test::kSmallGpt2;
  wanted["tie_word_embeddings"] = false;
  BOOST_TEST(config_of(scratch / "out") == wanted);
  const TensorFile base = read(scratch / "base"), out = read(scratch / "out");
  BOOST_TEST(!same(out.tensors.at("lm_head.weight"), base.tensors.at("transformer.wte.weight")));
  BOOST_TEST(!same(out.tensors.at("transformer.wte.weight"), base.tensors.at("transformer.wte.weight")));

  // A copy of the head in the base is replaced.
  change_base(scratch,
              [](TensorFile& file) { file.tensors["lm_head.weight"] = file.tensors["transformer.wte.weight"]; });
  const MergeReport again = merge(scratch, "again");
  BOOST_TEST(again.added.empty());
  BOOST_TEST(again.left_out.empty());
  BOOST_TEST(same(read(scratch / "again").tensors.at("lm_head.weight"), out.tensors.at("lm_head.weight")));
}

BOOST_AUTO_TEST_CASE(a_tied_head_that_follows_stays_tied) {
  const Scratch scratch;
  make_pair<Gpt2>(scratch, test::kSmallGpt2, RandomKind::lora);
  std::ofstream(scratch / "adapter" / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": 3, "lora_alpha": 2, "target_modules": ["c_attn", "c_proj", "c_fc"],)"
      << R"( "trainable_token_indices": [4, 1]})";
  TensorFile adapter = read(scratch / "adapter");
  const std::vector<float> rows(2 * 15, 0.5f);
  adapter.add("base_model.model.transformer.wte.token_adapter.trainable_tokens_delta", DType::f32, {2, 15}, rows);
  adapter.write(scratch / "adapter" / "adapter_model.safetensors");
  change_base(scratch,
              [](TensorFile& file) { file.tensors["lm_head.weight"] = file.tensors["transformer.wte.weight"]; });
  const MergeReport report = merge(scratch, "out");
  BOOST_TEST(report.config.empty());
  BOOST_TEST(report.left_out == std::vector<std::string>{"lm_head.weight"});
  TensorFile base = read(scratch / "base"), out = read(scratch / "out");
  BOOST_TEST(!out.tensors.contains("lm_head.weight"));
  TensorFile::Tensor wanted = base.tensors.at("transformer.wte.weight");
  for (const std::size_t token : {1u, 4u})
    for (std::size_t c = 0; c < 15; ++c) wanted.put(token * 15 + c, 0.5f);
  BOOST_TEST(same(out.tensors.at("transformer.wte.weight"), wanted));
}

BOOST_AUTO_TEST_CASE(a_classification_head_replaces_one_of_its_shape) {
  nlohmann::json config = test::kSmallLlama;
  config["architectures"] = {"LlamaForSequenceClassification"};
  for (const int labels : {3, 4, 0}) {
    BOOST_TEST_CONTEXT(labels) {
      const Scratch scratch;
      make_pair<Llama>(scratch, test::kSmallLlama, RandomKind::lora);
      config["num_labels"] = labels;
      if (labels > 0) std::ofstream(scratch / "base" / "config.json") << config.dump();
      change_base(scratch, [&](TensorFile& file) {
        const auto rows = static_cast<std::uint64_t>(labels);
        if (labels > 0) file.add("score.weight", DType::f32, {rows, 45}, std::vector<float>(45 * rows, 0.25f));
      });
      nlohmann::json adapter_config;
      std::ifstream(scratch / "adapter" / "adapter_config.json") >> adapter_config;
      adapter_config["task_type"] = "SEQ_CLS";
      adapter_config["modules_to_save"] = {"score"};
      std::ofstream(scratch / "adapter" / "adapter_config.json") << adapter_config.dump();
      TensorFile adapter = read(scratch / "adapter");
      adapter.add("base_model.model.score.weight", DType::f32, {3, 45}, std::vector<float>(135, 0.5f));
      adapter.write(scratch / "adapter" / "adapter_model.safetensors");
      if (labels == 3) {
        merge(scratch, "out");
        const TensorFile out = read(scratch / "out");
        BOOST_TEST(same(out.tensors.at("score.weight"), adapter.tensors.at("base_model.model.score.weight")));
        continue;
      }
      BOOST_TEST(mentions(refusal([&] { merge(scratch, "out"); }),
                          {"adapter_model.safetensors", "score.weight", "classification head"}));
      BOOST_TEST(!std::filesystem::exists(scratch / "out"));
    }
  }
}

BOOST_AUTO_TEST_CASE(errors_leave_nothing) {
  const Scratch scratch;
  make_pair<Gpt2>(scratch, test::kSmallGpt2, RandomKind::lora);
  change_base(scratch, [](TensorFile& file) { file.tensors["transformer.h.1.mlp.c_fc.weight"].put(3, 3e38f); });
  const auto names = [&] { return std::distance(std::filesystem::directory_iterator(scratch.folder()), {}); };
  for (const char* out : {"out", "a/b/out"})
    BOOST_TEST(mentions(refusal([&] { merge(scratch, out, {.dtype = DType::f16}); }),
                        {"transformer.h.1.mlp.c_fc.weight", "F16"}));
  BOOST_TEST(names() == 2);
  BOOST_TEST(mentions(refusal([&] { merge(scratch, "base"); }), {"base: exists already"}));
  BOOST_TEST(names() == 2);
}

BOOST_AUTO_TEST_SUITE_END()
