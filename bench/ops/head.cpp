// Logits of GPT-2's 50,257 tokens in every weight format, with the matrix read from memory each time. BM_head/FORMAT:
// all logits. BM_head_best/FORMAT: the largest logit of each row. M is the number of rows, N of outputs, K of inputs;
// the counters are those of linear.cpp.
//   bench_ops_head --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
#include "matrices.h"
#include "tenon/weights/int8_exact.h"

namespace {

using namespace tenon;

constexpr int kVocab = 50257, kHidden = 768;

std::vector<float> hidden_rows(int rows) {
  std::vector<float> x(static_cast<std::size_t>(rows) * kHidden);
  bench::fill(x.data(), x.size(), 1);
  return x;
}

template <class P>
void all(benchmark::State& state, std::string_view format) {
  using View = typename P::View;
  const int rows = static_cast<int>(state.range(0));
  const auto hidden = hidden_rows(rows);
  std::vector<float> logits(static_cast<std::size_t>(rows) * kVocab);
  bench::measure(state, format, bench::cold<P>({kVocab, kHidden}), rows, [&](const View& weight) {
    head(bench::device(),
         HeadArgs<View>{{hidden.data(), rows, kHidden, kHidden}, weight, {logits.data(), rows, kVocab, kVocab}});
  });
}

template <class P>
void best(benchmark::State& state, std::string_view format) {
  using View = typename P::View;
  const int rows = static_cast<int>(state.range(0));
  const auto hidden = hidden_rows(rows);
  const std::vector<int> counts(static_cast<std::size_t>(rows), 1);
  std::vector<std::vector<TokenLogit>> found(counts.size());
  bench::measure(state, format, bench::cold<P>({kVocab, kHidden}), rows, [&](const View& weight) {
    head_best(bench::device(),
              HeadBestArgs<View>{{hidden.data(), rows, kHidden, kHidden}, weight, kVocab, counts.data(), found.data()});
  });
}

void add(const std::string& name, std::string_view format, void (*run)(benchmark::State&, std::string_view)) {
  auto* each = benchmark::RegisterBenchmark((name + "/" + std::string(format)).c_str(),
                                            [=](benchmark::State& state) { run(state, format); });
  each->ArgNames({"M", "N", "K", "thr"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const int rows : {1, 2, 4, 8, 16, 32, 64, 128}) each->Args({rows, kVocab, kHidden, bench::threads()});
}

const bool added = [] {
  bench::for_each_format([]<class P>(bench::Format<P> format) {
    add("BM_head", format.name, all<P>);
    add("BM_head_best", format.name, best<P>);
  });
  add("BM_head_best", "float32_int8_exact", best<Int8Exact>);
  add("BM_head_best", "bfloat16_int8_exact", best<Int8ExactOf<BFloat16>>);
  add("BM_head_best", "int8_int8_exact", best<Int8ExactOf<ZeroPointInt8>>);
  return true;
}();

}  // namespace
