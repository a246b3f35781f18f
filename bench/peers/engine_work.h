// The cases of bench/compare for an engine on any device.
#pragma once
#include <tenon/tenon.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../../apps/common/traffic.h"

namespace bench {

using namespace tenon;

inline const std::vector<TokenId> kPrompt = {464, 2068, 7586, 21831, 11687, 625, 262};

inline std::vector<TokenId> long_prompt(int tokens, int first = 0) {
  std::vector<TokenId> ids;
  for (int i = first; i < first + tokens; ++i) ids.push_back(i * 7919 % 49000);
  return ids;
}

inline Request request(std::vector<TokenId> ids, int new_tokens) {
  return {.input_ids = std::move(ids), .options = {.max_new_tokens = new_tokens, .ignore_eos = true}};
}

inline double seconds_of(const auto& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline void finish(AnyEngine& engine) {
  while (!engine.idle()) engine.step();
}

// The result of a case: useful tokens per second, and the size of its steps.
struct Result {
  double tok_s = 0, steps_s = 0;
  program::StepSize step = {};
};

inline double median(std::vector<double> values) {
  if (values.empty()) throw std::runtime_error("nothing was measured: the engine never ran the whole batch at once");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Runs the submitted requests. After all `batch` prompts are read, appends the time of each whole step, sampling
// included.
inline void run_steps(AnyEngine& engine, int batch, std::vector<double>& seconds) {
  while (!engine.idle()) {
    const bool all_read = engine.stats().running == batch;
    const double step = seconds_of([&] { engine.step(); });
    if (all_read) seconds.push_back(step);
  }
}

// The median step of decoding.
inline Result decode(AnyEngine& engine, int batch, int new_tokens, const std::vector<TokenId>& prompt = kPrompt) {
  for (int i = 0; i < batch; ++i) engine.submit(request(prompt, new_tokens));
  std::vector<double> seconds;
  run_steps(engine, batch, seconds);
  const double step = median(std::move(seconds)), rows = batch,
               context = static_cast<double>(prompt.size()) + new_tokens / 2.0;
  return {rows / step, 1 / step, {.rows = rows, .logit_rows = rows, .sequences = rows, .context = context}};
}

// Different prompts and the first token of each, in one step if the token budget allows it.
inline Result prefill(AnyEngine& engine, int tokens, int prompts = 1) {
  for (int i = 0; i < prompts; ++i) engine.submit(request(long_prompt(tokens, i * tokens), 1));
  const double seconds = seconds_of([&] { finish(engine); });
  const double sequences = prompts, rows = sequences * tokens;
  return {rows / seconds,
          1 / seconds,
          {.rows = rows, .logit_rows = sequences, .sequences = sequences, .context = 1.0 * tokens}};
}

}  // namespace bench
