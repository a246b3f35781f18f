// Products with GPT-2's matrices in every weight format, read from memory each time: BM_linear_gemv/FORMAT with one
// row, BM_linear_gemm/FORMAT with more. Shapes: M rows, N outputs, K inputs. frac_stream is the fraction of the
// bandwidth, frac_peak that of the peak of the format's instruction. Both ceilings are measured in the same seconds.
//   bench_ops_linear --benchmark_filter=gemv --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
#include "matrices.h"

namespace {

using namespace tenon;

template <class P>
void run(benchmark::State& state, std::string_view format) {
  const int tokens = static_cast<int>(state.range(0)), outputs = static_cast<int>(state.range(1)),
            inputs = static_cast<int>(state.range(2));
  auto& matrix = bench::cold<P>({outputs, inputs});
  std::vector<float> x(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(inputs));
  std::vector<float> bias(static_cast<std::size_t>(outputs)), y(static_cast<std::size_t>(tokens) * bias.size());
  bench::fill(x.data(), x.size(), 1);
  bench::measure(state, format, matrix, tokens, [&](const typename P::View& weight) {
    linear(bench::device(), LinearArgs<typename P::View>{.x = {x.data(), tokens, inputs, inputs},
                                                         .weight = weight,
                                                         .bias = bias.data(),
                                                         .y = {y.data(), tokens, outputs, outputs}});
  });
}

template <class P>
void add(bench::Format<P> format) {
  const auto run_it = [name = format.name](benchmark::State& state) { run<P>(state, name); };
  auto* gemv = benchmark::RegisterBenchmark(("BM_linear_gemv/" + std::string(format.name)).c_str(), run_it);
  auto* gemm = benchmark::RegisterBenchmark(("BM_linear_gemm/" + std::string(format.name)).c_str(), run_it);
  for (auto* each : {gemv, gemm}) each->ArgNames({"M", "N", "K", "thr"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  const Shape matrices[] = {{3 * 768, 768}, {768, 768}, {4 * 768, 768}, {768, 4 * 768}};
  for (const Shape& m : matrices) {
    gemv->Args({1, m.rows, m.cols, bench::threads()});
    for (const int tokens : {2, 4, 8, 16, 32, 128, 512}) gemm->Args({tokens, m.rows, m.cols, bench::threads()});
  }
}

const bool added = [] { return bench::for_each_format([](auto format) { add(format); }), true; }();

}  // namespace
