// Classification heads of adapters (task_type SEQ_CLS), and adapters for embeddings (FEATURE_EXTRACTION).
#include <boost/test/unit_test.hpp>

#include <limits>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "tenon/checkpoint/peft.h"
#include "tensor_file.h"

BOOST_AUTO_TEST_SUITE(checkpoint_peft_heads)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

const std::string kAll = "base_model.model.", kQuery = "layers.0.q_proj", kScore = kAll + "score.weight";

std::vector<float> values(std::size_t count, float first = 0.5f) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = first + 0.37f * static_cast<float>(i % 7);
  return all;
}

// A LoRA of rank 2 of model.layers.0.q_proj. prefix: of its names.
struct Adapter {
  std::string task = R"("SEQ_CLS")", targets = R"(["q_proj"])", fields = {};
  TensorFile file = {};

  explicit Adapter(const std::string& prefix = "model.") {
    add(kAll + prefix + kQuery + ".lora_A.weight", {2, 8});
    add(kAll + prefix + kQuery + ".lora_B.weight", {8, 2});
  }
  Adapter& add(const std::string& name, std::vector<std::uint64_t> shape, float first = 0.5f) {
    std::size_t count = 1;
    for (const auto size : shape) count *= static_cast<std::size_t>(size);
    file.tensors.erase(name);
    file.add(name, DType::f32, std::move(shape), values(count, first));
    return *this;
  }
  // labels: of the model's own head.
  PeftAdapter open(int labels = 0) const {
    const Scratch scratch;  // an open file outlives its name
    scratch.write("adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 6, "task_type": )" + task +
                                             R"(, "target_modules": )" + targets + fields + "}");
    file.write(scratch / "adapter_model.safetensors");
    const std::vector<PeftModule> modules = {{"model.layers.0.q_proj", 8, 8}, {"model.layers.0.up_proj", 8, 12}};
    PeftBase base;
    base.prefix = "model.", base.embedding = "model.embed_tokens", base.head = "lm_head";
    base.vocab = 5, base.width = base.head_width = 8, base.labels = labels;
    base.vectors = {{"model.norm.weight", 8}, {"model.layers.0.q_proj.bias", 8}};
    return PeftAdapter::open(scratch.folder(), modules, base);
  }
  std::string refused(int labels = 0) const {
    return refusal([&] { [[maybe_unused]] const auto head = open(labels).read_classifier(); });
  }
};

Adapter classifier(std::uint64_t labels = 3) {
  Adapter adapter;
  adapter.fields = R"(, "modules_to_save": ["classifier", "score"])";
  adapter.add(kScore, {labels, 8});
  return adapter;
}

Adapter embedder(const std::string& prefix = "") {
  Adapter adapter(prefix);
  adapter.task = R"("FEATURE_EXTRACTION")";
  return adapter;
}

}  // namespace

// The number of labels stands nowhere but in the shape, and need not be that of the base.
BOOST_AUTO_TEST_CASE(a_classifier_brings_its_head) {
  for (const std::uint64_t labels : {1u, 3u, 40u}) {
    for (const int of_base : {0, 2}) {
      const PeftAdapter adapter = classifier(labels).open(of_base);
      BOOST_CHECK(adapter.config().task == AdapterTask::classify);
      BOOST_REQUIRE(adapter.classifier() != nullptr);
      const auto head = adapter.read_classifier();
      BOOST_TEST(head->labels() == static_cast<int>(labels));
      BOOST_TEST(head->width() == 8);
      BOOST_TEST(adapter.classifier_bytes() == labels * 8 * sizeof(float));
      BOOST_TEST(head->bytes() == adapter.classifier_bytes());
      BOOST_TEST((head->logits(values(8)) == ClassifierHead(values(labels * 8), 8).logits(values(8))));
      BOOST_TEST(adapter.others().size() == 1u);
      BOOST_TEST(
          mentions(refusal([&] { adapter.require_plain_updates("is too much"); }), {"score.weight", "too much"}));
    }
  }
  Adapter unnamed = classifier();  // PEFT adds "score" to modules_to_save
  unnamed.fields.clear();
  BOOST_TEST(unnamed.open().classifier() != nullptr);
  Adapter text;
  text.task = "null";
  BOOST_TEST(text.open().classifier() == nullptr);
  BOOST_TEST(text.open().read_classifier() == nullptr);
  BOOST_TEST(text.open().classifier_bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(heads_of_half_precision_are_widened) {
  Adapter adapter = classifier();
  adapter.file.tensors.erase(kScore);
  const std::vector<std::uint16_t> ones(16, 0x3f80);  // 1 in bfloat16
  adapter.file.add(kScore, DType::bf16, {2, 8}, ones);
  BOOST_TEST((adapter.open().read_classifier()->logits(std::vector<float>(8, 2.0f)) == std::vector<float>{16, 16}));
}

BOOST_AUTO_TEST_CASE(digests_count_the_head) {
  const std::string digest = classifier().open().digest();
  BOOST_TEST(classifier().open().digest() == digest);
  BOOST_TEST(classifier(4).open().digest() != digest);
  BOOST_TEST(Adapter(classifier()).add(kScore, {3, 8}, 9).open().digest() != digest);
}

BOOST_AUTO_TEST_CASE(malformed_heads_are_refused_by_name) {
  const auto with = [](const std::string& name, std::vector<std::uint64_t> shape, int labels = 0) {
    return classifier().add(name, std::move(shape)).refused(labels);
  };
  for (const std::vector<std::uint64_t>& shape :
       std::vector<std::vector<std::uint64_t>>{{3, 7}, {8, 3}, {24}, {0, 8}, {1, 3, 8}, {}})
    BOOST_TEST(mentions(with(kScore, shape), {kScore, "[labels, 8]"}), with(kScore, shape));
  Adapter missing = classifier();
  missing.file.tensors.erase(kScore);
  BOOST_TEST(mentions(missing.refused(), {kScore, "missing", "SEQ_CLS"}));
  BOOST_TEST(mentions(missing.refused(3), {kScore, "missing", "SEQ_CLS"}));  // as in PEFT, also if the base has one
  for (const std::string other : {"score.bias", "score.lora_A.weight", "classifier.weight", "score.dense.weight",
                                  "score.modules_to_save.default.weight"})
    BOOST_TEST(mentions(with(kAll + other, {3}), {kAll + other}), other);
  BOOST_TEST(with(kAll + "score.original_module.weight", {3, 8}) ==
             "accepted");  // PEFT reads it into nothing that runs
  Adapter integers = classifier();
  integers.file.tensors.erase(kScore);
  integers.file.add(kScore, DType::i32, {3, 8}, std::vector<std::int32_t>(24, 1));
  BOOST_TEST(mentions(integers.refused(), {kScore, "I32"}), integers.refused());
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Adapter infinite = classifier();
    infinite.file.tensors.at(kScore).put<float>(5, bad);
    BOOST_TEST(mentions(infinite.refused(), {kScore, "NaN or infinity"}));
    BOOST_TEST(mentions(refusal([&] { infinite.open().digest(); }), {kScore, "NaN or infinity"}));
  }
}

// In PEFT a model with a language head has no score.
BOOST_AUTO_TEST_CASE(heads_beside_text_are_refused) {
  for (const std::string task : {"null", R"("CAUSAL_LM")"}) {
    Adapter adapter = classifier();
    adapter.task = task;
    BOOST_TEST(mentions(adapter.refused(), {kScore, "SEQ_CLS"}), adapter.refused());
    // modules_to_save can name the head of a base that has one. Its shape stays.
    BOOST_TEST(adapter.open(3).classifier() != nullptr);
    BOOST_TEST(mentions(adapter.refused(2), {kScore, "[3, 8]", "[2, 8]"}));
    adapter.fields.clear();
    BOOST_TEST(mentions(adapter.refused(3), {kScore, "SEQ_CLS"}));
    adapter.file.tensors.erase(kScore);
    BOOST_TEST(adapter.open(3).classifier() == nullptr);
    adapter.fields = R"(, "modules_to_save": ["score"])";
    BOOST_TEST(mentions(adapter.refused(3), {kScore, "missing", "modules_to_save"}));
    adapter.fields.clear();
    adapter.targets = R"(["q_proj", "score"])";
    BOOST_TEST(mentions(adapter.refused(3), {"target_modules", "score"}));
  }
}

// Models with a classification head have no language head: its name is a target that the model lacks.
BOOST_AUTO_TEST_CASE(classifiers_see_no_language_head) {
  Adapter adapter = classifier();
  adapter.targets = R"(["q_proj", "lm_head", "score"])";
  BOOST_TEST(adapter.open().factors().size() == 1u);
  BOOST_TEST(adapter.open().tables().empty());
  adapter.targets = R"(["q_proj", "embed_tokens"])";
  adapter.add(kAll + "model.embed_tokens.lora_embedding_A", {2, 5});
  adapter.add(kAll + "model.embed_tokens.lora_embedding_B", {8, 2});
  BOOST_TEST(adapter.open().tables().size() == 1u);
  adapter.add(kAll + "lm_head.lora_A.weight", {2, 8});
  BOOST_TEST(mentions(adapter.refused(), {"lm_head.lora_A.weight"}));
}

BOOST_AUTO_TEST_CASE(invocations_need_text) {
  for (Adapter adapter : {classifier(), embedder()}) {
    adapter.fields += R"(, "alora_invocation_tokens": [3])";
    BOOST_TEST(mentions(adapter.refused(), {"alora_invocation_tokens", "CAUSAL_LM"}));
  }
}

// Names as in AutoModel, without "model.", or as in a model with a head.
BOOST_AUTO_TEST_CASE(adapters_for_embeddings_have_names_with_and_without_the_prefix) {
  for (const std::string prefix : {"", "model."}) {
    Adapter made = embedder(prefix);
    made.fields = R"(, "modules_to_save": ["norm"], "bias": "all")";
    made.add(kAll + prefix + "norm.weight", {8}).add(kAll + prefix + kQuery + ".base_layer.bias", {8});
    const PeftAdapter adapter = made.open(2);
    BOOST_CHECK(adapter.config().task == AdapterTask::embed);
    BOOST_REQUIRE(adapter.factors().size() == 1u);
    BOOST_TEST(adapter.factors()[0].module == 0u);
    BOOST_REQUIRE(adapter.replacements().size() == 2u);
    for (const PeftReplacement& each : adapter.replacements()) BOOST_TEST(each.name.starts_with("model."), each.name);
  }
  Adapter mixed = embedder();
  mixed.add(kAll + "model.norm.weight", {8});
  BOOST_TEST(mentions(mixed.refused(), {kQuery + ".lora_A.weight", "missing"}));
  Adapter head = embedder();
  head.add(kScore, {3, 8});
  BOOST_TEST(mentions(head.refused(), {kScore, "SEQ_CLS"}));
  BOOST_TEST(mentions(head.refused(3), {kScore, "SEQ_CLS"}));
}

// Paths in rules are those of the model without a head: PEFT's r".*?\.[^.]*\.(\d+)\." finds no layer in "layers.0.".
BOOST_AUTO_TEST_CASE(rules_of_adapters_for_embeddings_see_names_without_the_prefix) {
  Adapter expression = embedder();
  expression.targets = R"("layers\\.0\\.q_proj")";
  BOOST_TEST(expression.open().factors().size() == 1u);
  Adapter full = embedder("model.");
  full.targets = expression.targets;
  BOOST_TEST(mentions(full.refused(), {"target_modules", "matches"}));
  Adapter layers = embedder();
  layers.fields = R"(, "layers_to_transform": [0])";
  BOOST_TEST(mentions(layers.refused(), {"layers_to_transform"}));
}

BOOST_AUTO_TEST_SUITE_END()
