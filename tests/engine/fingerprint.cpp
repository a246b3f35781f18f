// Fingerprints are made of canonical names: they are the same whatever compiles them.
#include <array>
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

#include "tenon/tenon.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_fingerprint)

using namespace tenon;

namespace {

template <class WeightP, class HeadP, class Element, class AttentionP>
std::string class_of(const AttentionP& attention = {}) {
  return numeric_class_of<Gpt2, WeightP, HeadP, Element, AttentionP, Cpu>(tiny_gpt2(), attention);
}

// A variant of a user's own, with a name.
struct Clipped {
  static constexpr NumericClass<Clipped> numeric_class{"clipped"};
  static constexpr bool materialises_scores = false;
  float cap = 0.25f;
  float score(int, int, int, float s) const { return s > cap ? cap : s; }
  std::array<float, 1> values() const { return {cap}; }
};
static_assert(AttentionVariant<Clipped> && !Clipped::materialises_scores);

// Derived, and without a name of its own.
struct OtherFloat32 : Float32 {};
struct OtherCpu : Cpu {
  using Cpu::Cpu;
};
struct OtherGpt2 : Gpt2 {};

}  // namespace

BOOST_AUTO_TEST_CASE(a_class_is_written_in_canonical_names) {
  BOOST_TEST((class_of<ZeroPointInt8, Float32, float, FlashAttention>()) ==
             "numerics 1, family gpt2, weights int8, head float32, kv float32, attention flash, device exact");
  BOOST_TEST((class_of<GroupInt4Of<64>, Int8Exact, std::int8_t, DirectAttention>()) ==
             "numerics 1, family gpt2, weights int4_group64, head float32, kv int8, attention direct, device exact");
  BOOST_TEST((class_of<Float32, Float32, bfloat16, Clipped>()) ==
             "numerics 1, family gpt2, weights float32, head float32, kv bfloat16, attention clipped "
             "3fd0000000000000, device exact");
}

BOOST_AUTO_TEST_CASE(what_derives_from_a_policy_has_another_class) {
  const ModelConfig config = tiny_gpt2();
  BOOST_TEST(detail::family_name<AnyFamily<>>(config.model_type) == "gpt2");
  BOOST_TEST((class_of<OtherFloat32, Float32, float, FlashAttention>()) !=
             (class_of<Float32, Float32, float, FlashAttention>()));
  BOOST_TEST(detail::class_name<OtherCpu>() != detail::class_name<Cpu>());
  BOOST_TEST(detail::family_name<OtherGpt2>(config.model_type) != "gpt2");
}

// The digits are recorded: a change of them is a change of every receipt, and needs a new kNumericsVersion.
BOOST_AUTO_TEST_CASE(digits_stay_the_same) {
  const ModelConfig config = tiny_gpt2();
  const std::string name = class_of<Float32, Float32, float, FlashAttention>();
  const std::string whole = fingerprint_of(name, config, nullptr, 7);
  BOOST_TEST(whole == "ff2ea58e87709de0b288424492e40d72e6bb910bfe039f2532a703aa2815ccad");
  BOOST_TEST(short_fingerprint(whole) == "fp_" + whole.substr(0, 16));
  Engine<Gpt2> engine(random_checkpoint(config, 9), {.threads = 1});
  BOOST_TEST(engine.numeric_class() == name);
  BOOST_TEST(engine.full_fingerprint() == "e71a6ab2e5831edb27c7427ba9d906058eb3bfb77d7571fc7e6b0956af15796d");
  BOOST_TEST(engine.fingerprint() == short_fingerprint(engine.full_fingerprint()));
}

BOOST_AUTO_TEST_CASE(every_field_of_the_arithmetic_counts) {
  std::set<std::string> seen;
  const auto is_new = [&](auto&& change, const char* what) {
    ModelConfig config = tiny_gpt2();
    change(config);
    BOOST_TEST(seen.insert(fingerprint_of("a", config, nullptr, 7)).second, what << " does not count");
  };
  is_new([](ModelConfig&) {}, "nothing");
  is_new([](ModelConfig& c) { c.model_type = "gpt3"; }, "model_type");
  is_new([](ModelConfig& c) { c.layers = 1; }, "layers");
  is_new([](ModelConfig& c) { c.norm_epsilon = 1e-6f; }, "norm_epsilon");
  is_new([](ModelConfig& c) { c.activation = Activation::gelu; }, "activation");
  is_new([](ModelConfig& c) { c.experts = 4; }, "experts");
  is_new([](ModelConfig& c) { c.experts_chosen = 4; }, "experts_chosen");
  is_new([](ModelConfig& c) { c.expert_gate.limit = 7; }, "expert_gate");
  is_new([](ModelConfig& c) { c.shared_inner = 4; }, "shared_inner");
  is_new([](ModelConfig& c) { c.router_kind = RouterKind::sigmoid; }, "router_kind");
  is_new([](ModelConfig& c) { c.router_scale = 2; }, "router_scale");
  is_new([](ModelConfig& c) { c.router_epsilon = 1e-6f; }, "router_epsilon");
  is_new([](ModelConfig& c) { c.choice_bias = true; }, "choice_bias");
  is_new([](ModelConfig& c) { c.windows = {4, 0}; }, "windows");
  is_new([](ModelConfig& c) { c.windows = {0, 4}; }, "the order of windows");
  is_new([](ModelConfig& c) { c.rotary.theta = 5; }, "theta");
  is_new([](ModelConfig& c) { c.local_rotary.theta = 5; }, "theta of the second rotation");
  is_new([](ModelConfig& c) { c.rotary.short_factors = {2}; }, "short_factors");
  is_new([](ModelConfig& c) { c.rotary.long_factors = {2}; }, "long_factors");
  is_new([](ModelConfig& c) { c.tied_head = false; }, "tied_head");
  is_new([](ModelConfig& c) { c.logit_soft_cap = 30; }, "logit_soft_cap");
  is_new([](ModelConfig& c) { c.qkv_bound = 8; }, "qkv_bound");
  is_new([](ModelConfig& c) { c.qkv_bound = 6; }, "another qkv_bound");
  is_new([](ModelConfig& c) { c.norms_after_rotation = true; }, "norms_after_rotation");
  is_new([](ModelConfig& c) { c.query_growth = 0.1f, c.query_period = 4; }, "query_growth");
  is_new([](ModelConfig& c) { c.query_growth = 0.1f, c.query_period = 8; }, "query_period");
  ModelConfig more_positions = tiny_gpt2();
  more_positions.positions *= 2;
  BOOST_TEST(fingerprint_of("a", more_positions, nullptr, 7) == fingerprint_of("a", tiny_gpt2(), nullptr, 7));
}

BOOST_AUTO_TEST_CASE(the_tokenizer_counts) {
  const auto tales = load_checkpoint(TENON_SOURCE_DIR "/examples/models/tales");
  const ModelConfig config = tiny_gpt2();
  const std::string with = fingerprint_of("a", config, tales.tokenizer.get(), 7);
  BOOST_TEST(with != fingerprint_of("a", config, nullptr, 7));
  BOOST_TEST(with == fingerprint_of("a", config,
                                    load_checkpoint(TENON_SOURCE_DIR "/examples/models/tales").tokenizer.get(), 7));
  BOOST_TEST(with != fingerprint_of("b", config, tales.tokenizer.get(), 7));
  BOOST_TEST(with != fingerprint_of("a", config, tales.tokenizer.get(), 8));
}

BOOST_AUTO_TEST_SUITE_END()
