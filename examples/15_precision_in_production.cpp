// Experiment 15: what a format costs in production: the most memory that loading and running take, the time of a token,
// and what the process gives back when the engine is gone. Rows are encoded in blocks: nothing dense is ever held.
#include <tenon/tenon.h>

#include <algorithm>
#include <string>

#include "common/example.h"

using namespace tenon;

struct Cost {
  double peak_mb = 0, weights_mb = 0, cache_mb = 0, ms = 0, left_mb = 0;
};

// The most memory since the last call.
double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1.024e-3;
  }
  return 0;
}
void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// [cost]
template <class P>
Cost cost(const ModelFiles& files, int tokens) {
  const double before = example::resident_megabytes();
  Cost result;
  forget_peak();
  {
    Engine<Gpt2, Weights<P>> engine{files, {.cache_tokens = 256}};
    engine.complete({.input_ids = {1, 2, 3}, .options = {.max_new_tokens = 8, .ignore_eos = true}});
    const example::Stopwatch watch;
    engine.complete({.input_ids = {1, 2, 3}, .options = {.max_new_tokens = tokens, .ignore_eos = true}});
    result.ms = watch.ms() / tokens;
    result.weights_mb = 1e-6 * static_cast<double>(engine.weight_bytes());
    result.cache_mb = 1e-6 * static_cast<double>(engine.cache_stats().bytes);
    result.peak_mb = peak_megabytes() - before;
  }
  result.left_mb = example::resident_megabytes() - before;
  return result;
}
// [/cost]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--shape", "model"}, {"--new", "32"}});
  example::Csv csv(arguments.text("--csv"), "format,weights_mb,peak_mb,ms,left_mb");
  // --shape gpt2: the sizes of GPT-2 124M with random weights, and no file.
  const auto files = arguments.text("--shape") == "gpt2" ? random_checkpoint(Gpt2::small())
                                                         : load_checkpoint(arguments.text("--model"));
  std::printf("  format          weights, MB  peak, MB  of weights  ms a token  left after, MB\n");
  // Beside weights and cache, rows on their way: 8 MB of them and as much again; a second copy of the default model's
  // weights would be 24 MB in float32.
  const double slack = arguments.text("--shape") == "gpt2" ? 32 : 16;
  bool lean = true;
  const auto of = [&]<class P>(P, const char* name) {
    const Cost c = cost<P>(files, arguments.number("--new"));
    lean = lean && c.peak_mb < 1.1 * c.weights_mb + c.cache_mb + slack && c.left_mb < 16;
    std::printf("  %-13s %13.1f %9.1f %11.2f %11.2f %15.1f\n", name, c.weights_mb, c.peak_mb, c.peak_mb / c.weights_mb,
                c.ms, c.left_mb);
    csv.row(name, c.weights_mb, c.peak_mb, c.ms, c.left_mb);
  };
  of(Float32{}, "float32");
  of(BFloat16{}, "bfloat16");
  of(Float16{}, "float16");
  of(Float8<E4M3>{}, "float8_e4m3");
  of(ZeroPointInt8{}, "int8");
  of(ZeroPointInt8Act8{}, "int8_act8");
  of(GroupInt4{}, "int4");
  return example::verdict("loading takes little beside the weights, and the memory comes back", lean);
} catch (const std::exception& error) {
  return example::failed(error);
}
