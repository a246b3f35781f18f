// A scheduler of your own that runs the shortest prompt first. It is a struct with one function in your own file; no
// file of the library changes. One line checks the laws of schedulers.
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

#include <vector>

#include "common/example.h"

// [policy]
struct ShortestPromptFirst {
  int max_batch = 4;

  void plan(const tenon::QueueState& state, tenon::PlanWriter& out) const {
    for (const auto& c : state.running) out.take(c.seq, c.pending);  // running sequences go on
    int batch = static_cast<int>(state.running.size());
    const tenon::Candidate* last = nullptr;
    for (; batch < max_batch; ++batch) {
      const tenon::Candidate* next = nullptr;  // the shortest prompt after `last`
      for (const auto& c : state.waiting) {
        if ((!last || shorter(*last, c)) && (!next || shorter(c, *next))) next = &c;
      }
      if (!next || out.take(next->seq, next->pending) == 0) return;  // no request is left, or none fits
      last = next;
    }
  }
  static bool shorter(const tenon::Candidate& a, const tenon::Candidate& b) {
    return a.pending != b.pending ? a.pending < b.pending : a.arrival < b.arrival;
  }
};
// [/policy]

// Submits four long prompts, then eight short ones. Prints the mean number of steps until a request's first token.
template <class Policy>
std::vector<std::vector<tenon::TokenId>> run(const char* name, const tenon::ModelFiles& files, Policy policy) {
  // [engine]
  tenon::Engine<tenon::Gpt2, tenon::Scheduler<Policy>> engine{files, policy, {.token_budget = 32, .draft_tokens = 0}};
  // [/engine]
  std::vector<std::vector<tenon::TokenId>> answers(12);
  for (int i = 0; i < 12; ++i) {
    std::string prompt = "Once";
    for (int words = i < 4 ? 120 : i; words > 1; --words) prompt += " more";
    engine.submit({.prompt = prompt, .options = {.max_new_tokens = 4, .ignore_eos = true}});
  }
  double first_steps = 0;
  // [loop]
  while (!engine.idle()) {
    for (const auto& event : engine.step()) {
      if (event.kind != tenon::Event::Kind::token) continue;
      auto& answer = answers[event.request - 1];
      if (answer.empty()) first_steps += static_cast<double>(engine.stats().steps);
      answer.push_back(event.token);
    }
  }
  // [/loop]
  std::printf("  %-24s first token after %4.1f steps on average, all done after %d\n", name, first_steps / 12,
              static_cast<int>(engine.stats().steps));
  return answers;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv);
  // [laws]
  const auto violations = tenon::testing::scheduler_laws(ShortestPromptFirst{});
  for (const auto& broken : violations) std::printf("broken law: %s\n", broken.c_str());
  // [/laws]
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  const auto first_come = run("first come, first served", files, tenon::ContinuousPolicy{.max_batch = 4});
  const auto shortest = run("shortest prompt first", files, ShortestPromptFirst{});
  return example::verdict("the laws hold, and the answers are the same", violations.empty() && first_come == shortest);
} catch (const std::exception& error) {
  return example::failed(error);
}
