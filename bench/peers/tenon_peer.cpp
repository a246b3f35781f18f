// tenon as one of the peers of bench/compare: the same asks a line, the same answers a line (bench/peers/work.py), and the
// machine's ceilings beside them. tenon_peer DIR, two threads.
#include <tenon/tenon.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../examples/tenon/ceilings.h"

namespace {

using namespace tenon;
using Server = Engine<Gpt2, Scheduler<AnyScheduler>>;

constexpr int kThreads = 2, kPrefillTokens = 512;
const std::vector<TokenId> kPrompt = {464, 2068, 7586, 21831, 11687, 625, 262};
const std::map<int, int> kDecodeTokens = {{1, 64}, {8, 24}, {32, 12}, {128, 6}};

Request request(std::vector<TokenId> ids, int new_tokens) {
  return {.input_ids = std::move(ids), .options = {.max_new_tokens = new_tokens, .ignore_eos = true}};
}

double timed(const auto& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Tokens a second: the median of whole steps once all prompts are read, picking included.
double decode(Server& engine, int batch) {
  for (int i = 0; i < batch; ++i) engine.submit(request(kPrompt, kDecodeTokens.at(batch)));
  std::vector<double> steps;
  while (!engine.idle()) {
    const double seconds = timed([&] { engine.step(); });
    if (engine.stats().running == batch && engine.stats().waiting == 0) steps.push_back(seconds);
  }
  std::nth_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2), steps.end());
  return batch / steps[steps.size() / 2];
}

double prefill(Server& engine) {
  std::vector<TokenId> ids;
  for (int i = 0; i < kPrefillTokens; ++i) ids.push_back(i * 7919 % 50000);
  return kPrefillTokens / timed([&] { engine.complete(request(ids, 1)); });
}

// 32 requests, batch 8, 100 new tokens for every eighth and 10 for the others: useful tokens a second.
double experiment6(Server& engine) {
  std::vector<Request> requests;
  int tokens = 0;
  for (int i = 0; i < 32; ++i) {
    requests.push_back(request(kPrompt, i % 8 == 0 ? 100 : 10));
    tokens += requests.back().options.max_new_tokens;
  }
  engine.set_draining(true);
  return tokens / timed([&] { engine.complete(requests); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: tenon_peer DIR\n", 2;
  const auto files = load_checkpoint(argv[1]);
  const EngineOptions options{.batch = 128, .cache_tokens = 128 * 64, .threads = kThreads};
  Server wide(files, AnyScheduler(ContinuousPolicy{.max_batch = 128, .token_budget = 1024}),
              {.token_budget = 1024, .batch = 128, .cache_tokens = 128 * 64, .threads = kThreads});
  // The two sides of experiment 6 share the machine with the rest, not the weights: one at a time is loaded.
  std::map<std::string, double (*)(const ModelFiles&, const EngineOptions&)> queues = {
      {"experiment6", [](const ModelFiles& f, const EngineOptions& o) {
         Server engine(f, AnyScheduler(ContinuousPolicy{.max_batch = 8}), o);
         return experiment6(engine);
       }},
      {"experiment6_static", [](const ModelFiles& f, const EngineOptions& o) {
         Server engine(f, AnyScheduler(StaticPolicy{.n = 8}), o);
         return experiment6(engine);
       }}};
  program::Ceilings ceilings(kThreads);
  std::cout << R"({"peer": "tenon", "ready": true})" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto ask = nlohmann::json::parse(line);
    const std::string name = ask["case"];
    const int batch = ask["batch"];
    ceilings.forget();
    ceilings.measure();
    const double rate = queues.contains(name) ? queues.at(name)(files, options) : name == "prefill" ? prefill(wide) : decode(wide, batch);
    ceilings.measure();
    std::cout << nlohmann::json{{"peer", "tenon"}, {"case", name}, {"batch", batch}, {"tok_s", rate},
                                {"weight_bytes", wide.weight_bytes()}, {"isa", to_string(ceilings.isa())},
                                {"ceiling_gb_s", ceilings.read_gb_s()}, {"peak_gflops", ceilings.fma_gflops()}}
              << std::endl;
  }
}
