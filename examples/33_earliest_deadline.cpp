// A scheduler of your own that keeps deadlines: the request whose deadline is next goes first. Deadlines decide who
// runs when, and never what is answered.
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

#include <algorithm>
#include <vector>

#include "common/example.h"

// [policy]
struct EarliestDeadlineFirst {
  int max_batch = 4;

  void plan(const tenon::QueueState& state, tenon::PlanWriter& out) const {
    int left = state.free_cache_tokens;
    for (const auto& c : state.running) left -= out.need(c.seq);     // tokens that running sequences are about to use
    for (const auto& c : state.running) out.take(c.seq, c.pending);  // running sequences go on
    const tenon::Candidate* last = nullptr;
    for (int batch = static_cast<int>(state.running.size()); batch < max_batch; ++batch) {
      const tenon::Candidate* next = nullptr;  // the most urgent one after `last`
      for (const auto& c : state.waiting) {
        if ((!last || sooner(*last, c)) && (!next || sooner(c, *next))) next = &c;
      }
      if (!next || (batch > 0 && out.need(next->seq) > left)) return;  // no request is left, or it does not fit
      left -= out.need(next->seq);
      if (out.take(next->seq, next->pending) == 0) return;
      last = next;
    }
  }
  // The sequence to preempt when the cache is full: the one with the most time left.
  tenon::SeqId victim(const tenon::QueueState& state) const {
    return std::max_element(state.running.begin(), state.running.end(), sooner)->seq;
  }
  // No deadline is TimePoint::max(), which comes last. Equal deadlines keep the order of the list.
  static bool sooner(const tenon::Candidate& a, const tenon::Candidate& b) {
    return a.deadline != b.deadline ? a.deadline < b.deadline : &a < &b;
  }
};
// [/policy]

// Twelve requests at once, the most urgent last. Time is counted in steps, so that every run prints the same.
template <class Policy>
std::vector<std::vector<tenon::TokenId>> run(const char* name, const tenon::ModelFiles& files, Policy policy) {
  tenon::Engine<tenon::Gpt2, tenon::Scheduler<Policy>> engine{files, policy, {.draft_tokens = 0}};
  const auto deadline_of = [](int i) { return 15 + 5 * (11 - i); };  // in steps
  for (int i = 0; i < 12; ++i) {
    // [request]
    tenon::Request request{.prompt = "Day " + std::to_string(i), .options = {.max_new_tokens = 12, .ignore_eos = true}};
    request.options.deadline = tenon::TimePoint{} + std::chrono::seconds(deadline_of(i));
    // [/request]
    engine.submit(request);
  }
  std::vector<std::vector<tenon::TokenId>> answers(12);
  int late = 0;
  while (!engine.idle()) {
    for (const auto& event : engine.step()) {
      const auto i = static_cast<std::size_t>(event.request - 1);
      if (event.kind == tenon::Event::Kind::token) answers[i].push_back(event.token);
      if (event.last) late += static_cast<int>(engine.stats().steps) > deadline_of(static_cast<int>(i));
    }
  }
  std::printf("  %-24s %2d of 12 end after their deadline\n", name, late);
  return answers;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv);
  // [laws]
  const auto violations = tenon::testing::scheduler_laws(EarliestDeadlineFirst{});
  for (const auto& broken : violations) std::printf("broken law: %s\n", broken.c_str());
  // [/laws]
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  const auto first_come = run("first come, first served", files, tenon::ContinuousPolicy{.max_batch = 4});
  const auto deadlines = run("earliest deadline first", files, EarliestDeadlineFirst{});
  return example::verdict("the laws hold, and the answers are the same", violations.empty() && deadlines == first_come);
} catch (const std::exception& error) {
  return example::failed(error);
}
