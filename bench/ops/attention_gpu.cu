// Attention on tensor cores (FlashMma) on an NVIDIA GPU, over a paged cache of bfloat16. One JSON object a line:
//   bench_ops_attention_gpu
// - us: microseconds per launch, the median of several graphs of 24 launches each. Twelve layers are read in turn.
// - share: bytes of the keys and values, read once, over `us` times 4.2 TB/s.
// - tflops: of the necessary products.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "tenon/cache/paged.h"
#include "tenon/model/device_batch.h"
#include "tenon/tenon.cuh"

namespace {

using namespace tenon;

using CacheP = PagedKVOf<16, bfloat16>;
constexpr int kLayers = 12, kLaunches = 24, kHeadDim = 64;

// Fills with numbers between -1 and 1.
__global__ void fill_cache(bfloat16* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 0x9e3779b9u;
    x = (x ^ x >> 15) * 0x85ebca6bu;
    to[i] = bfloat16(static_cast<float>(static_cast<std::int32_t>(x ^ x >> 13)) * 0x1p-31f);
  }
}
__global__ void fill_queries(float* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    to[i] = static_cast<float>(static_cast<std::int32_t>(static_cast<std::uint32_t>(i) * 2654435761u)) * 0x1p-31f;
  }
}

struct Case {
  const char* name;
  int sequences, rows, context;  // rows of each sequence, the last of its `context` positions
  int heads, kv_heads;
};

// Sorted times in microseconds of each of kLaunches kernels, over nine repeats.
template <class Launch>
std::vector<float> sorted_times(Cuda& device, const Launch& launch) {
  for (int i = 0; i < 3; ++i) launch();  // the second launch makes a graph
  device.synchronize();
  constexpr int kRepeats = 9, kGraphs = 4;
  std::vector<float> times;
  cudaEvent_t begin = nullptr, end = nullptr;
  tenon::cuda::check(cudaEventCreate(&begin), "event");
  tenon::cuda::check(cudaEventCreate(&end), "event");
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    launch();  // keeps the device busy while the host launches the next ones
    tenon::cuda::check(cudaEventRecord(begin, device.stream()), "event");
    for (int i = 0; i < kGraphs; ++i) launch();
    tenon::cuda::check(cudaEventRecord(end, device.stream()), "event");
    tenon::cuda::check(cudaEventSynchronize(end), "event");
    float ms = 0;
    tenon::cuda::check(cudaEventElapsedTime(&ms, begin, end), "event");
    times.push_back(ms * 1000 / (kGraphs * kLaunches));
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return times;
}

void measure(const Case& c) {
  Cuda device;
  const KvShape shape{.layers = kLayers, .heads = c.kv_heads, .head_dim = kHeadDim, .positions = c.context};
  const int tokens = (c.context + 15) / 16 * 16 * c.sequences;
  auto ledger = CacheP::ledger(shape, tokens);
  Batch batch;
  for (int s = 0; s < c.sequences; ++s) {
    ledger.grow(static_cast<SeqId>(s), c.context);
    batch.sequences.push_back({static_cast<SeqId>(s), s * c.rows, c.rows, c.context - c.rows, s});
  }
  batch.tokens.assign(static_cast<std::size_t>(c.sequences * c.rows), 0);
  batch.positions.assign(batch.tokens.size(), 0);
  std::vector<std::int32_t> table(CacheP::table_entries(shape, batch.sequences));
  const auto storage = device.allocate(CacheP::bytes(shape, tokens));
  auto view = CacheP::view(shape, tokens, ledger, batch.sequences, storage.data(), table);
  view.table = device.put(std::span<const std::int32_t>(table));
  const int width = c.heads * kHeadDim, rows = c.sequences * c.rows;
  const std::size_t floats = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  const auto q = device.allocate(floats * sizeof(float)), out = device.allocate(floats * sizeof(float));
  const auto matrix = [&](const Cuda::Memory& m) {
    return MatrixView<float>{reinterpret_cast<float*>(m.data()), rows, width, width};
  };
  fill_cache<<<1024, 256, 0, device.stream()>>>(reinterpret_cast<bfloat16*>(storage.data()),
                                                storage.bytes() / sizeof(bfloat16));
  fill_queries<<<1024, 256, 0, device.stream()>>>(matrix(q).data, floats);
  const BatchView there = on_device(device, batch.view(), tile_rows<Cuda, FlashMma>(c.heads / c.kv_heads));

  const auto launch = [&] {
    for (int i = 0; i < kLaunches; ++i) {
      attention(device, FlashMma{},
                AttentionArgs<CacheP::View>{there, matrix(q), view, i % kLayers, c.heads, c.kv_heads, kHeadDim, 0.125f,
                                            matrix(out)});
    }
    device.flush();
  };
  const std::vector<float> times = sorted_times(device, launch);
  const double us = static_cast<double>(times[times.size() / 2]);
  const double bytes = 2.0 * 2 * kHeadDim * c.kv_heads * c.context * c.sequences;
  const double seen = static_cast<double>(c.sequences) * c.rows * (c.context - (c.rows - 1) / 2.0);
  std::printf(
      "{\"case\": \"%s\", \"sequences\": %d, \"rows\": %d, \"context\": %d, \"heads\": %d, \"kv_heads\": %d, \"us\": "
      "%.2f, \"least_us\": %.2f, "
      "\"share\": %.3f, \"tflops\": %.1f}\n",
      c.name, c.sequences, c.rows, c.context, c.heads, c.kv_heads, us, static_cast<double>(times.front()),
      bytes / us / 4.2e6, 4.0 * kHeadDim * c.heads * seen / us / 1e6);
  std::fflush(stdout);
}

}  // namespace

int main() {
  try {
    for (const Case& c :
         {Case{"decode", 1, 1, 100, 12, 12}, Case{"decode", 1, 1, 900, 12, 12}, Case{"decode", 8, 1, 100, 12, 12},
          Case{"decode", 64, 1, 100, 12, 12}, Case{"decode", 64, 1, 900, 12, 12}, Case{"decode", 256, 1, 100, 12, 12},
          Case{"prompt", 1, 512, 512, 12, 12}, Case{"prompt", 8, 512, 512, 12, 12}, Case{"prompt", 1, 64, 64, 12, 12},
          Case{"prompt", 1, 100, 100, 12, 12}, Case{"prompt", 1, 200, 200, 12, 12}, Case{"prompt", 1, 520, 520, 12, 12},
          Case{"llama", 1, 1, 100, 32, 8}, Case{"llama", 32, 1, 1000, 32, 8}, Case{"llama", 1, 512, 512, 32, 8}}) {
      measure(c);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
