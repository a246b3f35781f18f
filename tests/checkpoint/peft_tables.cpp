// Adapters of the embedding and the head: low-rank updates, tables that were trained whole, rows of single tokens.
#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "../io/scratch.h"
#include "tenon/checkpoint/peft.h"
#include "tensor_file.h"

BOOST_AUTO_TEST_SUITE(checkpoint_peft_tables)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

const std::string kQuery = "base_model.model.model.layers.0.q_proj", kEmbedding = "base_model.model.model.embed_tokens",
                  kHead = "base_model.model.lm_head";

struct Adapter {
  std::string fields;  // beside those of a LoRA of rank 2
  std::string targets = R"(["q_proj"])";
  std::string file_head = "lm_head";  // of the model
  TensorFile file = {};

  explicit Adapter(std::string more, std::string others = "") : fields(std::move(more)) {
    if (!others.empty()) targets = R"(["q_proj", )" + others + "]";
    add(kQuery + ".lora_A.weight", {2, 8}).add(kQuery + ".lora_B.weight", {8, 2});
  }
  Adapter& add(const std::string& name, std::vector<std::uint64_t> shape, float value = 0.5f) {
    std::size_t count = 1;
    for (const auto size : shape) count *= static_cast<std::size_t>(size);
    file.add(name, DType::f32, std::move(shape), std::vector<float>(count, value));
    return *this;
  }
  Adapter& add_updates() {
    add(kEmbedding + ".lora_embedding_A", {2, 5}).add(kEmbedding + ".lora_embedding_B", {8, 2});
    return add(kHead + ".lora_A.weight", {2, 8}).add(kHead + ".lora_B.weight", {5, 2});
  }
  PeftAdapter open(bool tied = false) const {
    const Scratch scratch;  // an open file outlives its name
    scratch.write("adapter_config.json",
                  R"({"peft_type": "LORA", "r": 2, "lora_alpha": 6, "target_modules": )" + targets + fields + "}");
    file.write(scratch / "adapter_model.safetensors");
    const std::vector<PeftModule> modules = {{"model.layers.0.q_proj", 8, 8}};
    PeftBase base;
    base.embedding = "model.embed_tokens", base.head = file_head;
    base.tied_head = tied;
    base.vocab = 5, base.width = 8;
    return PeftAdapter::open(scratch.folder(), modules, base);
  }
  std::string refused(bool tied = false) const {
    return refusal([&] { open(tied); });
  }
};

const std::string kTables = R"("embed_tokens", "lm_head")";

}  // namespace

BOOST_AUTO_TEST_CASE(updates_of_both_tables) {
  const PeftAdapter adapter = Adapter("", kTables).add_updates().open();
  BOOST_TEST(adapter.factors().size() == 1U);
  BOOST_REQUIRE(adapter.tables().size() == 2U);
  const PeftTable &embedding = adapter.tables()[0], &head = adapter.tables()[1];
  BOOST_TEST((!embedding.head && head.head && !embedding.rows && !head.rows));
  BOOST_TEST(embedding.update.a->name == kEmbedding + ".lora_embedding_A");
  BOOST_TEST(head.update.b->name == kHead + ".lora_B.weight");
  BOOST_TEST((embedding.update.rank == 2 && embedding.update.scale == 3 && head.update.scale == 3));
  BOOST_TEST(mentions(refusal([&] { adapter.require_plain_updates("is too much"); }), {"embed_tokens", "too much"}));
}

BOOST_AUTO_TEST_CASE(magnitudes_belong_to_columns_of_the_embedding_and_rows_of_the_head) {
  Adapter dora(R"(, "use_dora": true)", kTables);
  dora.add_updates().add(kQuery + ".lora_magnitude_vector", {8});
  dora.add(kEmbedding + ".lora_magnitude_vector", {8}).add(kHead + ".lora_magnitude_vector", {5});
  const PeftAdapter adapter = dora.open();
  for (const PeftTable& table : adapter.tables()) BOOST_TEST(table.update.magnitude != nullptr);
  dora.add(kEmbedding + ".lora_magnitude_vector", {5});
  BOOST_TEST(mentions(dora.refused(), {kEmbedding + ".lora_magnitude_vector", "[5]", "[8]"}));
}

BOOST_AUTO_TEST_CASE(all_linear_leaves_tables_out) {
  Adapter adapter("");
  adapter.targets = R"("all-linear")";
  BOOST_TEST(adapter.open().tables().empty());
}

// PEFT gives the tied head the embedding's factors, and saves both.
BOOST_AUTO_TEST_CASE(a_tied_head_has_factors_of_its_own_in_the_file) {
  const Adapter tied = Adapter(R"(, "ensure_weight_tying": true)", R"("embed_tokens")").add_updates();
  BOOST_TEST(tied.open(true).tables().size() == 2U);
  BOOST_TEST(mentions(tied.refused(false), {kHead + ".lora_A.weight"}));
  Adapter loose("", R"("embed_tokens")");
  loose.add_updates();
  loose.file.tensors.erase(kHead + ".lora_A.weight");
  loose.file.tensors.erase(kHead + ".lora_B.weight");
  BOOST_TEST(loose.open(true).tables().size() == 1U);  // the head stays the model's
}

// Its scale is by the patterns at its own name, and by r, although its factors have the embedding's rank.
BOOST_AUTO_TEST_CASE(a_tied_head_has_a_scale_of_its_own) {
  const auto scales = [](const std::string& more, int rank) {
    Adapter adapter(R"(, "ensure_weight_tying": true, )" + more, R"("embed_tokens")");
    const auto n = static_cast<std::uint64_t>(rank);
    adapter.add(kEmbedding + ".lora_embedding_A", {n, 5}).add(kEmbedding + ".lora_embedding_B", {8, n});
    adapter.add(kHead + ".lora_A.weight", {n, 8}).add(kHead + ".lora_B.weight", {5, n});
    std::vector<double> all;
    const PeftAdapter opened = adapter.open(true);
    for (const PeftTable& table : opened.tables()) {
      BOOST_TEST(table.update.rank == rank);
      all.push_back(table.update.scale);
    }
    return all;
  };
  BOOST_TEST((scales(R"("alpha_pattern": {"embed_tokens": 64})", 2) == std::vector<double>{32, 3}));
  BOOST_TEST((scales(R"("alpha_pattern": {"lm_head": 64})", 2) == std::vector<double>{3, 32}));
  BOOST_TEST((scales(R"("rank_pattern": {"embed_tokens": 4})", 4) == std::vector<double>{1.5, 3}));
  BOOST_TEST((scales(R"("rank_pattern": {"lm_head": 4})", 2) == std::vector<double>{3, 1.5}));
}

BOOST_AUTO_TEST_CASE(whole_tables_are_in_modules_to_save) {
  const Adapter saved = Adapter(R"(, "modules_to_save": ["embed_tokens"])").add(kEmbedding + ".weight", {5, 8});
  for (const bool tied : {false, true}) {
    const PeftAdapter adapter = saved.open(tied);
    BOOST_REQUIRE(adapter.tables().size() == 1U);
    BOOST_TEST((!adapter.tables()[0].head && adapter.tables()[0].rows && adapter.tables()[0].tokens.empty()));
  }
  // Without the field PEFT loads the tensor into the base, also into a head that shares it.
  BOOST_TEST(mentions(Adapter("").add(kEmbedding + ".weight", {5, 8}).refused(), {kEmbedding + ".weight"}));
  BOOST_TEST(mentions(Adapter(R"(, "modules_to_save": ["embed_tokens"])").add(kEmbedding + ".weight", {6, 8}).refused(),
                      {kEmbedding + ".weight", "[6, 8]", "[5, 8]"}));
  BOOST_TEST(mentions(Adapter(R"(, "modules_to_save": ["lm_head"])", R"("lm_head")")
                          .add(kHead + ".lora_A.weight", {2, 8})
                          .add(kHead + ".lora_B.weight", {5, 2})
                          .add(kHead + ".weight", {5, 8})
                          .refused(),
                      {kHead + ".lora_A.weight"}));
}

// As PEFT does (check_target_module_exists).
BOOST_AUTO_TEST_CASE(a_saved_module_is_no_target) {
  const PeftAdapter adapter =
      Adapter(R"(, "modules_to_save": ["lm_head"])", R"("lm_head")").add(kHead + ".weight", {5, 8}).open();
  BOOST_REQUIRE(adapter.tables().size() == 1U);
  BOOST_TEST((adapter.tables()[0].head && adapter.tables()[0].rows && !adapter.tables()[0].update.a));
}

BOOST_AUTO_TEST_CASE(a_saved_module_has_all_its_tensors) {
  BOOST_TEST(mentions(Adapter(R"(, "modules_to_save": ["lm_head"])").refused(),
                      {kHead + ".weight", "missing", "modules_to_save"}));
  BOOST_TEST(Adapter(R"(, "modules_to_save": ["classifier"])").refused() == "accepted");  // the model has none
}

BOOST_AUTO_TEST_CASE(rows_of_single_tokens) {
  const std::string rows = ".token_adapter.trainable_tokens_delta";
  const Adapter list = Adapter(R"(, "trainable_token_indices": [4, 1])").add(kEmbedding + rows, {2, 8});
  const PeftAdapter loose = list.open(false), tied = list.open(true);
  BOOST_REQUIRE(loose.tables().size() == 1U);
  BOOST_TEST((loose.tables()[0].tokens == std::vector<std::int32_t>{4, 1}));
  BOOST_REQUIRE(tied.tables().size() == 2U);  // the tied head follows
  BOOST_TEST((tied.tables()[1].head && tied.tables()[1].rows == tied.tables()[0].rows));
  const PeftAdapter both = Adapter(R"(, "trainable_token_indices": {"embed_tokens": [4, 1], "lm_head": [0]})")
                               .add(kEmbedding + rows, {2, 8})
                               .add(kHead + rows, {1, 8})
                               .open();
  BOOST_REQUIRE(both.tables().size() == 2U);
  BOOST_TEST((both.tables()[1].tokens == std::vector<std::int32_t>{0}));
  BOOST_TEST(list.open().digest() !=
             Adapter(R"(, "trainable_token_indices": [1, 4])").add(kEmbedding + rows, {2, 8}).open().digest());
  const auto refused = [&](const std::string& value, std::uint64_t count) {
    return Adapter(", \"trainable_token_indices\": " + value).add(kEmbedding + rows, {count, 8}).refused();
  };
  BOOST_TEST(mentions(refused("[5]", 1), {"trainable_token_indices", "5", "vocabulary"}));
  BOOST_TEST(mentions(refused("[1, 1]", 2), {"trainable_token_indices", "twice"}));
  BOOST_TEST(mentions(refused("[1]", 2), {rows, "[2, 8]", "[1, 8]"}));
  BOOST_TEST(mentions(refused("[]", 2), {rows}));
  BOOST_TEST(mentions(refused("{\"other\": [1]}", 1), {"trainable_token_indices.other"}));
  BOOST_TEST(mentions(refused("[-1]", 1), {"trainable_token_indices"}));
}

// PEFT saves the embedding's rows alone where a tied head names the same ones.
BOOST_AUTO_TEST_CASE(tied_tables_may_name_the_same_tokens) {
  const std::string rows = ".token_adapter.trainable_tokens_delta";
  const auto named = [&](const std::string& head) {
    return Adapter(R"(, "trainable_token_indices": {"embed_tokens": [4, 1], "lm_head": )" + head + "}")
        .add(kEmbedding + rows, {2, 8});
  };
  const PeftAdapter same = named("[4, 1]").open(/*tied=*/true);
  BOOST_REQUIRE(same.tables().size() == 2U);
  BOOST_TEST((same.tables()[1].head && same.tables()[1].rows == same.tables()[0].rows));
  BOOST_TEST(mentions(named("[4]").refused(true), {kHead + rows, "missing"}));
  BOOST_TEST(mentions(named("[4, 1]").refused(false), {kHead + rows, "missing"}));
}

// In files of GPT-NeoX the head is embed_out; PEFT has transformers' name of it.
BOOST_AUTO_TEST_CASE(both_names_of_a_head_are_known) {
  const auto neox = [](const std::string& head) {
    Adapter adapter(", \"modules_to_save\": [\"" + head + "\"]");
    adapter.file_head = "embed_out";
    return adapter.add("base_model.model." + head + ".weight", {5, 8});
  };
  for (const char* head : {"lm_head", "embed_out"}) {
    const PeftAdapter adapter = neox(head).open();
    BOOST_REQUIRE(adapter.tables().size() == 1U);
    BOOST_TEST((adapter.tables()[0].head && adapter.tables()[0].rows));
  }
}

BOOST_AUTO_TEST_CASE(files_without_tables_at_hand_are_refused) {
  Adapter missing("", kTables);
  BOOST_TEST(mentions(missing.refused(), {kEmbedding + ".lora_embedding_A", "missing"}));
  missing.add_updates().file.tensors.erase(kHead + ".lora_B.weight");
  BOOST_TEST(mentions(missing.refused(), {kHead + ".lora_B.weight", "missing"}));
  BOOST_TEST(mentions(Adapter(R"(, "alora_invocation_tokens": [3])", kTables).add_updates().refused(),
                      {"embed_tokens", "activated LoRA"}));
}

BOOST_AUTO_TEST_SUITE_END()
