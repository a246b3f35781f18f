/// The real RequestQueue of any policy as one type, and a record of what the policy is shown and told.
#pragma once
#include <cstddef>
#include <span>
#include <utility>

#include "tenon/schedule/queue.h"
#include "tenon/testing/simulated_ledger.h"

namespace tenon::testing::detail {

class PolicyWitness {
 public:
  virtual ~PolicyWitness() = default;
  virtual void shown(const QueueState& state) = 0;
  virtual void told(std::span<const Served> step) = 0;
};

// The policy, recorded. It has the same refinements as the policy.
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

class SimulatedQueue {
 public:
  virtual ~SimulatedQueue() = default;
  virtual SeqId add(NewSequence request, SimulatedLedger& ledger) = 0;
  virtual const Plan& plan(SimulatedLedger& ledger, int token_budget, TimePoint now) = 0;
  virtual void commit(const Plan& plan, SimulatedLedger& ledger) = 0;
  virtual bool ends_known_tokens(const Plan::Slice& slice) const = 0;
  virtual int guess(std::size_t index, std::span<const TokenId> tokens, SimulatedLedger& ledger) = 0;
  virtual bool append(SeqId seq, TokenId token) = 0;
  virtual void retry(SeqId seq) = 0;
  virtual void finish(SeqId seq, SimulatedLedger& ledger) = 0;
  virtual bool cancel(SeqId seq, SimulatedLedger& ledger) = 0;
  virtual bool hold(SeqId seq, SimulatedLedger& ledger) = 0;
  virtual bool resume(SeqId seq) = 0;
  virtual const Sequence& sequence(SeqId seq) const = 0;
  virtual bool contains(SeqId seq) const = 0;
  virtual int waiting() const = 0;
  virtual int running() const = 0;
  virtual bool empty() const = 0;
  virtual const QueueStats& stats() const = 0;
  virtual void set_draining(bool draining) = 0;
  virtual void set_prefix_reuse(bool reuses) = 0;
  virtual void set_window(int window) = 0;
};

template <SchedulerPolicy P>
class QueueOf final : public SimulatedQueue {
 public:
  QueueOf(const P& policy, PolicyWitness& witness, bool keeps_tokens) : queue_({policy, &witness}, keeps_tokens) {}

  SeqId add(NewSequence request, SimulatedLedger& ledger) override {
    return as_it_is(ledger, [&](auto& l) { return queue_.add(std::move(request), l); });
  }
  const Plan& plan(SimulatedLedger& ledger, int token_budget, TimePoint now) override {
    return *as_it_is(ledger, [&](auto& l) { return &queue_.plan(l, token_budget, now); });
  }
  void commit(const Plan& plan, SimulatedLedger& ledger) override {
    as_it_is(ledger, [&](auto& l) { queue_.commit(plan, l); });
  }
  bool ends_known_tokens(const Plan::Slice& slice) const override { return queue_.ends_known_tokens(slice); }
  int guess(std::size_t index, std::span<const TokenId> tokens, SimulatedLedger& ledger) override {
    return as_it_is(ledger, [&](auto& l) { return queue_.guess(index, tokens, l); });
  }
  bool append(SeqId seq, TokenId token) override { return queue_.append(seq, token); }
  void retry(SeqId seq) override { queue_.retry(seq); }
  void finish(SeqId seq, SimulatedLedger& ledger) override {
    as_it_is(ledger, [&](auto& l) { queue_.finish(seq, l); });
  }
  bool cancel(SeqId seq, SimulatedLedger& ledger) override {
    return as_it_is(ledger, [&](auto& l) { return queue_.cancel(seq, l); });
  }
  bool hold(SeqId seq, SimulatedLedger& ledger) override {
    return as_it_is(ledger, [&](auto& l) { return queue_.hold(seq, l); });
  }
  bool resume(SeqId seq) override { return queue_.resume(seq); }
  const Sequence& sequence(SeqId seq) const override { return queue_.sequence(seq); }
  bool contains(SeqId seq) const override { return queue_.contains(seq); }
  int waiting() const override { return queue_.waiting(); }
  int running() const override { return queue_.running(); }
  bool empty() const override { return queue_.empty(); }
  const QueueStats& stats() const override { return queue_.stats(); }
  void set_draining(bool draining) override { queue_.set_draining(draining); }
  void set_prefix_reuse(bool reuses) override { queue_.set_prefix_reuse(reuses); }
  void set_window(int window) override { queue_.set_window(window); }

 private:
  // Calls f with the ledger's own refinements alone.
  template <class F>
  static auto as_it_is(SimulatedLedger& ledger, F&& f) {
    SimulatedLedger::Trimming trimming{ledger};
    return ledger.trims() ? f(trimming) : f(ledger);
  }

  RequestQueue<Witnessed<P>> queue_;
};

}  // namespace tenon::testing::detail
