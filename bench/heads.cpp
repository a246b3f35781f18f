// Classification of 64 texts at once, with GPT-2's shape and random weights in float32. BM_heads/heads:H/tokens:T has
// texts of T tokens, each under one of H adapters. heads:0 classifies by the head of the model, without adapters. An
// adapter has LoRA of rank 8 on the queries, keys and values, and a head of 3 labels.
//   bench_heads --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
#include <benchmark/benchmark.h>
#include <tenon/tenon.h>
#include <tenon/testing/random_adapter.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace {

using namespace tenon;

constexpr int kTexts = 64, kThreads = 1;

// An engine, and adapters in a temporary folder.
class Work {
 public:
  Work() : engine_(random_checkpoint(config(), 1), {.batch = kTexts, .threads = kThreads, .prefix_reuse = false}) {
    const AdapterSites all = adapter_sites(Gpt2::tensors(config()), Gpt2::name_prefix);
    std::vector<AdapterSite> sites;
    for (const AdapterSite& each : all.sites)
      if (each.site == Site::qkv) sites.push_back(each);
    for (int i = 0; i < kTexts; ++i) {
      testing::write_adapter(
          folder(i), sites,
          {.rank = 8, .alpha = 8, .seed = static_cast<std::uint64_t>(i), .kind = testing::RandomKind::classifier}, {},
          all.base);
    }
  }
  Work(const Work&) = delete;
  ~Work() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  void run(int heads, int tokens) {
    std::vector<Request> requests;
    for (int i = 0; i < kTexts; ++i) {
      std::vector<TokenId> ids;
      for (int t = 0; t < tokens; ++t) ids.push_back((i * 7919 + t * 104729) % 50'000);
      Request request{.input_ids = std::move(ids)};
      if (heads > 0) request.adapters = {{folder(i % heads)}};
      requests.push_back(std::move(request));
    }
    benchmark::DoNotOptimize(engine_.classify(std::move(requests)));
  }

 private:
  static ModelConfig config() {
    ModelConfig c = Gpt2::small();
    c.labels = {"0", "1", "2"};
    return c;
  }
  std::string folder(int number) const { return (root_ / std::to_string(number)).string(); }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("tenon-bench-heads-" + std::to_string(::getpid()));
  Engine<Gpt2> engine_;
};

void heads(benchmark::State& state) {
  static Work work;
  const int heads = static_cast<int>(state.range(0)), tokens = static_cast<int>(state.range(1));
  work.run(heads, tokens);  // loads the adapters
  for (auto each : state) {
    (void)each;
    work.run(heads, tokens);
  }
  state.counters["texts_per_second"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kTexts, benchmark::Counter::kIsRate);
}

BENCHMARK(heads)
    ->Name("BM_heads")
    ->ArgNames({"heads", "tokens"})
    ->ArgsProduct({{0, 1, kTexts}, {4, 16}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
