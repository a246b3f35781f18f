// Experiment 2: the effect of the cache of keys and values. Without it, every new token computes the whole text again;
// with it, a new token computes one row. The two engines differ in one word and write the same tokens.
#include <tenon/tenon.h>

#include <algorithm>
#include <vector>

#include "common/example.h"

// [engines]
using Recomputing = tenon::Engine<tenon::Gpt2, tenon::Cache<tenon::NoCache>>;
using Caching = tenon::Engine<tenon::Gpt2, tenon::Cache<tenon::ContiguousKV>>;
// [/engines]

struct Run {
  std::vector<tenon::TokenId> ids;
  std::vector<double> ms;  // per token; the first is the prefill of the prompt

  double decode_ms(int tokens) const {
    double sum = 0;
    for (int i = 1; i < tokens; ++i) sum += ms[static_cast<std::size_t>(i)];
    return sum / (tokens - 1);
  }
};

template <class Engine>
Run run(const tenon::ModelFiles& files, int tokens) {
  Engine engine{files};
  engine.complete({.prompt = example::kPrompt, .options = {.max_new_tokens = 2}});  // warm-up
  Run out;
  example::Stopwatch watch;
  for (auto& token : engine.generate(example::kPrompt, {.max_new_tokens = tokens, .ignore_eos = true})) {
    out.ms.push_back(watch.lap());
    out.ids.push_back(token.id);
  }
  return out;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--new", "200"}});
  example::Csv csv(arguments.text("--csv"), "token,no_cache_ms,contiguous_ms");
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  const int tokens = std::max(arguments.number("--new"), 10);

  const Run without = run<Recomputing>(files, tokens), with = run<Caching>(files, tokens);

  std::printf("                     ms a token\n new tokens      NoCache   ContiguousKV\n");
  std::printf("  1, prefill %11.2f %14.2f\n", without.ms[0], with.ms[0]);
  for (const int n : {10, 50, tokens}) {
    if (n <= tokens) std::printf(" %3d, decode %11.2f %14.2f\n", n, without.decode_ms(n), with.decode_ms(n));
  }
  for (std::size_t i = 0; i < with.ms.size(); ++i) csv.row(i + 1, without.ms[i], with.ms[i]);
  return example::verdict("the same tokens", without.ids == with.ids);
} catch (const std::exception& error) {
  return example::failed(error);
}
