// 2,000 seeds of the simulation, and that it can fail. scripts/simulate runs more of them, scripts/check-mutations
// shows that bugs in the library are found.
#include "tenon/testing/simulation.h"

#include <boost/test/unit_test.hpp>
#include <sstream>
#include <string>

#include "swarm.h"

BOOST_AUTO_TEST_SUITE(schedule_simulation)

using namespace tenon;
using testing::PolicyPromises;
using testing::simulate;
using testing::SimulationLog;
using testing::Violations;

namespace {

// Sanitizers are five to fifteen times slower; what they look for needs no rare seed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 400;
#else
constexpr std::uint64_t kSeeds = 2000;
#endif

// Whether some seed finds that invariant broken.
template <class P>
bool breaks(const P& policy, const std::string& invariant, const PolicyPromises& promises = {}) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    for (const std::string& violation : simulate(policy, seed, promises)) {
      if (violation.find(invariant) != std::string::npos) return true;
    }
  }
  return false;
}

struct Lazy {  // rests in every other millisecond
  void plan(const QueueState& state, PlanWriter& out) const {
    if (state.now.time_since_epoch() / std::chrono::milliseconds(1) % 2) ContinuousPolicy{}.plan(state, out);
  }
};
struct Snob {  // never admits long texts
  void plan(const QueueState& state, PlanWriter& out) const {
    for (const Candidate& c : state.running) out.take(c.seq, c.pending);
    for (const Candidate& c : state.waiting) {
      if (c.pending < 10) out.take(c.seq, c.pending);
    }
  }
};
struct LastComeFirstServed {
  void plan(const QueueState& state, PlanWriter& out) const {
    for (const Candidate& c : state.running) out.take(c.seq, c.pending);
    if (!state.waiting.empty()) out.take(state.waiting.back().seq, state.waiting.back().pending);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(no_seed_breaks_an_invariant) {
  SimulationLog log;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const std::string& violation : swarm::run(seed, log))
      BOOST_ERROR(violation + "; replay: scripts/simulate --seed " + std::to_string(seed));
  }
  // A simulation that does not meet what is hard proves nothing.
  const auto& c = log.counts;
  BOOST_TEST(c.requests > 50 * kSeeds);
  BOOST_TEST(c.finished > 50 * kSeeds);
  BOOST_TEST(c.preemptions > 5 * kSeeds);
  BOOST_TEST(c.prefix_hits > 50 * kSeeds);
  BOOST_TEST(c.copies > kSeeds);
  BOOST_TEST(c.failed_steps > 5 * kSeeds);
  BOOST_TEST(c.cancelled > 5 * kSeeds);
  BOOST_TEST(c.holds > 5 * kSeeds);
  BOOST_TEST(c.refusals > 5 * kSeeds);
  BOOST_TEST(c.refused > kSeeds / 10);
  BOOST_TEST(c.passed_blocks > 50 * kSeeds);
  BOOST_TEST(c.unpreemptible > kSeeds / 2);
  BOOST_TEST(c.right_guesses > 20 * kSeeds);
  BOOST_TEST(c.guesses > c.right_guesses + 20 * kSeeds);
  BOOST_TEST_MESSAGE(c.requests << " requests, " << c.steps << " steps, " << c.preemptions << " preemptions");
}

BOOST_AUTO_TEST_CASE(a_seed_is_all_there_is_to_it) {
  for (const std::uint64_t seed : {3U, 4U, 5U}) {
    std::ostringstream traces[2];
    for (auto& trace : traces) {
      SimulationLog log{.trace = &trace, .counts = {}};
      BOOST_TEST(swarm::run(seed, log).empty());
    }
    BOOST_TEST(traces[0].str() == traces[1].str());
    BOOST_TEST(traces[0].str().find("seed " + std::to_string(seed) + ": blocks ") != std::string::npos);
    BOOST_TEST(traces[0].str().find("finishes") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(your_own_policy_is_held_to_the_invariants) {
  using YourPolicy = SequentialPolicy;
  // [own_policy]
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    for (const auto& violation : tenon::testing::simulate(YourPolicy{}, seed, {.max_batch = 8})) BOOST_ERROR(violation);
  }
  // [/own_policy]
  BOOST_TEST(breaks(Lazy{}, "I9: no step is empty while somebody runs"));
  BOOST_TEST(breaks(Snob{}, "I9: no step is empty while somebody waits and nobody else comes"));
}

BOOST_AUTO_TEST_CASE(your_own_policy_is_held_to_its_promises) {
  using std::chrono::milliseconds;
  BOOST_TEST(!breaks(LastComeFirstServed{}, "I"));
  BOOST_TEST(
      breaks(LastComeFirstServed{}, "I8: nobody overtakes who has waited long enough", {.patience = milliseconds(20)}));
  BOOST_TEST(breaks(LastComeFirstServed{}, "I9: nobody waits while there is a place, budget and room",
                    {.max_batch = 9, .continuous = true}));
  BOOST_TEST(breaks(ContinuousPolicy{.max_batch = 9}, "I3: as many run at once as may", {.max_batch = 8}));
  BOOST_TEST(breaks(ContinuousPolicy{}, "I3: a step has rows within its budget", {.token_budget = 5}));
  BOOST_TEST(breaks(StaticPolicy{}, "I9: no step is empty while somebody waits, but for company",
                    {.company = milliseconds(0)}));
}

BOOST_AUTO_TEST_CASE(a_violation_names_its_seed_and_its_draws) {
  const Violations broken = simulate(Lazy{}, 7);
  BOOST_TEST_REQUIRE(broken.size() == 1U);
  BOOST_TEST(broken[0].rfind("seed 7: I9", 0) == 0U);
  BOOST_TEST(broken[0].find(", step ") != std::string::npos);
  BOOST_TEST(broken[0].find("; blocks ") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
