// An engine on the GPU gives the answers of one on the CPU, bit for bit: tokens, log-probabilities, and every logit.
#define BOOST_TEST_MODULE tenon engine cuda
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <string>
#include <tuple>

#include "../device/on_device.h"
#include "invariance.h"
#include "tenon/tenon.cuh"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

static_assert(PicksAhead<Cuda, Float32::View> && PicksAhead<Cuda, ZeroPointInt8Act8::View>,
              "or every step would wait for the host");
static_assert(PreparesDraws<Cuda, Float32::View> && PreparesDraws<Cuda, ZeroPointInt8Act8::View>,
              "or whole rows would come back");

namespace {

std::vector<Request> requests(int vocab) {
  std::vector<Request> all;
  for (int i = 0; i < 12; ++i) {
    Request r;
    for (int t = 0; t < 1 + i * i * 2; ++t) r.input_ids.push_back((i * 31 + t * 7) % vocab);
    r.options = {.max_new_tokens = 5 + i, .ignore_eos = true};
    r.options.seed = static_cast<std::uint64_t>(i);
    if (i % 3 == 1) r.options.temperature = 0.8f;
    if (i % 6 == 1) r.options.top_k = 20;  // drawn from the best that the device finds
    if (i == 5) r.options.n = 3;           // blocks that two write are copied
    if (i % 4 == 3)
      r.options.repetition_penalty = 1.3f, r.options.frequency_penalty = 0.2f;  // prepared for a draw there
    if (i == 7) r.options.top_p = 0.7f, r.options.logit_bias = {{3, 2.0f}, {9, -100.0f}};
    if (i == 9) r.options.min_new_tokens = 5, r.options.ignore_eos = false;
    if (i % 4 == 2 || i == 3) r.options.top_logprobs = 3;  // of the best that the device finds, or of a whole row
    r.options.logits_hash = i % 2 == 0;
    all.push_back(std::move(r));
  }
  return all;
}

template <class Model, class... Choices>
void check(const ModelFiles& files, const std::vector<Request>& requests, const char* what) {
  EngineOptions options{.token_budget = 100, .batch = 8, .threads = 2};
  Engine<Model, Device<Cpu>, Choices...> here(files, options);
  Engine<Model, Device<Cuda>, Choices...> there(files, options);
  const auto of_cpu = here.complete(requests), of_gpu = there.complete(requests);
  for (std::size_t i = 0; i < of_cpu.size(); ++i) {
    BOOST_TEST_REQUIRE(of_gpu[i].error == of_cpu[i].error, what << ", request " << i);
    BOOST_TEST(of_gpu[i].ids == of_cpu[i].ids, what << ", request " << i);
    BOOST_TEST(of_gpu[i].logprobs == of_cpu[i].logprobs, what << ", request " << i);
    BOOST_TEST((of_gpu[i].logits_hash == of_cpu[i].logits_hash), what << ", request " << i << ": logits");
  }
  // Without a cache every step is many rows a sequence, which are launched at once.
  BOOST_TEST((there.device().graph_launches() > 0u) == decltype(there)::CacheP::keeps_tokens, what);
}

template <class Model, class... Choices>
void check(const ModelConfig& config, const char* what) {
  check<Model, Choices...>(random_checkpoint(config, 5), requests(config.vocab), what);
}

}  // namespace

// Some requests are greedy, others draw among few tokens; some end at a token that cannot be foreseen. A step is
// launched before the tokens of the step before it are known.
BOOST_AUTO_TEST_CASE(steps_ahead) {
  const ModelConfig config = invariance::tiny(0);
  const ModelFiles files = random_checkpoint(config, 5);
  std::vector<Request> all;
  for (int i = 0; i < 40; ++i) {
    Request r;
    for (int t = 0; t < 1 + i % 9 * 5; ++t) r.input_ids.push_back((i * 31 + t * 7) % config.vocab);
    r.options = {.max_new_tokens = 3 + i, .ignore_eos = true};
    if (i % 3 == 1)
      r.options.temperature = 0.9f, r.options.top_k = 10 + i, r.options.top_p = i % 2 ? 0.7f : 1.0f, r.options.seed = 5;
    all.push_back(std::move(r));
  }
  Engine<Gpt2> here(files, {.token_budget = 60, .threads = 2});
  const auto whole = here.complete(all);
  for (std::size_t i = 0; i < all.size(); i += 3) all[i].options.stop_ids = {whole[i].ids[whole[i].ids.size() / 2]};
  const auto expected = here.complete(all);
  for (const bool ahead : {true, false}) {
    for (const int cache_tokens : {0, 256}) {
      Engine<Gpt2, Device<Cuda>> there(
          files, ContinuousPolicy{.max_batch = 11},
          {.token_budget = 60, .cache_tokens = cache_tokens, .threads = 2, .run_ahead = ahead});
      const auto answers = there.complete(all);
      for (std::size_t i = 0; i < all.size(); ++i)
        BOOST_TEST(answers[i].ids == expected[i].ids, "request " << i << ", ahead " << ahead);
      BOOST_TEST((there.stats().launched_ahead > 0u) == ahead);
      BOOST_TEST((there.stats().preemptions > 0u) == (cache_tokens > 0));
    }
  }
}

BOOST_AUTO_TEST_CASE(formats_of_weights) {
  const ModelConfig config = invariance::tiny(0);
  check<Gpt2, Weights<Float32>>(config, "float32");
  check<Gpt2, Weights<BFloat16>>(config, "bfloat16");
  check<Gpt2, Weights<Float8<E4M3>>>(config, "float8_e4m3");
  check<Gpt2, Weights<ZeroPointInt8>>(config, "int8");
  check<Gpt2, Weights<GroupInt4>>(config, "int4");
  check<Gpt2, Weights<BFloat16Dot>>(config, "bfloat16_dot");
  check<Gpt2, Weights<ZeroPointInt8Act8>>(config, "int8_act8");
  check<Gpt2, Weights<GroupInt4Act8>>(config, "int4_act8");
}

BOOST_AUTO_TEST_CASE(caches_and_attentions) {
  const ModelConfig config = invariance::tiny(1);
  check<Gpt2, Cache<PagedKVOf<32, bfloat16>>>(config, "paged bfloat16");
  check<Gpt2, Cache<PagedKVOf<16, std::int8_t>>, Attention<DirectAttention>>(config, "paged int8, direct");
  check<Gpt2, Cache<ContiguousKV>>(config, "contiguous");
  check<Gpt2, Cache<NoCache>>(config, "none");
}

BOOST_AUTO_TEST_CASE(adapters) {
  // The environment's where the program was compiled elsewhere.
  const char* moved = std::getenv("TENON_SOURCE_DIR");
  const std::string tales = std::string(moved ? moved : TENON_SOURCE_DIR) + "/examples/models/tales",
                    adapters = tales + "/adapters/";
  std::vector<Request> all = requests(4096);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 4 == 1) all[i].adapters = {{adapters + "weather"}};
    if (i % 4 == 2) all[i].adapters = {{adapters + "characters"}};
    if (i % 4 == 3) all[i].adapters = {{adapters + "shakespeare", 0.7f}, {adapters + "weather", 0.5f}};
  }
  check<Gpt2>(load_checkpoint(tales), all, "segmented");
  check<Gpt2, Adapter<LoopedLoRA>, Weights<ZeroPointInt8>>(load_checkpoint(tales), all, "looped, int8");
}

// Sums that only tensor cores have are no CPU's, but one request's are the same alone and beside others.
using EnginesOnTensorCores =
    std::tuple<Engine<Gpt2, Device<Cuda>, Weights<BFloat16Mma>>, Engine<Gpt2, Device<Cuda>, Attention<FlashMma>>,
               Engine<Gpt2, Device<Cuda>, Weights<BFloat16Mma>, Attention<FlashMma>, Cache<PagedKVOf<16, bfloat16>>>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(tensor_cores_keep_the_promise, E, EnginesOnTensorCores) {
  const ModelConfig config = invariance::tiny(0);
  const ModelFiles files = random_checkpoint(config, 5);
  E together(files, {.token_budget = 100, .batch = 8, .threads = 2});
  const std::vector<Request> all = requests(config.vocab);
  const auto answers = together.complete(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    E alone(files, {.token_budget = 1000, .batch = 1, .threads = 1});
    const auto answer = alone.complete(all[i]);
    BOOST_TEST_REQUIRE(answer.error == "");
    BOOST_TEST(answer.ids.size() == static_cast<std::size_t>(all[i].options.max_new_tokens));
    BOOST_TEST(answers[i].ids == answer.ids, "request " << i);
    BOOST_TEST((answers[i].logits_hash == answer.logits_hash), "request " << i << ": logits");
  }
}
