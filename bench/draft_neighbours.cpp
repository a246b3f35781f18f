// The time that one request with many right guesses takes from the plain requests beside it: to their first token and
// per token, without guesses, with them, and without them once more.
//   bench_draft_neighbours DIR [ROUNDS [WEIGHTS ...]]    a folder of a Llama, such as "$(scripts/get-model smollm2)"
// Prints one JSON line for each number of neighbours and format of weights: medians of the rounds, which run in turns.
// Exit status 1 if an answer differs.
#include <tenon/tenon.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using namespace tenon;

constexpr int kThreads = 2, kTokens = 64, kCopied = 320;

const std::string kText =
    "The quarterly report shows that revenue rose by 12 percent, driven by strong demand for cloud services in Europe "
    "and Asia. Operating costs fell by 3 percent because two data centres were merged. The board expects further "
    "growth next year, and plans to hire 200 engineers in Lisbon, Nairobi and Toronto. Dividends stay unchanged.\n\n";

// The mean waits of the neighbours of one run, and all answers.
struct Run {
  double first_ms = 0, token_ms = 0;  // means over the neighbours
  double copier_ms = 0;               // per token
  std::uint64_t accepted = 0;
  std::vector<std::vector<TokenId>> ids = {};
};

// Times of one request's tokens.
struct Times {
  Clock::time_point first, last;
  int tokens = 0;

  void add(Clock::time_point now) {
    if (tokens++ == 0) first = now;
    last = now;
  }
  double first_ms(Clock::time_point begin) const { return ms(first - begin); }
  double token_ms() const { return ms(last - first) / (tokens - 1); }
  static double ms(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }
};

template <class E>
Run run(E& engine, int neighbours) {
  std::vector<RequestId> requests = {
      engine.submit({.prompt = kText + kText + kText, .options = {.max_new_tokens = kCopied, .ignore_eos = true}})};
  for (int i = 0; i < neighbours; ++i) {
    requests.push_back(engine.submit(
        {.prompt = "Story number " + std::to_string(i) + ":",
         .options = {
             .max_new_tokens = kTokens, .temperature = 1, .seed = static_cast<std::uint64_t>(i), .ignore_eos = true}}));
  }
  std::map<RequestId, Times> times;
  std::map<RequestId, std::vector<TokenId>> ids;
  const std::uint64_t accepted = engine.stats().accepted;
  const auto begin = Clock::now();
  while (!engine.idle()) {
    const auto events = engine.step();
    const auto now = Clock::now();
    for (const Event& event : events) {
      if (event.kind == Event::Kind::error) throw std::runtime_error(event.error);
      if (event.kind != Event::Kind::token) continue;
      times[event.request].add(now);
      ids[event.request].push_back(event.token);
    }
  }
  Run done{.copier_ms = times[requests[0]].token_ms(), .accepted = engine.stats().accepted - accepted};
  for (const RequestId request : requests) {
    done.ids.push_back(ids[request]);
    if (request == requests[0]) continue;
    done.first_ms += times[request].first_ms(begin) / neighbours;
    done.token_ms += times[request].token_ms() / neighbours;
  }
  return done;
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// Whether all answers are equal.
template <class P>
bool measure(const char* format, const ModelFiles& files, int rounds) {
  using E = Engine<Llama, Weights<P>>;
  const auto make = [&](int guesses) {
    return E(files, EngineOptions{.batch = 32, .threads = kThreads, .prefix_reuse = false, .draft_tokens = guesses});
  };
  E none = make(0), guessing = make(EngineOptions{}.draft_tokens), again = make(0);
  const std::array<E*, 3> engines = {&none, &guessing, &again};
  bool equal = true;
  for (const int neighbours : {31, 7, 1}) {
    for (E* engine : engines) run(*engine, neighbours);  // learns what rows cost
    std::map<std::string, std::vector<double>> all;
    std::uint64_t accepted = 0;
    for (int round = 0; round < rounds; ++round) {
      std::array<Run, 3> runs;  // another engine begins each round
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t turn = (i + static_cast<std::size_t>(round)) % 3;
        runs[turn] = run(*engines[turn], neighbours);
      }
      const auto& [a, b, c] = runs;
      equal = equal && a.ids == b.ids && a.ids == c.ids;
      all["first_ms"].push_back(a.first_ms), all["token_ms"].push_back(a.token_ms);
      all["first_ratio"].push_back(b.first_ms / a.first_ms), all["first_noise"].push_back(c.first_ms / a.first_ms);
      all["token_ratio"].push_back(b.token_ms / a.token_ms), all["token_noise"].push_back(c.token_ms / a.token_ms);
      all["copier_ratio"].push_back(b.copier_ms / a.copier_ms);
      accepted = b.accepted;
    }
    nlohmann::json row = {{"weights", format}, {"neighbours", neighbours}, {"rounds", rounds}, {"accepted", accepted}};
    for (const auto& [name, values] : all) row[name] = median(values);
    std::printf("%s\n", row.dump().c_str());
    std::fflush(stdout);
  }
  return equal;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIR [ROUNDS [WEIGHTS ...]]\n", argv[0]);
    return 2;
  }
  const ModelFiles files = load_checkpoint(argv[1]);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  const std::vector<std::string> wanted(argv + std::min(argc, 3), argv + argc);  // empty: all
  bool equal = true;
  const auto run_if_wanted = [&](const char* format, bool (*measure_format)(const char*, const ModelFiles&, int)) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), format) != wanted.end())
      equal = measure_format(format, files, rounds) && equal;
  };
  run_if_wanted("float32", measure<Float32>);
  run_if_wanted("bfloat16", measure<BFloat16>);
  run_if_wanted("int8_act8", measure<ZeroPointInt8Act8>);
  run_if_wanted("int8", measure<ZeroPointInt8>);
  run_if_wanted("int4", measure<GroupInt4>);
  std::printf("%s\n", equal ? "all answers are equal" : "ANSWERS DIFFER");
  return equal ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
