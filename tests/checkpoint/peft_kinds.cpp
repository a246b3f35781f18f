// Adapters whose factors are computed from several tensors: AdaLoRA and VeRA.
#include <boost/test/unit_test.hpp>

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
    return PeftAdapter::open(scratch.folder(), kModules);
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
          {"rank_pattern.transformer.h.0.mlp.c_fc.lora_E", "no rank"});
  refused(adalora, [](Adapter& a) { a.config.replace(a.config.find("true, false, true"), 17, "2"); },
          {"rank_pattern.transformer.h.0.mlp.c_fc.lora_E", "true and false"});
}

BOOST_AUTO_TEST_SUITE_END()
