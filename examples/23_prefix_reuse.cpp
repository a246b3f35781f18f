// Prefix reuse: requests with a common beginning, such as a system prompt, reuse what the first one has computed. The
// same engine with and without it gives the same bits, with it in a fraction of the time.
#include <tenon/tenon.h>

#include <algorithm>
#include <vector>

#include "common/example.h"

struct Result {
  std::vector<tenon::Completion> answers;
  tenon::EngineStats stats;
  double seconds = 0;
};

// [run]
Result run(const tenon::ModelFiles& files, const std::vector<tenon::Request>& requests, bool reuse) {
  tenon::Engine<tenon::Gpt2> engine{files, {.batch = 64, .prefix_reuse = reuse}};
  engine.complete({.input_ids = {1}, .options = {.max_new_tokens = 1}});
  Result result;
  const example::Stopwatch watch;
  result.answers = engine.complete(requests);
  result.seconds = watch.ms() / 1000;
  result.stats = engine.stats();
  return result;
}
// [/run]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv,
                                     {{"--requests", "64"}, {"--prefix", "512"}, {"--new", "16"}, {"--rounds", "1"}});
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  const int vocab = tenon::Gpt2::configure(*files.config).vocab;

  // A common prefix, then eight tokens that differ. Any tokens will do.
  std::vector<tenon::TokenId> prefix;
  for (int i = 0; i < arguments.number("--prefix"); ++i) prefix.push_back((i * 7919 + 13) % vocab);
  std::vector<tenon::Request> requests;
  for (int i = 0; i < arguments.number("--requests"); ++i) {
    tenon::Request request{.input_ids = prefix};
    for (int j = 0; j < 8; ++j) request.input_ids.push_back((i * 104729 + j * 31 + 7) % vocab);
    request.options = {.max_new_tokens = arguments.number("--new"), .ignore_eos = true, .logits_hash = true};
    requests.push_back(std::move(request));
  }

  bool same = true;
  std::vector<double> ratios;
  std::printf("               seconds   tokens computed   found in the cache\n");
  for (int round = 0; round < arguments.number("--rounds"); ++round) {
    const Result without = run(files, requests, false), with = run(files, requests, true);
    for (const auto* r : {&without, &with}) {
      std::printf("%-12s %9.2f %17llu %20llu\n", r == &with ? "with reuse" : "without", r->seconds,
                  static_cast<unsigned long long>(r->stats.rows),
                  static_cast<unsigned long long>(r->stats.prefix_hit_tokens));
    }
    ratios.push_back(without.seconds / with.seconds);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      same = same && with.answers[i].ids == without.answers[i].ids &&
             with.answers[i].logits_hash == without.answers[i].logits_hash;
    }
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("\n%zu requests with %zu tokens in common finish %.1f times sooner\n", requests.size(), prefix.size(),
              ratios[ratios.size() / 2]);
  return example::verdict("the same tokens and the same logits", same);
} catch (const std::exception& error) {
  return example::failed(error);
}
