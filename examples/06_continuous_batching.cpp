// Experiment 6: 32 requests, 8 at a time; every eighth is ten times as long. A static batch keeps its seats until its
// longest member has finished; a continuous batch refills a seat at once. The engines differ in the scheduler.
#include <tenon/tenon.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/example.h"

constexpr int kSeats = 8;

struct Result {
  std::vector<std::vector<tenon::TokenId>> answers;
  std::string seats[kSeats] = {};  // the request in each step, '.' for an empty seat
  tenon::EngineStats stats = {};
};

template <class Policy>
Result run(const tenon::ModelFiles& files, Policy policy) {
  // [run]
  tenon::Engine<tenon::Gpt2, tenon::Scheduler<Policy>> engine{files, policy, {.draft_tokens = 0}};
  for (int i = 0; i < 32; ++i) {
    const int tokens = i % 8 == 0 ? 100 : 10;
    engine.submit({.prompt = example::kPrompt, .options = {.max_new_tokens = tokens, .ignore_eos = true}});
  }
  // [/run]
  Result result{.answers = std::vector<std::vector<tenon::TokenId>>(32)};
  tenon::RequestId seated[kSeats] = {};  // ids count from 1
  example::Progress progress(32);
  while (!engine.idle()) {
    for (auto& seat : result.seats) seat += '.';
    for (const auto& event : engine.step()) {
      auto* seat = std::find(seated, seated + kSeats, event.request);
      if (event.kind != tenon::Event::Kind::token) {
        *seat = 0;  // free from the next step
        progress.advance();
        continue;
      }
      result.answers[event.request - 1].push_back(event.token);
      if (seat == seated + kSeats) seat = std::find(seated, seated + kSeats, tenon::RequestId{0});
      *seat = event.request;
      result.seats[seat - seated].back() = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"[event.request - 1];
    }
  }
  result.stats = engine.stats();
  return result;
}

void draw(const char* name, const Result& r, example::Csv& csv) {
  const std::size_t steps = r.stats.steps, rows = r.stats.rows;
  std::printf("%s: %zu steps, %zu rows, %.2f s; a letter is a request, 5 steps\n", name, steps, rows, r.stats.seconds);
  for (int i = 0; i < kSeats; ++i) {
    std::string shown;
    for (std::size_t step = 4; step < steps; step += 5) shown += r.seats[i][step];
    const auto empty = static_cast<std::size_t>(std::count(r.seats[i].begin(), r.seats[i].end(), '.'));
    std::printf("  %s  taken %3zu %%\n", shown.c_str(), 100 * (steps - empty) / steps);
    csv.row(name, i, r.seats[i]);
  }
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv);
  example::Csv csv(arguments.text("--csv"), "policy,seat,occupants");
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  // [policies]
  const auto fixed = run(files, tenon::StaticPolicy{.n = kSeats});
  const auto continuous = run(files, tenon::ContinuousPolicy{.max_batch = kSeats});
  const auto longest = run(files, tenon::ContinuousPolicy{.max_batch = kSeats, .order = tenon::Order::longest_first});
  // [/policies]
  draw("static", fixed, csv);
  draw("continuous", continuous, csv);
  draw("longest first", longest, csv);
  const bool same = fixed.answers == continuous.answers && fixed.answers == longest.answers;
  const bool counted = fixed.stats.steps == 400 && continuous.stats.steps == 130 && longest.stats.steps == 100;
  return example::verdict("the same answers, in 400, 130 and 100 steps", same && counted);
} catch (const std::exception& error) {
  return example::failed(error);
}
