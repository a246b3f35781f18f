// Decode attention at 1,024 tokens of context: one row a sequence, GPT-2's heads, over every cache and element.
//   bench_ops_attention --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
// The second argument is how many tokens of blocks each sequence takes before it is the next one's turn: 512 as prompts that
// are read in chunks of the default budget, 64 as if all had grown side by side, strangers in memory. So many layers
// are read in turn that no cache of the processor holds them until they come again, as between two steps of a model.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tenon/cache/contiguous.h"
#include "tenon/cache/paged.h"
#include "tenon/cache/store.h"
#include "tenon/core/elements.h"
#include "tenon/ops/cpu/all.h"

namespace {

using namespace tenon;

constexpr int kHeads = 12, kHeadDim = 64, kWidth = kHeads * kHeadDim, kContext = 1024;

template <class CacheP>
class Decode {
 public:
  Decode(int batch, int turn)
      : device_(CpuOptions{.threads = static_cast<int>(std::thread::hardware_concurrency())}),
        layers_(std::max(2, 48 / batch)),
        store_(device_, {layers_, kHeads, kHeadDim, kContext}, batch * kContext),
        q_(static_cast<std::size_t>(batch) * kWidth),
        out_(q_.size()) {
    for (int position = 0; position < kContext; position += turn) {
      for (int s = 0; s < batch; ++s) store_.ledger().grow(static_cast<SeqId>(s), turn);
    }
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& x : q_) x = uniform(random);
    std::vector<float> kv(2 * std::size_t{kContext} * kWidth);
    for (float& x : kv) x = uniform(random);
    for (int s = 0; s < batch; ++s) fill(s, kv);
    for (int s = 0; s < batch; ++s) rows_.push_back({static_cast<SeqId>(s), s, 1, kContext - 1, s});
  }

  void run() {
    const BatchView batch{nullptr, nullptr, rows_.data(), nullptr, static_cast<int>(rows_.size()), static_cast<int>(rows_.size()), 0};
    const auto matrix = [&](std::vector<float>& v) { return MatrixView<float>{v.data(), batch.rows, kWidth, kWidth}; };
    attention(device_, FlashAttention{},
              AttentionArgs<typename CacheP::View>{batch, matrix(q_), store_.view(rows_), layer_, kHeads, kHeads, kHeadDim, 0.125f, matrix(out_)});
    layer_ = (layer_ + 1) % layers_;
  }

  // Of one layer.
  std::size_t bytes() const { return store_.stats().bytes / static_cast<std::size_t>(layers_); }

 private:
  void fill(int s, const std::vector<float>& kv) {
    const std::vector<SequenceRows> rows = {{static_cast<SeqId>(s), 0, kContext, 0, 0}};
    const BatchView batch{nullptr, nullptr, rows.data(), nullptr, kContext, 1, 0};
    const MatrixView<const float> keys{kv.data(), kContext, kWidth, kWidth}, values{kv.data() + std::ptrdiff_t{kContext} * kWidth, kContext, kWidth, kWidth};
    for (int layer = 0; layer < layers_; ++layer) {
      store_kv(device_, StoreKvArgs<typename CacheP::View>{batch, keys, values, store_.view(rows), layer, kHeads, kHeadDim});
    }
  }

  Cpu device_;
  int layers_, layer_ = 0;
  CacheStore<CacheP, Cpu> store_;
  std::vector<float> q_, out_;  // [batch, kWidth]
  std::vector<SequenceRows> rows_;
};

template <class CacheP>
void decode(benchmark::State& state) {
  static std::map<std::pair<int, int>, std::unique_ptr<Decode<CacheP>>> all;  // filled once, whatever the repetitions
  const int batch = static_cast<int>(state.range(0)), turn = static_cast<int>(state.range(1));
  auto& filled = all[{batch, turn}];
  if (!filled) filled = std::make_unique<Decode<CacheP>>(batch, turn);
  Decode<CacheP>& work = *filled;
  for (auto _ : state) work.run();
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(work.bytes()) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

#define TENON_BENCH_DECODE(...) BENCHMARK(decode<__VA_ARGS__>)->ArgsProduct({{1, 8, 32}, {512, 64}})->UseRealTime()->Unit(benchmark::kMicrosecond)
TENON_BENCH_DECODE(ContiguousKVOf<float>);
TENON_BENCH_DECODE(PagedKVOf<16, float>);
TENON_BENCH_DECODE(PagedKVOf<64, float>);
TENON_BENCH_DECODE(ContiguousKVOf<bfloat16>);
TENON_BENCH_DECODE(PagedKVOf<16, bfloat16>);
TENON_BENCH_DECODE(ContiguousKVOf<std::int8_t>);
TENON_BENCH_DECODE(PagedKVOf<16, std::int8_t>);

}  // namespace
