// tenon on a GPU as one of the peers of bench/compare --gpu. Beside each answer: the bytes that its step had to read, and the
// rate at which the device copies, measured before and after.
//   tenon_gpu_peer DIR|random FORMAT
#include <tenon/ops/cuda/linear_cublas.cuh>
#include <tenon/tenon.cuh>
#include <tenon/weights/fast_math_bfloat16.h>

#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine_work.h"
#include "gpu_work.cuh"
#include "peer.h"

namespace {

using namespace tenon;
using Made = std::unique_ptr<AnyEngine>;

// Nothing may be found again of the same prompt in the round before.
EngineOptions engine_options() {
  return {.token_budget = 1024, .batch = 64, .cache_tokens = 64 * 640, .prefix_reuse = false};
}

template <class P, class... More>
using Served = Engine<Gpt2, Device<Cuda>, Weights<P>, More...>;

template <class P, class... More>
Made make(const ModelFiles& files) {
  return std::make_unique<EngineBox<Served<P, More...>>>(files, ContinuousPolicy{.max_batch = 64, .token_budget = 1024}, engine_options());
}

struct Choice {
  program::WeightFormat weights;
  program::KvFormat kv;
  Made (*make)(const ModelFiles&);
};
template <class P, class... More>
constexpr Choice choice(const char* name) {
  using Element = typename Served<P, More...>::CacheViewT::Element;
  return {{name, [](Shape shape) { return P::bytes(shape); }}, {"", [](const KvShape& s) { return s.tile_bytes<Element>(); }}, make<P, More...>};
}
// bfloat16_mma: all that tensor cores can do in bfloat16, as the peers of that width do it; bfloat16_fast_math: the same with
// cuBLASLt's products, which is what the promise costs.
const std::array kChoices = {choice<Float32>("float32"), choice<BFloat16>("bfloat16"), choice<ZeroPointInt8>("int8"),
                             choice<BFloat16Mma, Attention<FlashMma>, Cache<PagedKVOf<16, bfloat16>>>("bfloat16_mma"),
                             choice<FastMathBFloat16, Attention<FlashMma>, Cache<PagedKVOf<16, bfloat16>>>("bfloat16_fast_math"),
                             choice<ZeroPointInt8Act8>("int8_act8"), choice<GroupInt4>("int4"), choice<GroupInt4Act8>("int4_act8")};

}  // namespace

int main(int argc, char** argv) {
  const Choice* choice = bench::chosen(argc, argv, "tenon_gpu_peer DIR|random FORMAT", kChoices, [](const Choice& c) { return c.weights.name; });
  if (!choice) return 2;
  if (tenon::cuda::device_count() == 0) return std::cerr << "there is no CUDA device, or no driver, on this machine\n", 1;
  const Made engine = choice->make(bench::checkpoint(argv[1]));
  const program::Traffic traffic(engine->config(), choice->weights, choice->kv);
  bench::CopyRate copies;
  bench::answer_all([&](nlohmann::json row) {
    const int batch = row["batch"], tokens = row["tokens"], context = row.value("context", 0);
    const double before = copies.measure();
    const auto run = [&] {
      if (row["case"] == "prefill") return bench::prefill(*engine, tokens);
      return bench::decode(*engine, batch, tokens, context > 0 ? bench::long_prompt(context) : bench::kPrompt);
    };
    run();  // graphs are made, and memory grows
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
