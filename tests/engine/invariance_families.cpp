// The promise for the other families: what random mixes of requests, schedules and caches answer is what each request
// gives alone. Shared heads, rotary positions under every scaling, windows, ALiBi, mixtures of experts and sinks, each
// in sizes that divide nothing.
#include <boost/test/unit_test.hpp>

#include "mixes.h"

BOOST_AUTO_TEST_SUITE(engine_invariance_families)

using namespace tenon;
using namespace tenon::invariance;

namespace {

// A mixture of five experts, of which a token chooses two. Random gains of 1 make routers that tell tokens apart.
ModelConfig mixture(std::string_view model_type, RouterKind kind) {
  ModelConfig c = small(llama_like(model_type), 4, 2, 10);
  c.norm_epsilon = 1e-5f;
  c.experts = 5;
  c.experts_chosen = 2;
  c.expert_inner = 23;
  c.router_kind = kind;
  return c;
}

// OPT 350M: norms after the sums, and embeddings narrower than x.
ModelConfig narrow_opt() {
  ModelConfig c = small({}, 4, 4, 9);
  c.model_type = "opt";
  c.activation = Activation::relu;
  c.norm_epsilon = 1e-5f;
  c.norms_after = true;
  c.final_norm = false;
  c.embedding_width = 19;
  c.attention_bias = c.mlp_bias = true;
  return c;
}

// Falcon RW: biases of keys in bfloat16.
ModelConfig rounded_falcon() {
  ModelConfig c = small({}, 4, 4, 8);
  c.model_type = "falcon";
  c.activation = Activation::gelu;
  c.norm_epsilon = 1e-5f;
  c.position_kind = PositionKind::alibi;
  c.rounded_alibi = true;
  c.interleaved_qkv = true;
  return c;
}

// Short convolutions first and last, and in the middle; queries that grow; norms after the rotation.
ModelConfig newer(int shape) {
  const char* const types[] = {"lfm2", "lfm2", "ministral3", "hunyuan_v1_dense"};
  ModelConfig c = shape == 11 ? small(llama_like(types[1]), 4, 4, 10) : small(llama_like(types[shape - 10]), 4, 1, 18);
  c.norm_epsilon = 1e-5f;
  if (shape <= 11) {
    c.layers = 3;
    c.hidden = c.heads * c.head_dim;
    c.conv_layers = shape == 10 ? std::vector<bool>{true, false, true} : std::vector<bool>{false, true, false};
    c.conv_taps = shape == 10 ? 3 : 5;
    c.conv_bias = shape == 11;
  }
  if (shape == 12) {
    c.query_growth = 0.3f;
    c.query_period = 37;
    c.window = 60;
  }
  if (shape == 13) c.norms_after_rotation = c.head_norms = true;
  return c;
}

// Shared experts, and routers with a bias for the choice alone.
ModelConfig with_choices(int shape) {
  if (shape == 16) {
    ModelConfig c = mixture("ernie4_5_moe", RouterKind::normalised);
    c.rotary.neighbours = true;
    c.choice_bias = c.attention_bias = c.mlp_bias = true;
    c.shared_inner = 46;
    c.router_epsilon = 0.3f;
    return c;
  }
  if (shape == 15) {
    ModelConfig c = newer(10);
    const ModelConfig of = mixture("lfm2_moe", RouterKind::normalised_sigmoid);
    c.model_type = of.model_type;
    c.experts = of.experts, c.experts_chosen = of.experts_chosen, c.expert_inner = of.expert_inner;
    c.router_kind = of.router_kind;
    c.router_scale = 1.5f, c.router_epsilon = 1e-6f;
    c.choice_bias = true;
    c.dense_layers = {true, false, false};
    return c;
  }
  ModelConfig c = mixture("qwen2_moe", RouterKind::softmax);
  c.qkv_bias = true;
  c.shared_inner = 61;  // wider than the MLP of the first layer
  c.dense_layers = {true, false};
  return c;
}

ModelConfig of_shape(int shape) {
  if (shape == 0) return small(GptBigCode::starcoder(), 6, 1, 10);
  if (shape == 1) {
    ModelConfig c = small(Llama::one_billion(), 6, 2, 18);
    c.rotary = {RotaryScaling::llama3, 500, 8, 1, 4, 32};
    return c;
  }
  if (shape == 2) {
    ModelConfig c = small(Llama::one_billion(), 4, 4, 6);
    c.rotary = {.scaling = RotaryScaling::dynamic, .factor = 16, .trained_positions = 40};  // most texts are longer
    c.tied_head = false;
    return c;
  }
  if (shape == 3) {
    ModelConfig c = small(Mistral::seven_billion(), 9, 3, 12);
    c.window = 21;
    return c;
  }
  if (shape == 4) {
    ModelConfig c = small(Mistral::seven_billion(), 5, 1, 8);
    c.window = 150;  // more than a stride and less than a split of attention
    return c;
  }
  if (shape == 5) return small(Bloom::small(), 3, 3, 20);
  if (shape == 6) {
    ModelConfig c = mixture("qwen3_moe", RouterKind::normalised);
    c.dense_layers = {true, false};
    return c;
  }
  if (shape == 7) {
    ModelConfig c = mixture("gpt_oss", RouterKind::chosen_softmax);
    c.attention_bias = true;
    c.windows = {21, 0};
    c.expert_gate = {Activation::silu, 7.0f, 1.702f};
    return c;
  }
  if (shape >= 14) return with_choices(shape);
  if (shape == 8) return narrow_opt();
  return shape == 9 ? rounded_falcon() : newer(shape);
}
constexpr int kFamilyShapes = 17;

std::unique_ptr<AnyEngine> make_family(const Setup& s) {
  using Model = AnyFamily<>;
  const ModelConfig config = of_shape(s.shape);
  switch (s.cache) {
    case Keep::none:
      return make<FlashAttention, NoCache, Model>(s, config);
    case Keep::contiguous:
      return make<FlashAttention, ContiguousKV, Model>(s, config);
    case Keep::window:
      return make<FlashAttention, WindowKV, Model>(s, config);
    default:
      return make<FlashAttention, PagedKV, Model>(s, config);
  }
}

constexpr std::array kCaches = {Keep::paged16, Keep::paged16, Keep::contiguous,
                                Keep::window,  Keep::window,  Keep::window};
constexpr std::array kElements = {Kv::float32};
constexpr std::array kFlash = {Attend::flash};
constexpr Choices kChoices = {kFamilyShapes, [](int) { return 77; }, kCaches, kElements, kFlash};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kMixesEach = 4;
#else
constexpr std::uint64_t kMixesEach = 20;
#endif

}  // namespace

BOOST_AUTO_TEST_CASE(random_mixes_give_what_each_request_gives_alone) {
  std::uint64_t preemptions = 0, hits = 0;
  for (std::uint64_t shape = 0; shape < kFamilyShapes; ++shape) {
    const Totals totals = run_mixes(shape * kMixesOfOnePool, kMixesEach, make_family, /*quiet=*/false, kChoices);
    BOOST_TEST(totals.equal == kMixesEach, "family of shape " << shape);
    BOOST_TEST(totals.bits == 0u);
    BOOST_TEST(totals.kinds.contains("window"));
    preemptions += totals.preemptions;
    hits += totals.hit_tokens;
  }
  BOOST_TEST(preemptions > 0u);
  BOOST_TEST(hits > 0u);
}

// The same texts through one cache that forgets and one that does not, twice as long as the window and more.
BOOST_AUTO_TEST_CASE(a_window_forgets_what_nobody_reads) {
  for (const int shape : {3, 4}) {
    Setup kept{.shape = shape, .cache = Keep::contiguous, .scheduler = ContinuousPolicy{.max_batch = 4}};
    Setup forgets = kept;
    forgets.cache = Keep::window;
    forgets.options = {.token_budget = 64, .cache_tokens = 256, .threads = 2};
    Random random(9);
    std::vector<Request> requests;
    for (const int prompt : {5, 100, 333, 500}) {
      requests.push_back({.input_ids = random_text(random, prompt),
                          .options = {.max_new_tokens = 120, .ignore_eos = true, .top_logprobs = 1}});
    }
    const auto expected = run_all(*make_family(kept), requests);
    const auto engine = make_family(forgets);
    BOOST_TEST(compare(expected, run_all(*engine, requests)).bits() == 0u);
    BOOST_TEST(engine->cache_stats().capacity_tokens < 500);
  }
}

// Widths of heads are even for those who turn them; a twin shows that a window one too long is seen.
BOOST_AUTO_TEST_CASE(another_window_is_another_answer) {
  Setup setup{.shape = 3, .cache = Keep::paged16};
  Random random(2);
  const std::vector<Request> requests = {{.input_ids = random_text(random, 60),
                                          .options = {.max_new_tokens = 8, .ignore_eos = true, .logits_hash = true}}};
  const auto answer = [&](int window) {
    ModelConfig config = of_shape(3);
    config.window = window;
    return run_all(*make<FlashAttention, PagedKV, AnyFamily<>>(setup, config), requests).front().logits_hash;
  };
  BOOST_CHECK(answer(21) == answer(21));
  BOOST_CHECK(answer(21) != answer(22));
  BOOST_CHECK(answer(68) == answer(0));  // longer than the text
}

BOOST_AUTO_TEST_SUITE_END()
