// tenon on a GPU as a peer of bench/compare --gpu. Each answer also has the rate at which its steps read memory, and
// the device's copy rate before and after.
//   tenon_gpu_peer DIR|random|random-llama-1b FORMAT
#include <tenon/weights/fast_math_bfloat16.h>
#include <tenon/ops/cuda/linear_cublas.cuh>
#include <tenon/tenon.cuh>

#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "engine_work.h"
#include "gpu_work.cuh"
#include "peer.h"

namespace {

using namespace tenon;
using Made = std::unique_ptr<AnyEngine>;

constexpr int kMostRows = 256;           // sequences per step
constexpr int kTokenBudget = 4096;       // tokens per step: 8 prompts of 512
constexpr int kCacheTokens = 64 * 1024;  // 64 sequences of 900 tokens plus their new tokens

template <class Model, class P, class... More>
using Served = Engine<Model, Device<Cuda>, Weights<P>, More...>;

// Without prefix reuse, because each round has the same prompts.
template <class Model, class P, class... More>
Made make(const ModelFiles& files) {
  return std::make_unique<EngineBox<Served<Model, P, More...>>>(
      files, ContinuousPolicy{.max_batch = kMostRows, .token_budget = kTokenBudget},
      EngineOptions{
          .token_budget = kTokenBudget, .batch = kMostRows, .cache_tokens = kCacheTokens, .prefix_reuse = false});
}

struct FormatEngine {
  program::WeightFormat weights;
  program::KvFormat kv;
  Made (*make)(const ModelFiles&);
};
template <class Model, class P, class... More>
constexpr FormatEngine choice(const char* name) {
  using Element = typename Served<Model, P, More...>::CacheViewT::Element;
  return {{name, [](Shape shape) { return P::bytes(shape); }},
          {"", [](const KvShape& s) { return s.tile_bytes<Element>(); }},
          make<Model, P, More...>};
}
using Kv16 = Cache<PagedKVOf<16, bfloat16>>;
// bfloat16_mma: products and attention on tensor cores, keys and values in bfloat16. bfloat16_fast_math: the same with
// cuBLASLt's products, whose summation order depends on the shape of a step; it measures the price of the promise.
const std::array kChoices = {choice<Gpt2, Float32>("float32"),
                             choice<Gpt2, BFloat16>("bfloat16"),
                             choice<Gpt2, ZeroPointInt8>("int8"),
                             choice<Gpt2, BFloat16Mma, Attention<FlashMma>, Kv16>("bfloat16_mma"),
                             choice<Gpt2, FastMathBFloat16, Attention<FlashMma>, Kv16>("bfloat16_fast_math"),
                             choice<Gpt2, ZeroPointInt8Act8>("int8_act8"),
                             choice<Gpt2, GroupInt4>("int4"),
                             choice<Gpt2, GroupInt4Act8>("int4_act8")};
const std::array kLlamaChoices = {choice<Llama, BFloat16>("bfloat16"),
                                  choice<Llama, BFloat16Mma, Attention<FlashMma>, Kv16>("bfloat16_mma")};

const FormatEngine* chosen(int argc, char** argv) {
  constexpr const char* kUsage = "tenon_gpu_peer DIR|random|random-llama-1b FORMAT";
  const auto name = [](const FormatEngine& c) { return c.weights.name; };
  return argc == 3 && argv[1] == bench::kRandomLlama ? bench::chosen(argc, argv, kUsage, kLlamaChoices, name)
                                                     : bench::chosen(argc, argv, kUsage, kChoices, name);
}

}  // namespace

int main(int argc, char** argv) {
  const FormatEngine* choice = chosen(argc, argv);
  if (!choice) return 2;
  if (tenon::cuda::device_count() == 0)
    return std::cerr << "there is no CUDA device, or no driver, on this machine\n", 1;
  const Made engine = choice->make(bench::checkpoint(argv[1]));
  const program::Traffic traffic(engine->config(), choice->weights, choice->kv);
  bench::CopyRate copies;
  std::set<std::string> known;  // cases that have run
  bench::answer_all([&](nlohmann::json row) {
    const int batch = row["batch"], tokens = row["tokens"], context = row.value("context", 0);
    const double before = copies.measure();
    const auto run = [&] {
      if (row["case"] == "prefill") return bench::prefill(*engine, tokens, batch);
      return bench::decode(*engine, batch, tokens, context > 0 ? bench::long_prompt(context) : bench::kPrompt);
    };
    // The first run makes graphs and allocates memory. A prompt is a single step without a median, so each measurement
    // has a warm-up run.
    if (known.insert(row.dump()).second || row["case"] == "prefill") run();
    const bench::Result result = run();
    row.update({{"peer", "tenon"},
                {"format", choice->weights.name},
                {"tok_s", result.tok_s},
                {"gb_s", traffic.bytes(result.step) * result.steps_s * 1e-9},
                {"gops", traffic.operations(result.step) * result.steps_s * 1e-9},
                {"copy_gb_s", std::max(before, copies.measure())}});
    return row;
  });
}
