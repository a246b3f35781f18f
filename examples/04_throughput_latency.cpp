// Experiment 4: a larger batch writes more tokens per second, but each token takes longer. Shows the trade-off, and
// where a larger batch stops paying.
#include <tenon/tenon.h>

#include <algorithm>
#include <vector>

#include "common/example.h"

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--new", "10"}, {"--largest", "128"}, {"--repeat", "3"}});
  example::Csv csv(arguments.text("--csv"), "batch,tokens_per_second,seconds_per_token");
  const int tokens = arguments.number("--new"), largest = arguments.number("--largest");

  // [engine]
  // The token budget fits all prompts in one step, so that all first tokens come at once.
  const tenon::ContinuousPolicy policy{.max_batch = largest, .token_budget = 4096};
  auto engine = tenon::Engine<tenon::Gpt2>{
      tenon::load_checkpoint(arguments.text("--model")), policy, {.token_budget = 4096, .batch = largest}};
  // [/engine]
  const tenon::Request request{.prompt = example::kPrompt, .options = {.max_new_tokens = tokens, .ignore_eos = true}};
  const auto alone = engine.complete(request);

  std::printf("  batch    tokens/s    ms/token\n");
  bool same = true;
  for (int batch = 1; batch <= largest; batch *= 2) {
    // [measure]
    const std::vector<tenon::Request> requests(static_cast<std::size_t>(batch), request);
    double seconds = 1e9;  // the fastest of several runs
    for (int i = 0; i < arguments.number("--repeat"); ++i) {
      example::Stopwatch watch;
      const auto answers = engine.complete(requests);
      seconds = std::min(seconds, watch.ms() / 1000);
      for (const auto& answer : answers) same = same && answer.ids == alone.ids;
    }
    // [/measure]
    const double throughput = batch * tokens / seconds, latency = seconds / tokens;
    std::printf("  %5d %11.1f %11.2f\n", batch, throughput, 1000 * latency);
    csv.row(batch, throughput, latency);
  }
  return example::verdict("every answer the same as alone", same);
} catch (const std::exception& error) {
  return example::failed(error);
}
