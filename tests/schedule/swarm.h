// The simulation over the library's own policies: a seed draws the policy, too.
#pragma once
#include <chrono>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tenon/schedule/any_scheduler.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/fair.h"
#include "tenon/schedule/sequential.h"
#include "tenon/schedule/static.h"
#include "tenon/testing/simulation.h"

namespace tenon::swarm {

using testing::PolicyPromises;
using testing::Random;
using testing::SimulationLog;
using testing::Violations;

// As rash as a policy may be: newcomers before those that run, whether they fit or not, in any order, a few tokens of
// each; and it names anybody as the victim. The queue keeps its word all the same.
struct RashPolicy {
  std::uint64_t moods = 0;

  void plan(const QueueState& state, PlanWriter& out) const {
    Random random(moods + static_cast<std::uint64_t>(state.now.time_since_epoch().count()));
    const bool chunks = random.between(0, 1);
    const auto take_all = [&](std::span<const Candidate> line) {
      const std::size_t first = line.empty() ? 0 : random.next() % line.size();
      for (std::size_t i = 0; i < line.size(); ++i) {
        const Candidate& c = line[(first + i) % line.size()];
        out.take(c.seq, chunks ? random.between(1, c.pending) : c.pending);
      }
    };
    take_all(state.waiting);
    take_all(state.running);
  }
  SeqId victim(const QueueState& state) const {
    Random random(moods ^ state.running.size());
    return static_cast<SeqId>(random.between(0, static_cast<int>(state.running.back().seq) + 1));
  }
};
static_assert(ChoosesVictim<RashPolicy>);

inline Clock::duration draw_patience(Random& random) {
  using std::chrono::milliseconds;
  constexpr milliseconds kPatience[] = {milliseconds(0), milliseconds(5), milliseconds(50), milliseconds(1000),
                                        milliseconds(30000)};
  return kPatience[random.between(0, 4)];
}

inline ContinuousPolicy draw_continuous(Random& random, PolicyPromises& promises) {
  const ContinuousPolicy policy{
      .max_batch = testing::detail::log_between(random, 1, 64),
      .token_budget = random.between(0, 1) ? std::numeric_limits<int>::max() : random.between(1, 200),
      .order = random.between(0, 1) ? Order::arrival : Order::longest_first,
      .patience = draw_patience(random)};
  promises = {.max_batch = policy.max_batch,
              .token_budget = policy.token_budget,
              .continuous = true,
              .company = Clock::duration(0),
              .patience = policy.patience};
  return policy;
}

inline FairPolicy draw_fair(Random& random, PolicyPromises& promises) {
  const FairPolicy policy{.max_batch = testing::detail::log_between(random, 1, 64),
                          .guests = random.between(0, 1) ? 0 : random.between(1, 8),
                          .input_weight = static_cast<double>(random.between(1, 3)),
                          .output_weight = static_cast<double>(random.between(1, 4)),
                          .patience = draw_patience(random)};
  promises = {.max_batch = policy.max_batch + policy.guests,
              .continuous = policy.guests == 0,  // a guest's place stays free for another client
              .company = Clock::duration(0),
              .patience = policy.patience,
              .patience_by_adapter = true};
  return policy;
}

inline StaticPolicy draw_static(Random& random, PolicyPromises& promises) {
  const StaticPolicy policy{.n = testing::detail::log_between(random, 1, 32),
                            .max_wait = std::chrono::milliseconds(random.between(0, 50))};
  promises = {.max_batch = policy.n, .company = policy.max_wait, .patience = Clock::duration(0)};
  return policy;
}

// Simulates one seed; the policy is drawn from it, and named where something breaks.
inline Violations run(std::uint64_t seed, SimulationLog& log) {
  Random random(seed ^ 0x5eedU);
  PolicyPromises promises;
  const auto with = [&](const auto& policy, const std::string& name) {
    if (log.trace) *log.trace << "policy " << name << '\n';
    Violations broken = testing::simulate(policy, seed, promises, log);
    for (std::string& violation : broken) violation += "; policy " + name;
    return broken;
  };
  switch (random.between(0, 9)) {
    case 0:
      promises = {.max_batch = 1, .company = Clock::duration(0), .patience = Clock::duration(0)};
      return with(SequentialPolicy{}, "sequential");
    case 1:
      return with(draw_static(random, promises), "static");
    case 2:
    case 3:
      return with(draw_fair(random, promises), "fair");
    case 4:
      return with(RashPolicy{random.next()}, "rash");
    case 5:
      return with(AnyScheduler(RashPolicy{random.next()}), "any of rash");
    case 6:
      return with(AnyScheduler(draw_fair(random, promises)), "any of fair");
    default:
      return with(draw_continuous(random, promises), "continuous");
  }
}

}  // namespace tenon::swarm
