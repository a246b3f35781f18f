// Experiment 11: a batch of 64 with 0 to 64 distinct adapters, with and without plain rows, equal and mixed ranks.
// Shows tokens per second, and the bytes of factors that a step reads in addition to the model.
#include <tenon/tenon.h>
#include <tenon/testing/random_adapter.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/example.h"

// 32 adapters of mixed rank with the same sum of ranks as 32 of rank 16.
const std::vector<int> kMixedRanks = [] {
  std::vector<int> ranks(32, 8);
  std::fill_n(ranks.begin(), 2, 4);
  std::fill_n(ranks.end() - 9, 5, 16);
  std::fill_n(ranks.end() - 4, 4, 64);
  return ranks;
}();

struct Case {
  const char* name;
  int adapters;            // number of distinct adapters
  std::vector<int> ranks;  // ranks of the adapters, in turn
  int plain = 0;           // requests without an adapter, of 64
};

// Median time in seconds of a step of 64 rows, after all prompts are read.
template <class Engine>
double step_seconds(Engine& engine, const std::vector<tenon::Request>& requests) {
  for (const tenon::Request& request : requests) engine.submit(request);
  std::vector<double> seconds;
  while (!engine.idle()) {
    const bool all_read = engine.stats().running == static_cast<int>(requests.size());
    example::Stopwatch watch;
    for (const tenon::Event& event : engine.step()) {
      if (event.kind == tenon::Event::Kind::error) throw std::runtime_error(event.error);
    }
    if (all_read) seconds.push_back(watch.ms() / 1000);
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

std::vector<tenon::Request> requests_of(const Case& each, int batch, int new_tokens,
                                        const tenon::testing::RandomAdapters& adapters) {
  std::vector<tenon::Request> requests;
  for (int i = 0; i < batch; ++i) {
    tenon::Request request{.prompt = example::kPrompt, .options = {.max_new_tokens = new_tokens, .ignore_eos = true}};
    if (i >= each.plain && each.adapters > 0) {
      const int which = i % each.adapters, rank = each.ranks[static_cast<std::size_t>(which) % each.ranks.size()];
      request.adapters.push_back({adapters.folder(which, rank)});
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--batch", "64"}, {"--new", "16"}, {"--rounds", "3"}});
  const int batch = arguments.number("--batch");
  example::Csv csv(arguments.text("--csv"), "case,adapters,tokens_per_second,overhead,megabytes");
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  const auto tensors = tenon::Gpt2::tensors(tenon::Gpt2::configure(*files.config));
  const tenon::testing::RandomAdapters adapters(tenon::adapter_sites(tensors, tenon::Gpt2::name_prefix),
                                                tenon::Site::qkv);
  const std::vector<Case> cases = {{"none", 0, {}},
                                   {"1 shared", 1, {16}},
                                   {"4", 4, {16}},
                                   {"16", 16, {16}},
                                   {"64 distinct", 64, {16}},
                                   {"mixed ranks", 64, kMixedRanks},
                                   {"half plain", 32, {16}, batch / 2}};
  tenon::Engine<tenon::Gpt2> engine{files, tenon::ContinuousPolicy{.max_batch = batch},
                                    tenon::EngineOptions{.batch = batch}};
  std::vector<double> seconds(cases.size(), 1e9), bytes(cases.size());  // the fastest round of each case
  for (int round = 0; round < arguments.number("--rounds"); ++round) {
    for (std::size_t c = 0; c < cases.size(); ++c) {
      const auto requests = requests_of(cases[c], batch, arguments.number("--new"), adapters);
      seconds[c] = std::min(seconds[c], step_seconds(engine, requests));
      bytes[c] = 0;
      for (const tenon::AdapterInfo& info : engine.adapters().list()) {
        bytes[c] += static_cast<double>(info.bytes);
        engine.adapters().unload(info.name);
      }
    }
  }
  std::printf("case            tokens/s   of plain      MB of factors\n");
  for (std::size_t c = 0; c < cases.size(); ++c) {
    std::printf("%-14s %9.0f %9.1f %% %15.1f\n", cases[c].name, batch / seconds[c], 100 * seconds[0] / seconds[c],
                bytes[c] / 1e6);
    csv.row(cases[c].name, cases[c].adapters, batch / seconds[c], seconds[c] / seconds[0] - 1, bytes[c] / 1e6);
  }
  return 0;
} catch (const std::exception& error) {
  return example::failed(error);
}
