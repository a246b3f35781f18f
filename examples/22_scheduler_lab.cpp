// A scheduler of your own against one of the library's, in the laboratory: the same traffic, the real queue, and the
// clock of a simulated machine. There is no model, and an hour of traffic takes a moment.
#include <tenon/lab/report.h>
#include <tenon/schedule/continuous.h>
#include <tenon/schedule/fair.h>
#include <tenon/testing/laws.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/example.h"

namespace lab = tenon::lab;
// [policy]
// The request with the fewest tokens to come is first, unless another one has waited for ten seconds.
struct ShortestFirst {
  int max_batch = 8;
  tenon::Clock::duration patience = std::chrono::seconds(10);

  void plan(const tenon::QueueState& state, tenon::PlanWriter& out) const {
    int room = state.free_cache_tokens;
    for (const auto& c : state.running) room -= out.need(c.seq);     // reserved for running sequences
    for (const auto& c : state.running) out.take(c.seq, c.pending);  // running sequences go on
    const tenon::Candidate* last = nullptr;
    for (int batch = static_cast<int>(state.running.size()); batch < max_batch; ++batch) {
      const tenon::Candidate* next = nullptr;  // the first request after `last`
      for (const auto& c : state.waiting) {
        if ((!last || before(*last, c, state.now)) && (!next || before(c, *next, state.now))) next = &c;
      }
      if (!next || (batch > 0 && out.need(next->seq) > room)) return;  // no request is left, or it does not fit
      room -= out.need(next->seq);
      if (out.take(next->seq, next->pending) == 0) return;
      last = next;
    }
  }
  bool before(const tenon::Candidate& a, const tenon::Candidate& b, tenon::TimePoint now) const {
    const bool a_late = now - a.arrival >= patience, b_late = now - b.arrival >= patience;
    if (a_late != b_late) return a_late;
    if (!a_late && a.remaining != b.remaining) return a.remaining < b.remaining;
    return &a < &b;  // waiting requests are in order of arrival
  }
};
// [/policy]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv);
  // [replay]
  // Four adapters with little traffic; in second 10 the first one submits a burst of requests.
  const auto lengths = lab::Length::exponential(40, 200);
  lab::Trace trace = lab::random_trace({.requests = 120, .rate = 2.4, .adapters = 4, .zipf = 0, .new_tokens = lengths});
  for (lab::TraceRequest r : lab::random_trace({.requests = 60, .rate = 0, .new_tokens = lengths, .seed = 1})) {
    r.arrival = std::chrono::seconds(10);
    r.adapter = 0;
    trace.push_back(r);
  }
  std::stable_sort(trace.begin(), trace.end(), [](auto& a, auto& b) { return a.arrival < b.arrival; });
  const lab::ReplayOptions options{.token_budget = 256, .cache_tokens = 4096};
  const auto own = lab::replay(ShortestFirst{}, trace, options);
  const auto first_come = lab::replay(tenon::ContinuousPolicy{.max_batch = 8}, trace, options);
  const auto fair = lab::replay(tenon::FairPolicy{.max_batch = 8}, trace, options);
  const std::vector<lab::Report> reports = {lab::report("first come", first_come), lab::report("fair", fair),
                                            lab::report("shortest first", own)};
  std::printf("%s\n", lab::to_table(reports).c_str());
  // [/replay]
  std::printf("who sits where under shortest first; a letter is an adapter\n%s", lab::slots_picture(own).c_str());
  example::Csv csv(arguments.text("--csv"), "scheduler,slot,request,adapter,begin_ms,end_ms,first_step,last_step");
  for (const auto& [name, result] : {std::pair{"first come", &first_come}, {"fair", &fair}, {"shortest first", &own}})
    csv.lines(lab::slots_csv(name, *result));
  // [laws]
  const auto violations = tenon::testing::scheduler_laws(ShortestFirst{});
  for (const auto& broken : violations) std::printf("broken law: %s\n", broken.c_str());
  // [/laws]
  const bool as_meant = reports[2].latency_ms.p50 < reports[0].latency_ms.p50 && reports[1].jain > reports[0].jain;
  return example::verdict("the laws hold, shortest is quicker, fair is fairer", violations.empty() && as_meant);
} catch (const std::exception& error) {
  return example::failed(error);
}
