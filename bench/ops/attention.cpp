// Attention over texts of 1,024 tokens. The layers are read in turn and are too many to stay in a cache, as between two
// steps of a model.
//   bench_ops_attention --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
// - decode<Cache>/BATCH/TURN: one row per sequence with GPT-2's heads. A sequence takes blocks for TURN tokens before
//   the next one does: 512 as in prompts that are read in chunks, 64 as in sequences that grow side by side.
// - shared/HEADS/KV_HEADS/HEAD_DIM/BATCH/ROWS: the last ROWS rows of each sequence. 1 is decoding, 512 is the second
//   half of a long prompt.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
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

constexpr int kContext = 1024;

struct Heads {
  int query, kv, dim;
  int width() const { return query * dim; }
  int kv_width() const { return kv * dim; }
};
constexpr Heads kGpt2{12, 12, 64};

template <class CacheP>
class Work {
 public:
  Work(Heads heads, int batch, int turn, int rows)
      : heads_(heads),
        device_(CpuOptions{.threads = static_cast<int>(std::thread::hardware_concurrency())}),
        layers_(std::max(2, 48 * kGpt2.kv_width() / heads.kv_width() / batch)),
        store_(device_, {layers_, heads.kv, heads.dim, kContext}, batch * kContext),
        q_(static_cast<std::size_t>(batch * rows * heads.width())),
        out_(q_.size()) {
    for (int position = 0; position < kContext; position += turn) {
      for (int s = 0; s < batch; ++s) store_.ledger().grow(static_cast<SeqId>(s), turn);
    }
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& x : q_) x = uniform(random);
    std::vector<float> kv(static_cast<std::size_t>(2 * kContext * heads.kv_width()));
    for (float& x : kv) x = uniform(random);
    for (int s = 0; s < batch; ++s) fill(s, kv);
    for (int s = 0; s < batch; ++s) rows_.push_back({static_cast<SeqId>(s), s * rows, rows, kContext - rows, s});
    for (int r = 0; r < batch * rows; ++r) seen_ += kContext - rows + r % rows + 1;
  }

  void run() {
    const int rows = static_cast<int>(rows_.size()) * rows_[0].rows;
    const BatchView batch{nullptr, nullptr, rows_.data(), nullptr, rows, static_cast<int>(rows_.size()), 0};
    const auto matrix = [&](std::vector<float>& v) {
      return MatrixView<float>{v.data(), rows, heads_.width(), heads_.width()};
    };
    attention(device_, FlashAttention{},
              AttentionArgs<typename CacheP::View>{batch, matrix(q_), store_.view(device_, rows_), layer_, heads_.query,
                                                   heads_.kv, heads_.dim, 0.125f, matrix(out_)});
    layer_ = (layer_ + 1) % layers_;
  }

  // Bytes of one layer.
  double bytes() const { return static_cast<double>(store_.stats().bytes) / layers_; }
  double operations() const { return 4.0 * heads_.width() * static_cast<double>(seen_); }

 private:
  void fill(int s, const std::vector<float>& kv) {
    const std::vector<SequenceRows> rows = {{static_cast<SeqId>(s), 0, kContext, 0, 0}};
    const BatchView batch{nullptr, nullptr, rows.data(), nullptr, kContext, 1, 0};
    const int width = heads_.kv_width();
    const MatrixView<const float> keys{kv.data(), kContext, width, width},
        values{kv.data() + std::ptrdiff_t{kContext} * width, kContext, width, width};
    for (int layer = 0; layer < layers_; ++layer) {
      store_kv(device_, StoreKvArgs<typename CacheP::View>{batch, keys, values, store_.view(device_, rows), layer,
                                                           heads_.kv, heads_.dim});
    }
  }

  Heads heads_;
  Cpu device_;
  int layers_, layer_ = 0;
  CacheStore<CacheP, Cpu> store_;
  std::vector<float> q_, out_;  // [batch * rows, width]
  std::vector<SequenceRows> rows_;
  std::int64_t seen_ = 0;  // positions that all rows attend to
};

// Filled once for all repetitions.
template <class CacheP>
Work<CacheP>& filled(Heads heads, int batch, int turn, int rows) {
  static std::map<std::array<int, 6>, std::unique_ptr<Work<CacheP>>> all;
  auto& work = all[{heads.query, heads.kv, heads.dim, batch, turn, rows}];
  if (!work) work = std::make_unique<Work<CacheP>>(heads, batch, turn, rows);
  return *work;
}

template <class CacheP>
void measure(benchmark::State& state, Work<CacheP>& work) {
  for (auto _ : state) work.run();
  state.counters["GB/s"] = benchmark::Counter(work.bytes() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(work.operations() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

template <class CacheP>
void decode(benchmark::State& state) {
  measure(state, filled<CacheP>(kGpt2, static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), 1));
}

void shared(benchmark::State& state) {
  const auto arg = [&](std::size_t i) { return static_cast<int>(state.range(i)); };
  measure(state, filled<PagedKV>({arg(0), arg(1), arg(2)}, arg(3), 512, arg(4)));
}

#define TENON_BENCH_DECODE(...) \
  BENCHMARK(decode<__VA_ARGS__>)->ArgsProduct({{1, 8, 32}, {512, 64}})->UseRealTime()->Unit(benchmark::kMicrosecond)
TENON_BENCH_DECODE(ContiguousKVOf<float>);
TENON_BENCH_DECODE(PagedKVOf<16, float>);
TENON_BENCH_DECODE(PagedKVOf<64, float>);
TENON_BENCH_DECODE(ContiguousKVOf<bfloat16>);
TENON_BENCH_DECODE(PagedKVOf<16, bfloat16>);
TENON_BENCH_DECODE(ContiguousKVOf<std::int8_t>);
TENON_BENCH_DECODE(PagedKVOf<16, std::int8_t>);

BENCHMARK(shared)
    ->ArgsProduct({{12}, {12}, {64}, {1, 2, 8}, {1}})  // multi-head, GPT-2 small
    ->Args({12, 12, 64, 1, 512})
    ->ArgsProduct({{32}, {8}, {64}, {1, 2, 8}, {1}})  // grouped, Llama 3.2 1B
    ->Args({32, 8, 64, 1, 512})
    ->ArgsProduct({{48}, {1}, {128}, {1, 2, 8}, {1}})  // multi-query, StarCoder
    ->Args({48, 1, 128, 1, 512})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
