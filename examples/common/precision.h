// Experiment 15 on a CPU or a GPU: the cost of a weight format in production.
#pragma once
#include <tenon/tenon.h>

#include <cstdio>
#include <string>

#include "example.h"

namespace example {

struct PrecisionCost {
  double weights_mb = 0, cache_mb = 0, peak_mb = 0, ms = 0, left_mb = 0;
};

// peak(engine): the peak of memory since loading began, in MB. left(): MB still in use after the engine.
template <class Engine, class Peak, class Left>
PrecisionCost precision_cost(const tenon::ModelFiles& files, int tokens, Peak&& peak, Left&& left) {
  PrecisionCost result;
  {
    Engine engine{files, {.cache_tokens = 256}};
    engine.complete({.input_ids = {1, 2, 3}, .options = {.max_new_tokens = 8, .ignore_eos = true}});
    const Stopwatch watch;
    engine.complete({.input_ids = {1, 2, 3}, .options = {.max_new_tokens = tokens, .ignore_eos = true}});
    result.ms = watch.ms() / tokens;
    result.weights_mb = 1e-6 * static_cast<double>(engine.weight_bytes());
    result.cache_mb = 1e-6 * static_cast<double>(engine.cache_stats().bytes);
    result.peak_mb = peak(engine);
  }
  result.left_mb = left();
  return result;
}

inline void precision_heading() {
  std::printf("  format          weights, MB  peak, MB  of weights  ms a token  left after, MB\n");
}

// Prints a row of the table. Returns whether the peak is within 1.1 times the weights plus cache plus `slack` MB.
inline bool precision_row(Csv& csv, const char* format, const PrecisionCost& c, double slack) {
  std::printf("  %-13s %13.1f %9.1f %11.2f %11.2f %15.1f\n", format, c.weights_mb, c.peak_mb, c.peak_mb / c.weights_mb,
              c.ms, c.left_mb);
  csv.row(format, c.weights_mb, c.peak_mb, c.ms, c.left_mb);
  return c.peak_mb < 1.1 * c.weights_mb + c.cache_mb + slack && c.left_mb < 16;
}

// --shape gpt2: the sizes of GPT-2 124M with random weights, without a file.
inline bool is_gpt2_shape(const Arguments& arguments) { return arguments.text("--shape") == "gpt2"; }
inline tenon::ModelFiles precision_model(const Arguments& arguments) {
  return is_gpt2_shape(arguments) ? tenon::random_checkpoint(tenon::Gpt2::small())
                                  : tenon::load_checkpoint(arguments.text("--model"));
}

constexpr const char* kPrecisionColumns = "format,weights_mb,peak_mb,ms,left_mb";
constexpr const char* kPrecisionClaim = "loading takes little beside the weights, and the memory comes back";

}  // namespace example
