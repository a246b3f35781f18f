// The promise on a GPU over random mixes: 32 in each run of the tests, 2,000 by scripts/gpu-check, which passes
// `-- --mixes N --seed S --seconds T` to this program. Mixes with float32 keys are of the exact class, and their
// answers are those that each request has alone on the CPU. Mixes with bfloat16 keys are of tensor cores, and the
// request is alone on the GPU.
#define BOOST_TEST_MODULE tenon engine mixes cuda
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "../device/on_device.h"
#include "mixes.h"
#include "tenon/tenon.cuh"

using namespace tenon;
using namespace tenon::invariance;
using tenon::test::NeedsCuda;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

namespace {

constexpr std::uint64_t kMixes = 32, kTogether = 16;  // of a run; between two looks at the clock

template <class... Choices>
std::unique_ptr<AnyEngine> made(const Setup& s) {
  using E = Engine<Gpt2, Scheduler<AnyScheduler>, Choices...>;
  return std::make_unique<EngineBox<E>>(random_checkpoint(tiny(s.shape), s.weights), s.scheduler, s.options);
}

template <int Block>
std::unique_ptr<AnyEngine> on_tensor_cores(const Setup& s) {
  return made<Device<Cuda>, Weights<BFloat16Mma>, Attention<FlashMma>, Cache<PagedKVOf<Block, bfloat16>>>(s);
}

// alone_in() asks for no cache, which these engines do not have: a request alone has a paged one to itself.
std::unique_ptr<AnyEngine> on_gpu(const Setup& setup) {
  Setup s = setup;
  const bool is_alone = s.cache == Keep::none;
  if (is_alone) s.options.token_budget = 1024;
  if (s.kv == Kv::bfloat16) return s.cache == Keep::paged64 ? on_tensor_cores<64>(s) : on_tensor_cores<16>(s);
  return is_alone ? made<Device<Cpu>>(s) : made<Device<Cuda>>(s);
}

constexpr std::array kCaches = {Keep::paged16, Keep::paged64};
constexpr std::array kElements = {Kv::float32, Kv::bfloat16};
constexpr std::array kAttention = {Attend::flash};
constexpr Choices kGpuChoices = {kShapes, [](int shape) { return tiny(shape).vocab; }, kCaches, kElements, kAttention};

std::uint64_t argument(std::string_view name, std::uint64_t otherwise) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  for (int i = 1; i + 1 < suite.argc; ++i) {
    if (suite.argv[i] == name) return std::stoull(suite.argv[i + 1]);
  }
  return otherwise;
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_mixes_give_what_each_request_gives_alone) {
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t wanted = argument("--mixes", kMixes), first = argument("--seed", 1);
  const auto limit = std::chrono::seconds(argument("--seconds", 3600));
  std::uint64_t mixes = 0, equal = 0, preemptions = 0, hits = 0, tokens = 0;
  while (mixes < wanted && std::chrono::steady_clock::now() - begin < limit) {
    const Totals some = run_mixes(first + mixes, std::min(kTogether, wanted - mixes), on_gpu, false, kGpuChoices);
    mixes += some.mixes, equal += some.equal, preemptions += some.preemptions, hits += some.hit_tokens,
        tokens += some.tokens;
    std::printf("%llu of %llu mixes are equal, %llu tokens\n", static_cast<unsigned long long>(equal),
                static_cast<unsigned long long>(mixes), static_cast<unsigned long long>(tokens));
    std::fflush(stdout);
  }
  BOOST_TEST(equal == mixes);
  BOOST_TEST(mixes > 0u);
  if (mixes < kMixes) return;
  BOOST_TEST(preemptions > 0u);
  BOOST_TEST(hits > 0u);
}
