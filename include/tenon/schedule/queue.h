// The queue of a scheduler policy.
#pragma once
#include <span>
#include <utility>

#include "tenon/core/concepts.h"
#include "tenon/schedule/sequence_queue.h"

namespace tenon {

/// A SequenceQueue whose steps the policy plans.
template <SchedulerPolicy P>
class RequestQueue final : public SequenceQueue {
 public:
  /// keeps_tokens: CachePolicy::keeps_tokens. first: the first id, so that tests see ids wrap.
  explicit RequestQueue(P policy = {}, bool keeps_tokens = true, SeqId first = 0)
      : SequenceQueue(keeps_tokens, first), policy_(std::move(policy)) {}

  P& policy() { return policy_; }
  const P& policy() const { return policy_; }

 private:
  void policy_plan(const QueueState& state, PlanWriter& out) override { policy_.plan(state, out); }
  SeqId policy_victim([[maybe_unused]] const QueueState& state) override {
    if constexpr (ChoosesVictim<P>) return policy_.victim(state);
    return kNoSequence;
  }
  void policy_served([[maybe_unused]] std::span<const Served> step) override {
    if constexpr (KeepsAccounts<P>) policy_.served(step);
  }

  P policy_;
};

}  // namespace tenon
