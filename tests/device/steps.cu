// Counts the kernels, graph launches and copies of a step, with a runtime that runs no kernel (fake_cuda.h). No GPU is
// needed.
#define BOOST_TEST_MODULE tenon device steps
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "fake_cuda.h"
#include "tenon/tenon.cuh"

using namespace tenon;
using namespace tenon::test;

namespace {

// Kernels of a decoding step, its upload included. Lower these numbers when kernels are fused.
constexpr std::uint64_t kKernelsFloat32 = 101, kKernelsBFloat16Mma = 102, kKernelsBFloat16MmaOneRow = 102;
// Bytes copied to the device per step: every row has some twenty words and a table of blocks.
constexpr std::uint64_t kBytesOneRow = 2048, kBytes64Rows = 12288;

const ModelFiles& files() {
  static const ModelFiles all = random_checkpoint(Gpt2::small(), 1);
  return all;
}

__global__ void reader(const int*) {}

std::uint64_t uploaded = 0, fetched = 0;  // bytes, by copy_kernel

// Host values that depend on kernels: put values are uploaded, and a row's weights have a sum.
struct Kernels {
  Kernels() {
    fake_cuda::on_kernel("draw_total_kernel", {sizeof(MatrixView<const float>), sizeof(void*), sizeof(void*)},
                         [](void* const* arguments) {
                           std::fill_n(*static_cast<double* const*>(arguments[2]),
                                       2 * static_cast<const MatrixView<const float>*>(arguments[0])->rows, 1.0);
                         });
    copies<uint4>("copy_kernelI5uint4", uploaded);
    copies<unsigned>("copy_kernelIj", fetched);
  }
  template <class T>
  static void copies(const char* name, std::uint64_t& total) {
    fake_cuda::on_kernel(name, {sizeof(void*), sizeof(void*), sizeof(unsigned)}, [&total](void* const* arguments) {
      const std::size_t bytes = *static_cast<const unsigned*>(arguments[2]) * sizeof(T);
      std::memcpy(*static_cast<T* const*>(arguments[1]), *static_cast<const T* const*>(arguments[0]), bytes);
      total += bytes;
    });
  }
};
BOOST_TEST_GLOBAL_FIXTURE(Kernels);

void reset() {
  fake_cuda::reset();
  uploaded = fetched = 0;
}

Request request(int prompt, int new_tokens) {
  Request r;
  for (int i = 0; i < prompt; ++i) r.input_ids.push_back(i * 7919 % 50000);
  r.options = {.max_new_tokens = new_tokens, .ignore_eos = true};
  return r;
}

template <class P, class... More>
using Served = Engine<Gpt2, Device<Cuda>, Weights<P>, More...>;
using OfFloat32 = Served<Float32>;
using OfBFloat16Mma = Served<BFloat16Mma, Attention<FlashMma>, Cache<PagedKVOf<16, bfloat16>>>;

template <class E>
E make() {
  return E{files(),
           ContinuousPolicy{.max_batch = 64, .token_budget = 1024},
           {.token_budget = 1024, .batch = 64, .cache_tokens = 64 * 128, .threads = 1, .prefix_reuse = false}};
}

template <class E>
void finish(E& engine) {
  while (!engine.idle()) engine.step();
}

// Steps of `rows` rows, after graphs are made, until the texts are four blocks longer.
template <class E>
void check_decoding(E& engine, int rows, std::uint64_t most_kernels, std::uint64_t most_bytes) {
  constexpr int kFirst = 20, kSteps = 64;
  for (int i = 0; i < rows; ++i) engine.submit(request(7, kFirst + kSteps + 10));
  for (int i = 0; i < kFirst; ++i) engine.step();
  reset();
  for (int i = 0; i < kSteps; ++i) engine.step();
  const fake_cuda::Counts c = fake_cuda::counts();
  BOOST_TEST_MESSAGE(rows << " rows: " << c.kernels() / kSteps << " kernels and " << uploaded / kSteps
                          << " bytes a step");
  BOOST_TEST(c.kernels() <= kSteps * most_kernels);
  BOOST_TEST(c.kernels() >= kSteps * 12u);  // the steps did run
  BOOST_TEST(c.launches == 0u);
  BOOST_TEST(c.graph_launches == static_cast<unsigned>(kSteps));
  BOOST_TEST(c.changed_nodes == 0u);
  BOOST_TEST(c.graphs == 0u);
  BOOST_TEST(c.copies_in + c.copies_out + fetched == 0u);
  BOOST_TEST(c.allocations == 0u);
  BOOST_TEST(c.events == static_cast<unsigned>(kSteps));
  BOOST_TEST(uploaded > 0u);
  BOOST_TEST(uploaded <= kSteps * most_bytes);
  finish(engine);
}

}  // namespace

BOOST_AUTO_TEST_CASE(decoding_is_one_graph_that_nothing_changes) {
  {
    auto engine = make<OfFloat32>();
    check_decoding(engine, 1, kKernelsFloat32, kBytesOneRow);
    check_decoding(engine, 64, kKernelsFloat32, kBytes64Rows);
  }
  auto engine = make<OfBFloat16Mma>();
  check_decoding(engine, 1, kKernelsBFloat16MmaOneRow, kBytesOneRow);
  check_decoding(engine, 64, kKernelsBFloat16Mma, kBytes64Rows);
}

// Greedy and drawn rows, with unforeseen ends and with newcomers: the next step is launched before this step's tokens
// are known.
BOOST_AUTO_TEST_CASE(steps_are_launched_ahead) {
  auto engine = make<OfFloat32>();
  for (int i = 0; i < 6; ++i) {
    Request r = request(5 + i, 20 + 5 * i);
    if (i % 2 == 1) r.options.temperature = 0.8f, r.options.top_k = 40, r.options.top_p = 0.9f, r.options.seed = 7;
    if (i % 3 == 1) r.options.stop_ids = {17};
    engine.submit(std::move(r));
  }
  for (int i = 0; i < 10; ++i) engine.step();
  engine.submit(request(200, 10));
  finish(engine);
  BOOST_TEST(engine.stats().launched_ahead == engine.stats().steps - 1);
}

// Kernels of prompts are launched as they are added, not gathered for a graph that is never repeated. Slightly longer
// prompts take no more memory.
BOOST_AUTO_TEST_CASE(prompts_are_launched_at_once) {
  auto engine = make<OfFloat32>();
  for (int i = 0; i < 5; ++i) {
    if (i == 2) reset();  // steps alternate, and both buffers have grown
    engine.submit(request(500 + 7 * i, 1));
    finish(engine);
  }
  const fake_cuda::Counts c = fake_cuda::counts();
  BOOST_TEST(c.launches > 0u);
  BOOST_TEST(c.launches <= 3 * (kKernelsFloat32 + 1));  // the last layer gathers the row with wanted logits
  BOOST_TEST(c.graphs + c.graph_launches == 0u);
  BOOST_TEST(c.copies_in + c.copies_out + c.allocations == 0u);
}

// A row of logits comes to the host if all of it is requested, or if no kernel can do what is requested
// (docs/kernels.md, draws). Steps run ahead of their tokens if the device picks them.
BOOST_AUTO_TEST_CASE(rows_of_logits_stay_on_the_device) {
  struct Anything {  // a constraint that allows all tokens
    std::vector<std::uint32_t> words = std::vector<std::uint32_t>((50257 + 31) / 32, ~std::uint32_t{0});
    std::span<const std::uint32_t> mask() const { return words; }
    void advance(TokenId) {}
    bool must_end() const { return false; }
  };
  struct Case {
    const char* what;
    void (*set)(Options&);
    bool ahead, whole;
  };
  const Case cases[] = {
      {"greedy", [](Options&) {}, true, false},
      {"drawn of 40", [](Options& o) { o.temperature = 0.8f, o.top_k = 40, o.top_p = 0.9f, o.min_p = 0.01f; }, true,
       false},
      {"drawn of all", [](Options& o) { o.temperature = 1; }, false, false},
      {"top_p", [](Options& o) { o.temperature = 1, o.top_p = 0.9f; }, false, false},
      {"penalties",
       [](Options& o) { o.repetition_penalty = 1.2f, o.presence_penalty = 0.1f, o.frequency_penalty = 0.1f; }, false,
       false},
      {"bias",
       [](Options& o) {
         o.logit_bias = {{7, 1.0f}, {3, -1.0f}};
       },
       false, false},
      {"late end", [](Options& o) { o.min_new_tokens = 5, o.stop_ids = {9}; }, false, false},
      {"logprobs", [](Options& o) { o.top_logprobs = 5; }, false, false},
      {"best of two", [](Options& o) { o.best_of = 2, o.temperature = 1, o.top_k = 40; }, false, false},
      {"top_k 1000", [](Options& o) { o.temperature = 1, o.top_k = 1000; }, false, true},
      {"typical_p", [](Options& o) { o.temperature = 1, o.typical_p = 0.9f; }, false, true},
      {"logprobs and penalties", [](Options& o) { o.top_logprobs = 5, o.repetition_penalty = 1.2f; }, false, true},
      {"300 logprobs", [](Options& o) { o.top_logprobs = 300; }, false, true},
      {"hash", [](Options& o) { o.logits_hash = true; }, false, true},
  };
  constexpr std::uint64_t kRow = 50257 * sizeof(float);
  auto engine = make<OfFloat32>();
  const auto run = [&](Request r, const char* what, bool ahead, bool whole) {
    const std::uint64_t before = engine.stats().launched_ahead, steps = engine.stats().steps;
    reset();
    engine.submit(std::move(r));
    finish(engine);
    const std::uint64_t bytes = fake_cuda::counts().bytes_out + fetched;
    BOOST_TEST_MESSAGE(what << ": " << bytes / (engine.stats().steps - steps) << " bytes to the host a step");
    BOOST_TEST((engine.stats().launched_ahead > before) == ahead, what);
    BOOST_TEST((bytes >= kRow) == whole, what << ": " << bytes << " bytes to the host");
    if (ahead) BOOST_TEST(bytes == 0u, what);
    BOOST_TEST(fake_cuda::counts().copies_out == 0u, what);  // kernels write that little themselves
  };
  for (const Case& each : cases) {
    Request r = request(7, 6);
    each.set(r.options);
    run(std::move(r), each.what, each.ahead, each.whole);
  }
  Request constrained = request(7, 6);
  constrained.constraint = constraint_of(Anything{}, 50257);
  run(std::move(constrained), "constraint", false, false);
}

BOOST_AUTO_TEST_CASE(put_values_are_uploaded_before_the_kernel_that_reads_them) {
  for (const int prompt_rows : {0, 512}) {
    Cuda device;
    for (int step = 0; step < 5; ++step) {
      device.begin_step(prompt_rows);
      reset();
      std::vector<const int*> put;
      const auto put_and_launch = [&](int value, int count) {
        const std::vector<int> values(static_cast<std::size_t>(count), value);
        put.push_back(device.put(std::span<const int>(values)));
        device.launch("reader", reader, dim3(1), 1, 0, put.back());
      };
      put_and_launch(1 + step, 3);
      BOOST_TEST(fake_cuda::counts().launches == (prompt_rows > 0 ? 2u : 0u));  // an upload before it
      if (prompt_rows > 0) BOOST_TEST(*put[0] == 1 + step);
      put_and_launch(11 + step, 1000);
      put_and_launch(21 + step, step == 0 ? 100'000 : 5000);  // the first time more than the buffer holds
      device.flush();
      BOOST_TEST((*put[0] == 1 + step && put[1][999] == 11 + step && put[2][4999] == 21 + step));
      BOOST_TEST(fake_cuda::counts().copies_in == (step == 0 ? 1u : 0u));
    }
  }
}

// A failing call, whichever it is, is reported once, and the engine continues.
BOOST_AUTO_TEST_CASE(a_step_that_fails_is_told_and_the_next_go_on) {
  auto engine = make<OfFloat32>();
  for (int rows = 0; rows < 4; ++rows) engine.submit(request(7, 40));
  finish(engine);
  for (const int prompt : {7, 300}) {
    int told = 0;
    for (const int calls : {0, 1, 2, 3, 5, 50, 101, 102, 103, 150, 250}) {
      for (int rows = 0; rows < 4; ++rows) engine.submit(request(prompt, 12));
      if (prompt == 7)
        for (int i = 0; i < 6; ++i) engine.step();
      fake_cuda::fail_after(calls);
      for (int i = 0; i < 1000 && !engine.idle(); ++i) {
        try {
          engine.step();
        } catch (const Error& e) {
          BOOST_TEST(std::string(e.what()).find("cuda") != std::string::npos);
          ++told;
        }
      }
      BOOST_TEST_REQUIRE(engine.idle());
      fake_cuda::fail_after(-1);
    }
    BOOST_TEST(told >= 4);
    const auto answer = engine.complete(request(prompt, 5));
    BOOST_TEST(answer.error == "");
    BOOST_TEST(answer.ids.size() == 5u);
  }
}
