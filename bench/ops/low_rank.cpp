// Low-rank updates of one matrix, with factors read from memory each time: BM_low_rank/ARRANGEMENT/ADAPTERS.
// "distinct": each of M rows has its own adapter. "shared": all rows have one. "mixed": distinct adapters with ranks 4,
// 8, 16 and 64 in turn; R is their mean. BM_base is the product that they are added to, with its matrix read from
// memory. BM_updated/lora is the product with the updates of M distinct adapters, for M from 8 to 64 and rank 16;
// BM_updated/dora also has their gains.
// factor_GB/s counts each adapter's factors once; frac_stream and frac_peak as in linear.cpp.
//   bench_ops_low_rank --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
#include <array>
#include <span>

#include "matrices.h"
#include "tenon/adapter/any_lora.h"

namespace {

using namespace tenon;

enum class Adapters { distinct, shared, mixed };

struct Size {
  int inputs, outputs, rank;
};

// Adapters of one matrix, in enough copies that those of a step are never in a cache.
class Store {
 public:
  static constexpr int kAdapters = 64;  // per step

  Store(Size size, bool mixed) {
    constexpr std::array ranks = {4, 8, 16, 64};
    const auto rank = [&](int i) { return mixed ? ranks[static_cast<std::size_t>(i) % 4] : size.rank; };
    const auto width = static_cast<std::size_t>(size.inputs + size.outputs);
    std::size_t floats = 0;
    for (int i = 0; i < kAdapters; ++i) floats += width * static_cast<std::size_t>(rank(i));
    copies_ = std::max(1, static_cast<int>(kColdFloats / floats) + 1);
    memory_ = Cpu::Memory(floats * sizeof(float) * static_cast<std::size_t>(copies_));
    auto* next = reinterpret_cast<float*>(memory_.data());
    bench::fill(next, floats * static_cast<std::size_t>(copies_), 2);
    updates_.reserve(static_cast<std::size_t>(copies_ * kAdapters));
    for (int i = 0; i < copies_ * kAdapters; ++i) {
      const float* b = next + static_cast<std::size_t>(size.inputs) * static_cast<std::size_t>(rank(i));
      updates_.push_back({next, b, FactorType::float32, rank(i), 0.5f, 0, size.outputs});
      next += width * static_cast<std::size_t>(rank(i));
    }
    for (const LowRank& update : updates_) sets_.push_back({{&update, kBegins.data()}});
  }

  int copies() const { return copies_; }
  const AdapterSet* set(int copy, int i) const { return &sets_[static_cast<std::size_t>(copy * kAdapters + i)]; }
  int rank(int i) const { return updates_[static_cast<std::size_t>(i)].rank; }

 private:
  static constexpr std::size_t kColdFloats = 100u
                                             << 20;  // 400 MiB: nearly four times the last-level cache of an Intel Xeon
  static constexpr std::array<int, kSites + 1> kBegins = {0, 1, 1, 1, 1};

  int copies_ = 0;
  Cpu::Memory memory_;
  std::vector<LowRank> updates_;
  std::vector<AdapterSet> sets_;
};

// Made on the first call, and replaced when another size is needed.
Store& cold_adapters(Size size, bool mixed) {
  static std::array<int, 4> made{};
  static std::unique_ptr<Store> store;
  const std::array<int, 4> wanted = {size.inputs, size.outputs, size.rank, mixed};
  if (!store || made != wanted) {
    store.reset();
    store = std::make_unique<Store>(size, mixed);
    made = wanted;
  }
  return *store;
}

// The groups of a step for every copy.
std::vector<AdapterGroups> arranged(const Store& store, int rows, Adapters adapters, AnyLoRA::Kind kind) {
  std::vector<AdapterGroups> steps(static_cast<std::size_t>(store.copies()));
  std::vector<const AdapterSet*> sets(static_cast<std::size_t>(rows));
  for (int copy = 0; copy < store.copies(); ++copy) {
    for (int r = 0; r < rows; ++r) {
      sets[static_cast<std::size_t>(r)] = store.set(copy, adapters == Adapters::shared ? 0 : r % Store::kAdapters);
    }
    AnyLoRA(kind).arrange(sets, steps[static_cast<std::size_t>(copy)]);
  }
  return steps;
}

// x: [rows, inputs]; delta: [rows, outputs]; deltas: [rows]
LowRankArgs updates_of(MatrixView<const float> x, const AdapterGroups& groups, std::vector<float>& delta,
                       std::vector<const float*>& deltas) {
  const int outputs = static_cast<int>(delta.size()) / x.rows;
  return {.x = x,
          .groups = &groups,
          .layer = 0,
          .site = Site::qkv,
          .delta = {delta.data(), x.rows, outputs, outputs},
          .deltas = deltas.data()};
}

void low_rank_of(benchmark::State& state, AnyLoRA::Kind kind, Adapters adapters) {
  using Clock = std::chrono::steady_clock;
  const int rows = static_cast<int>(state.range(0)), outputs = static_cast<int>(state.range(1));
  const int inputs = static_cast<int>(state.range(2));
  const Store& store = cold_adapters({inputs, outputs, static_cast<int>(state.range(3))}, adapters == Adapters::mixed);
  const auto steps = arranged(store, rows, adapters, kind);
  std::vector<float> x(static_cast<std::size_t>(rows) * static_cast<std::size_t>(inputs));
  std::vector<float> delta(static_cast<std::size_t>(rows) * static_cast<std::size_t>(outputs));
  std::vector<const float*> deltas(static_cast<std::size_t>(rows));
  bench::fill(x.data(), x.size(), 1);
  program::Ceiling ceiling = bench::ceilings().measure();
  std::size_t step = 0;
  const auto begin = Clock::now();
  for (auto _ : state) {
    low_rank(bench::device(), updates_of({x.data(), rows, inputs, inputs}, steps[step], delta, deltas));
    step = step + 1 < steps.size() ? step + 1 : 0;
  }
  const double runs_s =
      static_cast<double>(state.iterations()) / std::chrono::duration<double>(Clock::now() - begin).count();
  ceiling.add(bench::ceilings().measure());
  double ranks_read = 0, ranks = 0;
  for (int r = 0; r < rows; ++r) {
    const int rank = store.rank(adapters == Adapters::shared ? 0 : r % Store::kAdapters);
    ranks += rank;
    ranks_read += (adapters == Adapters::shared ? r == 0 : r < Store::kAdapters) ? rank : 0;
  }
  const double width = inputs + outputs, gb_s = 4e-9 * ranks_read * width * runs_s,
               gops = 2e-9 * ranks * width * runs_s;
  state.SetItemsProcessed(state.iterations() * rows);
  state.counters["factor_GB/s"] = gb_s;
  state.counters["GOP/s"] = gops;
  state.counters["frac_stream"] = gb_s / ceiling.read_gb_s;
  state.counters["frac_peak"] = gops / ceiling.peak_gops(program::Instruction::fma);
}

void base(benchmark::State& state) {
  const int rows = static_cast<int>(state.range(0)), outputs = static_cast<int>(state.range(1));
  const int inputs = static_cast<int>(state.range(2));
  std::vector<float> x(static_cast<std::size_t>(rows) * static_cast<std::size_t>(inputs));
  std::vector<float> y(static_cast<std::size_t>(rows) * static_cast<std::size_t>(outputs));
  bench::fill(x.data(), x.size(), 1);
  bench::measure(state, "float32", bench::cold<Float32>({outputs, inputs}), rows, [&](const Float32::View& weight) {
    linear(bench::device(),
           LinearArgs<Float32::View>{
               .x = {x.data(), rows, inputs, inputs}, .weight = weight, .y = {y.data(), rows, outputs, outputs}});
  });
}

// Each row has its own adapter. With gains, each adapter has one for each output, as in DoRA.
void updated(benchmark::State& state, bool with_gains) {
  const int rows = static_cast<int>(state.range(0)), outputs = static_cast<int>(state.range(1));
  const int inputs = static_cast<int>(state.range(2));
  const Store& store = cold_adapters({inputs, outputs, static_cast<int>(state.range(3))}, false);
  const auto steps = arranged(store, rows, Adapters::distinct, AnyLoRA::Kind::segmented);
  const auto floats = static_cast<std::size_t>(rows) * static_cast<std::size_t>(outputs);
  std::vector<float> x(static_cast<std::size_t>(rows) * static_cast<std::size_t>(inputs)), y(floats), delta(floats);
  std::vector<float> bias(static_cast<std::size_t>(outputs)), gains(with_gains ? floats * steps.size() : 0);
  std::vector<const float*> deltas(static_cast<std::size_t>(rows));
  std::vector<ProductChange> changes(static_cast<std::size_t>(rows));
  bench::fill(x.data(), x.size(), 1);
  bench::fill(gains.data(), gains.size(), 3);
  std::size_t step = 0;
  bench::measure(state, "float32", bench::cold<Float32>({outputs, inputs}), rows, [&](const Float32::View& weight) {
    const MatrixView<const float> in{x.data(), rows, inputs, inputs};
    for (std::size_t r = 0; with_gains && r < changes.size(); ++r)
      changes[r].gain = gains.data() + step * floats + r * static_cast<std::size_t>(outputs);
    linear(bench::device(),
           LinearArgs<Float32::View>{.x = in,
                                     .weight = weight,
                                     .bias = bias.data(),
                                     .y = {y.data(), rows, outputs, outputs},
                                     .changes = with_gains ? changes.data() : nullptr},
           updates_of(in, steps[step], delta, deltas));
    step = step + 1 < steps.size() ? step + 1 : 0;
  });
}

constexpr Size kSizes[] = {{10, 10, 2}, {768, 768, 16}, {768, 2304, 16}};
constexpr Size kMixed = {768, 2304, 23};
constexpr int kRows[] = {1, 2, 4, 8, 16, 32, 64};

template <class Run>
void add(const std::string& name, std::span<const Size> sizes, std::span<const int> rows, Run run) {
  auto* each = benchmark::RegisterBenchmark(name.c_str(), run);
  each->ArgNames({"M", "N", "K", "R", "thr"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const Size& size : sizes) {
    for (const int r : rows) each->Args({r, size.outputs, size.inputs, size.rank, bench::threads()});
  }
}

const bool added = [] {
  using Kind = AnyLoRA::Kind;
  for (const auto& [name, kind] :
       {std::pair("segmented", Kind::segmented), {"gathered", Kind::gathered}, {"looped", Kind::looped}}) {
    const std::string of = std::string("BM_low_rank/") + name;
    add(of + "/distinct", kSizes, kRows,
        [kind = kind](benchmark::State& state) { low_rank_of(state, kind, Adapters::distinct); });
    add(of + "/shared", kSizes, kRows,
        [kind = kind](benchmark::State& state) { low_rank_of(state, kind, Adapters::shared); });
    // The same sum of ranks as four adapters of 4, 8, 16 and 64.
    add(of + "/mixed", {&kMixed, 1}, std::array{64},
        [kind = kind](benchmark::State& state) { low_rank_of(state, kind, Adapters::mixed); });
    add(of + "/distinct", {&kMixed, 1}, std::array{64},
        [kind = kind](benchmark::State& state) { low_rank_of(state, kind, Adapters::distinct); });
  }
  const auto prefill = std::array{128, 512};
  add("BM_low_rank/segmented/shared", {kSizes + 1, 2}, prefill,
      [](benchmark::State& state) { low_rank_of(state, Kind::segmented, Adapters::shared); });
  add("BM_base", kSizes, kRows, base);
  add("BM_base", {kSizes + 1, 2}, prefill, base);
  for (const bool gains : {false, true})
    add(gains ? "BM_updated/dora" : "BM_updated/lora", {kSizes + 1, 2}, {kRows + 3, 4},
        [gains](benchmark::State& state) { updated(state, gains); });
  return true;
}();

}  // namespace
