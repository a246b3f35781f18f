// tenon on a GPU as the peer of bench/compare --gpu --adapters: batches whose requests have adapters on c_attn.
//   adapters_gpu_peer DIR|random FORMAT
#include <tenon/tenon.cuh>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "adapter_batches.h"
#include "gpu_work.cuh"
#include "peer.h"

namespace {

using namespace tenon;
using Made = std::unique_ptr<AnyEngine>;

template <class P, class A, class... More>
Made made(const ModelFiles& files) {
  using Served = Engine<Gpt2, Device<Cuda>, Weights<P>, Adapter<A>, Scheduler<ContinuousPolicy>, More...>;
  return std::make_unique<EngineBox<Served>>(
      files, ContinuousPolicy{.max_batch = 64},
      EngineOptions{.batch = 64, .cache_tokens = 64 * 128, .prefix_reuse = false});
}

struct FormatEngine {
  const char* name;
  Made (*make)(const ModelFiles&);
};
constexpr FormatEngine kChoices[] = {
    {"float32", made<Float32, SegmentedLoRA>},
    {"float32-gathered", made<Float32, GatheredLoRA>},
    {"float32-looped", made<Float32, LoopedLoRA>},
    {"int8", made<ZeroPointInt8, SegmentedLoRA>},
    {"int8_act8", made<ZeroPointInt8Act8, SegmentedLoRA>},
    {"bfloat16_mma", made<BFloat16Mma, SegmentedLoRA, Attention<FlashMma>, Cache<PagedKVOf<16, bfloat16>>>}};

}  // namespace

int main(int argc, char** argv) {
  const FormatEngine* choice = bench::chosen(argc, argv, "adapters_gpu_peer DIR|random FORMAT", kChoices,
                                             [](const FormatEngine& c) { return c.name; });
  if (!choice) return 2;
  if (tenon::cuda::device_count() == 0)
    return std::cerr << "there is no CUDA device, or no driver, on this machine\n", 1;
  const Made engine = choice->make(bench::checkpoint(argv[1]));
  bench::AdapterBatches batches(*engine);
  bench::CopyRate copies;
  std::set<std::string> known;  // cases that have run
  bench::answer_all([&](nlohmann::json row) {
    const std::string kind = row["case"];
    const int batch = row["batch"], tokens = row["tokens"];
    const double before = copies.measure();
    if (known.insert(row.dump()).second)
      batches.decode(kind, batch, tokens);  // warm-up: loads adapters and makes graphs
    row.update(batches.decode(kind, batch, tokens));
    row.update({{"peer", "tenon"}, {"format", choice->name}, {"copy_gb_s", std::max(before, copies.measure())}});
    return row;
  });
}
