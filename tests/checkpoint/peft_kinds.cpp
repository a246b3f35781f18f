// Adapters that are more than two factors a module: AdaLoRA, VeRA, DoRA, IA3, biases and norms.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "tenon/checkpoint/peft.h"
#include "tensor_file.h"

BOOST_AUTO_TEST_SUITE(checkpoint_peft_kinds)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

const std::vector<PeftModule> kModules = {{"transformer.h.0.attn.c_attn", 8, 24}, {"transformer.h.0.mlp.c_fc", 8, 32}};
const std::string kAttention = "base_model.model.transformer.h.0.attn.c_attn";
const std::string kMlp = "base_model.model.transformer.h.0.mlp.c_fc";
const std::string kNorm = "base_model.model.transformer.ln_f";

std::vector<float> values(std::size_t count, float first) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = first + 0.37f * static_cast<float>(i % 7);
  return all;
}

struct Adapter {
  std::string config;
  TensorFile file;

  void add(const std::string& name, std::vector<std::uint64_t> shape, float first) {
    std::size_t count = 1;
    for (const auto size : shape) count *= static_cast<std::size_t>(size);
    file.add(name, DType::f32, std::move(shape), values(count, first));
  }
  PeftAdapter open() const {
    const Scratch scratch;  // an open file outlives its name
    scratch.write("adapter_config.json", config);
    file.write(scratch / "adapter_model.safetensors");
    return PeftAdapter::open(scratch.folder(), kModules, base());
  }
  // A model with a bias and norms.
  static PeftBase base() {
    PeftBase base;
    base.vectors = {{"transformer.h.0.attn.c_attn.bias", 24},
                    {"transformer.h.0.mlp.c_fc.bias", 32},
                    {"transformer.ln_f.bias", 8},
                    {"transformer.ln_f.weight", 8}};
    return base;
  }
};

Adapter adalora() {
  Adapter a;
  a.config =
      R"({"peft_type": "ADALORA", "init_r": 3, "r": 8, "target_r": 2, "lora_alpha": 6, "beta1": 0.85, "total_step": 9,
          "target_modules": ["c_attn", "c_fc"],
          "rank_pattern": {"transformer.h.0.mlp.c_fc.lora_E": [true, false, true]}})";
  a.add(kAttention + ".lora_A", {3, 8}, 0.5f);
  a.add(kAttention + ".lora_B", {24, 3}, -1.0f);
  a.add(kAttention + ".lora_E", {3, 1}, 0.25f);
  a.add(kMlp + ".lora_A", {2, 8}, 1.5f);
  a.add(kMlp + ".lora_B", {32, 2}, 2.0f);
  a.add(kMlp + ".lora_E", {2, 1}, -0.75f);
  return a;
}

Adapter vera() {
  Adapter a;
  a.config = R"({"peft_type": "VERA", "r": 5, "projection_prng_key": 5, "save_projection": true, "d_initial": 0.1,
                 "target_modules": ["c_attn", "c_fc"]})";
  a.add("base_model.vera_A", {5, 12}, 0.5f);  // as for a module of 12 inputs
  a.add("base_model.vera_B", {40, 5}, -1.0f);
  for (const auto& [stem, outputs] : {std::pair(kAttention, 24), std::pair(kMlp, 32)}) {
    a.add(stem + ".vera_lambda_d", {5}, static_cast<float>(outputs));
    a.add(stem + ".vera_lambda_b", {static_cast<std::uint64_t>(outputs)}, -static_cast<float>(outputs));
  }
  return a;
}

Adapter dora(const std::string& magnitude = ".lora_magnitude_vector") {
  Adapter a;
  a.config = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 6, "use_dora": true, "target_modules": ["c_attn"]})";
  a.add(kAttention + ".lora_A.weight", {2, 8}, 0.5f);
  a.add(kAttention + ".lora_B.weight", {24, 2}, -1.0f);
  a.add(kAttention + magnitude, {24}, 2.0f);
  return a;
}

Adapter lora_bias() {
  Adapter a = dora();
  a.config = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 6, "lora_bias": true, "target_modules": ["c_attn"]})";
  a.file.tensors.erase(kAttention + ".lora_magnitude_vector");
  a.add(kAttention + ".lora_B.bias", {24}, 3.0f);
  return a;
}

Adapter ia3() {
  Adapter a;
  a.config = R"({"peft_type": "IA3", "target_modules": ["c_attn", "c_fc"], "feedforward_modules": ["_fc"],
                 "fan_in_fan_out": true, "init_ia3_weights": true})";
  a.add(kAttention + ".ia3_l", {24, 1}, 0.5f);
  a.add(kMlp + ".ia3_l", {1, 8}, 0.75f);
  return a;
}

// A LoRA of c_attn that replaces all vectors of the model.
Adapter replacing() {
  Adapter a = dora();
  a.config = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 6, "bias": "all", "modules_to_save": ["ln_f"],
                 "target_modules": ["c_attn"]})";
  a.file.tensors.erase(kAttention + ".lora_magnitude_vector");
  a.add(kAttention + ".base_layer.bias", {24}, 0.5f);
  a.add(kMlp + ".bias", {32}, 0.25f);
  a.add(kNorm + ".weight", {8}, 2.0f);
  a.add(kNorm + ".bias", {8}, 1.0f);
  return a;
}

std::vector<float> a_of(const PeftAdapter& adapter, const PeftFactors& f) {
  std::vector<float> out(f.a_bytes() / sizeof(float));
  adapter.read_a(f, std::as_writable_bytes(std::span(out)));
  return out;
}
std::vector<float> b_of(const PeftAdapter& adapter, const PeftFactors& f) {
  std::vector<float> out(f.b_bytes() / sizeof(float));
  adapter.read_b(f, std::as_writable_bytes(std::span(out)));
  return out;
}

// rows x cols of a matrix whose rows have `stored` values, times the gain of each row.
std::vector<float> scaled(const std::vector<float>& matrix, std::size_t rows, std::size_t cols, std::size_t stored,
                          const std::vector<float>& gains) {
  std::vector<float> out;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) out.push_back(matrix[r * stored + c] * gains[r]);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(adalora_scales_the_rows_of_a) {
  const PeftAdapter adapter = adalora().open();
  BOOST_REQUIRE(adapter.factors().size() == 2U);
  const PeftFactors &attention = adapter.factors()[0], &mlp = adapter.factors()[1];
  BOOST_TEST((attention.rank == 3 && mlp.rank == 2));
  for (const PeftFactors* f : {&attention, &mlp}) {
    BOOST_TEST(f->scale == 6 / (3 + 1e-5));
    BOOST_CHECK(f->type == FactorType::float32);
  }
  BOOST_TEST((a_of(adapter, attention) == scaled(values(24, 0.5f), 3, 8, 8, values(3, 0.25f))));
  BOOST_TEST((b_of(adapter, attention) == values(72, -1.0f)));
  BOOST_TEST((a_of(adapter, mlp) == scaled(values(16, 1.5f), 2, 8, 8, values(2, -0.75f))));
}

// All ranks of a module may be pruned: it has no update then.
BOOST_AUTO_TEST_CASE(adalora_leaves_out_what_is_pruned_whole) {
  Adapter a = adalora();
  a.config.replace(a.config.find("[true, false, true]"), 19, "[false, false, false]");
  for (const char* each : {".lora_A", ".lora_B", ".lora_E"}) a.file.tensors.erase(kMlp + each);
  a.add(kMlp + ".lora_A", {0, 8}, 0);
  a.add(kMlp + ".lora_B", {32, 0}, 0);
  a.add(kMlp + ".lora_E", {0, 1}, 0);
  const PeftAdapter adapter = a.open();
  BOOST_REQUIRE(adapter.factors().size() == 1U);
  BOOST_TEST(adapter.factors()[0].module == 0U);
  BOOST_TEST(adapter.digest() != adalora().open().digest());
  a.file.tensors.erase(kMlp + ".lora_B");
  BOOST_TEST(mentions(refusal([&] { a.open(); }), {kMlp + ".lora_B", "missing"}));
}

// PEFT takes the rank, after pruning, for an alpha that is not positive.
BOOST_AUTO_TEST_CASE(adalora_without_a_positive_alpha_scales_by_the_rank) {
  for (const std::string alpha : {"0", "-6"}) {
    Adapter a = adalora();
    a.config.replace(a.config.find("\"lora_alpha\": 6"), 15, "\"lora_alpha\": " + alpha);
    const PeftAdapter adapter = a.open();
    BOOST_TEST(adapter.factors()[0].scale == 3 / (3 + 1e-5));
    BOOST_TEST(adapter.factors()[1].scale == 2 / (3 + 1e-5));
  }
}

BOOST_AUTO_TEST_CASE(vera_scales_parts_of_shared_matrices) {
  const PeftAdapter adapter = vera().open();
  BOOST_REQUIRE(adapter.factors().size() == 2U);
  for (const PeftFactors& f : adapter.factors()) {
    const float outputs = static_cast<float>(f.outputs);
    BOOST_TEST((f.rank == 5 && f.scale == 1 && f.inputs == 8));
    BOOST_TEST((a_of(adapter, f) == scaled(values(60, 0.5f), 5, 8, 12, values(5, outputs))));
    BOOST_TEST((b_of(adapter, f) == scaled(values(200, -1.0f), static_cast<std::size_t>(f.outputs), 5, 5,
                                           values(static_cast<std::size_t>(f.outputs), -outputs))));
  }
}

BOOST_AUTO_TEST_CASE(digests_tell_gains_modules_and_invocations_apart) {
  const std::string digest = vera().open().digest();
  BOOST_TEST(digest == vera().open().digest());
  Adapter other = vera();
  other.file.tensors.erase(kMlp + ".vera_lambda_d");
  other.add(kMlp + ".vera_lambda_d", {5}, 7.0f);
  BOOST_TEST(digest != other.open().digest());
  Adapter gains = adalora();
  gains.file.tensors.erase(kMlp + ".lora_E");
  gains.add(kMlp + ".lora_E", {2, 1}, 0.5f);
  BOOST_TEST(gains.open().digest() != adalora().open().digest());

  Adapter lora;
  lora.config = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["c_attn"]})";
  lora.add(kAttention + ".lora_A.weight", {2, 8}, 0.5f);
  lora.add(kAttention + ".lora_B.weight", {24, 2}, 0.5f);
  const std::string plain = lora.open().digest();
  const auto with_invocation = [&](const std::string& tokens) {
    Adapter activated;
    activated.config = lora.config;
    activated.config.insert(1, "\"alora_invocation_tokens\": " + tokens + ", ");
    activated.file = lora.file;
    return activated.open().digest();
  };
  BOOST_TEST(with_invocation("null") == plain);
  BOOST_TEST(with_invocation("[]") == plain);
  BOOST_TEST(with_invocation("[3]") != plain);
  BOOST_TEST(with_invocation("[3]") != with_invocation("[3, 3]"));
}

BOOST_AUTO_TEST_CASE(a_magnitude_of_dora_has_any_of_the_names_that_peft_reads) {
  for (const std::string name : {".lora_magnitude_vector", ".lora_magnitude_vector.weight"}) {
    const PeftAdapter adapter = dora(name).open();
    BOOST_REQUIRE(adapter.factors().size() == 1U);
    const PeftFactors& f = adapter.factors()[0];
    BOOST_TEST((f.rank == 2 && f.scale == 3 && f.b_bias == nullptr));
    BOOST_REQUIRE(f.magnitude != nullptr);
    BOOST_TEST(f.magnitude->name == kAttention + name);
    BOOST_TEST(adapter.others().size() == 1U);
  }
}

BOOST_AUTO_TEST_CASE(lora_b_may_have_a_bias) {
  const PeftAdapter adapter = lora_bias().open();
  BOOST_REQUIRE(adapter.factors()[0].b_bias != nullptr);
  BOOST_TEST(adapter.factors()[0].b_bias->name == kAttention + ".lora_B.bias");
  BOOST_TEST(adapter.factors()[0].magnitude == nullptr);
}

// PEFT compares the ends of the texts: "_fc" is the end of c_fc.
BOOST_AUTO_TEST_CASE(ia3_has_a_vector_a_module) {
  Adapter expression = ia3();
  expression.config.replace(expression.config.find("[\"_fc\"]"), 7, "\".*c_fc\"");
  for (const Adapter& each : {ia3(), expression}) {
    const PeftAdapter adapter = each.open();
    BOOST_TEST(adapter.factors().empty());
    BOOST_REQUIRE(adapter.scales().size() == 2U);
    BOOST_TEST((adapter.scales()[0].module == 0U && !adapter.scales()[0].of_inputs));
    BOOST_TEST((adapter.scales()[1].module == 1U && adapter.scales()[1].of_inputs));
    BOOST_TEST(adapter.scales()[1].factors->name == kMlp + ".ia3_l");
  }
}

BOOST_AUTO_TEST_CASE(tensors_of_the_model_may_be_replaced) {
  const PeftAdapter adapter = replacing().open();
  std::vector<std::string> names;
  for (const PeftReplacement& each : adapter.replacements()) names.push_back(each.name);
  std::sort(names.begin(), names.end());
  BOOST_TEST((names == std::vector<std::string>{"transformer.h.0.attn.c_attn.bias", "transformer.h.0.mlp.c_fc.bias",
                                                "transformer.ln_f.bias", "transformer.ln_f.weight"}));
}

// bias "all" writes the biases within PEFT's wrapper of a saved module, too.
BOOST_AUTO_TEST_CASE(copies_within_a_saved_module_have_no_effect) {
  Adapter adapter = replacing();
  const std::string digest = adapter.open().digest();
  adapter.add(kNorm + ".original_module.bias", {8}, 5.0f);
  adapter.add(kNorm + ".modules_to_save.bias", {8}, 1.0f);
  adapter.add(kNorm + ".original_module.weight", {8}, 5.0f);
  adapter.add(kNorm + ".modules_to_save.weight", {8}, 2.0f);
  const PeftAdapter opened = adapter.open();
  BOOST_TEST(opened.digest() == digest);
  BOOST_TEST(opened.copies().size() == 4U);
  Adapter less = replacing();
  less.file.tensors.erase(kNorm + ".bias");
  BOOST_TEST(mentions(refusal([&] { less.open(); }), {kNorm + ".bias", "missing", "modules_to_save"}));
  adapter.add(kMlp + ".original_module.bias", {32}, 5.0f);  // of a module that is not saved
  BOOST_TEST(mentions(refusal([&] { adapter.open(); }), {kMlp + ".original_module.bias"}));
  adapter.file.tensors.erase(kMlp + ".original_module.bias");
  adapter.add(kMlp + ".original_module.weight", {32, 8}, 5.0f);
  BOOST_TEST(mentions(refusal([&] { adapter.open(); }), {kMlp + ".original_module.weight"}));
}

BOOST_AUTO_TEST_CASE(digests_count_every_tensor_with_an_effect) {
  for (const auto make :
       {+[] { return dora(); }, +[] { return lora_bias(); }, +[] { return ia3(); }, +[] { return replacing(); }}) {
    const std::string digest = make().open().digest();
    BOOST_TEST(make().open().digest() == digest);
    for (const auto& [name, tensor] : make().file.tensors) {
      Adapter other = make();
      const auto shape = tensor.shape;
      other.file.tensors.erase(name);
      other.add(name, shape, 9.0f);
      BOOST_TEST(other.open().digest() != digest, name);
    }
  }
}

BOOST_AUTO_TEST_CASE(more_than_updates_is_told_apart) {
  const auto refused = [](const Adapter& each) {
    return refusal([&] { each.open().require_plain_updates("is too much"); });
  };
  BOOST_TEST(refused(adalora()) == "accepted");
  BOOST_TEST(refused(vera()) == "accepted");
  BOOST_TEST(mentions(refused(dora()), {"use_dora", "is too much"}));
  BOOST_TEST(mentions(refused(lora_bias()), {"lora_bias", "is too much"}));
  BOOST_TEST(mentions(refused(ia3()), {"peft_type", "IA3", "is too much"}));
  BOOST_TEST(mentions(refused(replacing()), {"bias", "is too much"}));
}

BOOST_AUTO_TEST_CASE(files_that_do_not_fit_are_refused) {
  const auto refused = [](auto&& made, auto&& change, const std::vector<std::string>& words) {
    Adapter adapter = made();
    change(adapter);
    const std::string message = refusal([&] {
      const PeftAdapter opened = adapter.open();
      [[maybe_unused]] const std::string digest = opened.digest();
    });
    BOOST_TEST(mentions(message, words), message);
  };
  const auto without = [](const std::string& tensor) { return [tensor](Adapter& a) { a.file.tensors.erase(tensor); }; };
  const auto with = [](const std::string& tensor, std::vector<std::uint64_t> shape, float first = 1) {
    return [=](Adapter& a) {
      a.file.tensors.erase(tensor);
      a.add(tensor, shape, first);
    };
  };
  const auto make_dora = [] { return dora(); };
  const auto insert = [](const std::string& field) {
    return [field](Adapter& a) { a.config.insert(1, field + ", "); };
  };
  refused(make_dora, without(kAttention + ".lora_magnitude_vector"), {"lora_magnitude_vector", "missing"});
  refused(make_dora, with(kAttention + ".lora_magnitude_vector", {23}), {"lora_magnitude_vector", "[23]", "[24]"});
  refused(make_dora, with(kMlp + ".lora_magnitude_vector", {32}), {kMlp + ".lora_magnitude_vector"});
  refused(make_dora, insert("\"lora_bias\": true"), {"lora_bias", "use_dora"});
  refused(make_dora, insert("\"alora_invocation_tokens\": [3]"), {"use_dora", "activated LoRA"});
  refused(replacing, insert("\"alora_invocation_tokens\": [3]"), {"bias", "activated LoRA"});
  refused(adalora, insert("\"use_dora\": true"), {"use_dora", "AdaLoRA"});
  refused(lora_bias, insert("\"init_lora_weights\": \"gaussian\""), {"lora_bias", "init_lora_weights"});
  refused(lora_bias, without(kAttention + ".lora_B.bias"), {"lora_B.bias", "missing"});
  refused(ia3, with(kMlp + ".ia3_l", {32, 1}), {kMlp + ".ia3_l", "[32, 1]", "[1, 8]"});
  refused(ia3, without(kAttention + ".ia3_l"), {kAttention + ".ia3_l", "missing"});
  refused(ia3, with(kMlp + ".lora_A", {2, 8}), {kMlp + ".lora_A", "ia3_l"});
  refused(adalora, with(kMlp + ".ia3_l", {2, 8}), {kMlp + ".ia3_l", "lora_E"});
  refused(vera, with(kMlp + ".ia3_l", {2, 8}), {kMlp + ".ia3_l", "vera_lambda_d"});
  refused(ia3, [](Adapter& a) { a.config.replace(a.config.find("\"feedforward"), 30, "\"x\": 1"); },
          {"feedforward_modules"});
  // PEFT looks for the bias of an adapted module below base_layer, and for others' without.
  refused(replacing, with(kAttention + ".bias", {24}), {kAttention + ".bias", "base_layer"});
  refused(replacing, with(kMlp + ".base_layer.bias", {32}), {kMlp + ".base_layer.bias", "not a target"});
  refused(replacing, with(kNorm + ".weight", {7}), {"ln_f.weight", "[7]", "[8]"});
  refused(vera, with("base_model.vera_A", {6, 12}), {"vera_A", "rank 6", "r = 5"});
  refused(vera, with("base_model.vera_B", {40, 6}), {"vera_B", "rank 6", "r = 5"});
  refused(adalora, [](Adapter& a) { a.config.insert(1, "\"alora_invocation_tokens\": [3], "); },
          {"alora_invocation_tokens", "AdaLoRA"});
  refused(adalora, without(kMlp + ".lora_E"), {kMlp + ".lora_E", "missing"});
  refused(adalora, with(kMlp + ".lora_E", {3, 1}), {kMlp + ".lora_E", "[3, 1]", "[2, 1]"});
  refused(adalora, with(kMlp + ".lora_C", {3, 1}), {kMlp + ".lora_C"});
  refused(adalora, with(kMlp + ".lora_E", {2, 1}, 3e38f), {kMlp + ".lora_A", kMlp + ".lora_E", "finite"});
  refused(vera, without("base_model.vera_A"), {"vera_A", "missing"});
  refused(vera, with("base_model.vera_A", {5, 7}), {"vera_A", "at least [5, 8]"});
  refused(vera, with("base_model.vera_B", {31, 5}), {"vera_B", "at least [32, 5]"});
  refused(vera, with(kMlp + ".vera_lambda_b", {31}), {"vera_lambda_b", "[31]", "[32]"});
  refused(vera, [](Adapter& a) { a.config.replace(a.config.find("true"), 4, "false"); },
          {"save_projection", "save_projection=True"});
  refused(adalora, [](Adapter& a) { a.config.replace(a.config.find("true, false, true"), 17, "false, false"); },
          {kMlp + ".lora_A", "[2, 8]", "[0, 8]"});
  refused(adalora, [](Adapter& a) { a.config.replace(a.config.find("true, false, true"), 17, "2"); },
          {"rank_pattern.transformer.h.0.mlp.c_fc.lora_E", "true and false"});
}

BOOST_AUTO_TEST_SUITE_END()
