// One type for any scheduler, so that a program with a --scheduler option needs one engine, not one per policy.
#pragma once
#include <concepts>
#include <memory>
#include <span>
#include <utility>

#include "tenon/core/concepts.h"
#include "tenon/core/concepts/scheduler_hooks.h"

namespace tenon {

namespace detail {
// Checked before the whole concept: whether an owner of an AnyScheduler is copyable depends on the constructor below.
template <class P>
concept PlansSteps = requires(P& p, const QueueState& state, PlanWriter& out) {
  p.plan(state, out);
};
}  // namespace detail

/// Any scheduler, its type forgotten. Copies copy the policy.
class AnyScheduler {
 public:
  template <class P>
  requires(!std::same_as<P, AnyScheduler>) && detail::PlansSteps<P>&& SchedulerPolicy<P> AnyScheduler(P policy)
      : policy_(std::make_unique<Holder<P>>(std::move(policy))) {}

  AnyScheduler(const AnyScheduler& other) : policy_(other.policy_->copy()) {}
  AnyScheduler& operator=(const AnyScheduler& other) {
    if (this != &other) policy_ = other.policy_->copy();
    return *this;
  }
  AnyScheduler(AnyScheduler&&) noexcept = default;  ///< a moved-from one may only be assigned to or destroyed
  AnyScheduler& operator=(AnyScheduler&&) noexcept = default;

  void plan(const QueueState& state, PlanWriter& out) { policy_->plan(state, out); }
  SeqId victim(const QueueState& state) { return policy_->victim(state); }
  void served(std::span<const Served> step) { policy_->served(step); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual std::unique_ptr<Base> copy() const = 0;
    virtual void plan(const QueueState& state, PlanWriter& out) = 0;
    virtual SeqId victim(const QueueState& state) = 0;
    virtual void served(std::span<const Served> step) = 0;
  };

  template <class P>
  struct Holder final : Base {
    static_assert(sizeof(detail::CheckedHooks<P>) > 0);
    explicit Holder(P p) : policy(std::move(p)) {}
    std::unique_ptr<Base> copy() const override { return std::make_unique<Holder>(policy); }
    void plan(const QueueState& state, PlanWriter& out) override { policy.plan(state, out); }
    SeqId victim(const QueueState& state) override {
      if constexpr (ChoosesVictim<P>) {
        return policy.victim(state);
      } else {
        return state.running.back().seq;
      }
    }
    void served([[maybe_unused]] std::span<const Served> step) override {
      if constexpr (KeepsAccounts<P>) policy.served(step);
    }
    P policy;
  };

  std::unique_ptr<Base> policy_;
};
static_assert(ChoosesVictim<AnyScheduler> && KeepsAccounts<AnyScheduler>);

}  // namespace tenon
