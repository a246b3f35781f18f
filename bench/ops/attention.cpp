// Decode attention at 1,024 tokens of context: one row a sequence, GPT-2's heads, over every cache and element.
//   bench_ops_attention --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
// Blocks of the paged caches are handed out in turns, so that neighbours in a text are strangers in memory.
#include <benchmark/benchmark.h>

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
  explicit Decode(int batch)
      : device_(CpuOptions{.threads = static_cast<int>(std::thread::hardware_concurrency())}),
        store_(device_, {1, kHeads, kHeadDim, kContext}, batch * kContext),
        q_(static_cast<std::size_t>(batch) * kWidth),
        out_(q_.size()) {
    for (int position = 0; position < kContext; position += 64) {
      for (int s = 0; s < batch; ++s) store_.ledger().grow(static_cast<SeqId>(s), 64);
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
              AttentionArgs<typename CacheP::View>{batch, matrix(q_), store_.view(rows_), 0, kHeads, kHeads, kHeadDim, 0.125f, matrix(out_)});
  }

  std::size_t bytes() const { return store_.stats().bytes; }

 private:
  void fill(int s, const std::vector<float>& kv) {
    const std::vector<SequenceRows> rows = {{static_cast<SeqId>(s), 0, kContext, 0, 0}};
    const BatchView batch{nullptr, nullptr, rows.data(), nullptr, kContext, 1, 0};
    const MatrixView<const float> keys{kv.data(), kContext, kWidth, kWidth}, values{kv.data() + std::ptrdiff_t{kContext} * kWidth, kContext, kWidth, kWidth};
    store_kv(device_, StoreKvArgs<typename CacheP::View>{batch, keys, values, store_.view(rows), 0, kHeads, kHeadDim});
  }

  Cpu device_;
  CacheStore<CacheP, Cpu> store_;
  std::vector<float> q_, out_;  // [batch, kWidth]
  std::vector<SequenceRows> rows_;
};

template <class CacheP>
void decode(benchmark::State& state) {
  Decode<CacheP> work(static_cast<int>(state.range(0)));
  work.run();
  for (auto _ : state) work.run();
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(work.bytes()) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

#define TENON_BENCH_DECODE(...) BENCHMARK(decode<__VA_ARGS__>)->Arg(1)->Arg(8)->Arg(32)->UseRealTime()->Unit(benchmark::kMicrosecond)
TENON_BENCH_DECODE(ContiguousKVOf<float>);
TENON_BENCH_DECODE(PagedKVOf<16, float>);
TENON_BENCH_DECODE(PagedKVOf<64, float>);
TENON_BENCH_DECODE(ContiguousKVOf<bfloat16>);
TENON_BENCH_DECODE(PagedKVOf<16, bfloat16>);
TENON_BENCH_DECODE(ContiguousKVOf<std::int8_t>);
TENON_BENCH_DECODE(PagedKVOf<16, std::int8_t>);

}  // namespace
