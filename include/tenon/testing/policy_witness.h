// A record of what a scheduler policy is shown and told.
#pragma once
#include <span>

#include "tenon/core/concepts.h"

namespace tenon::testing::detail {

class PolicyWitness {
 public:
  virtual ~PolicyWitness() = default;
  virtual void shown(const QueueState& state) = 0;
  virtual void told(std::span<const Served> step) = 0;
};

// The policy, recorded. It chooses victims if the policy does, and always keeps accounts.
template <SchedulerPolicy P>
struct Witnessed {
  P policy;
  PolicyWitness* witness;

  void plan(const QueueState& state, PlanWriter& out) {
    witness->shown(state);
    policy.plan(state, out);
  }
  SeqId victim(const QueueState& state) requires ChoosesVictim<P> { return policy.victim(state); }
  void served(std::span<const Served> step) {
    witness->told(step);
    if constexpr (KeepsAccounts<P>) policy.served(step);
  }
};

}  // namespace tenon::testing::detail
