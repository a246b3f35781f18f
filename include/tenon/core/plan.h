/// The scheduler's side of a step: what a policy sees, and the only way in which it can act.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/core/views.h"

namespace tenon {

/// A sequence as a policy sees it. Prefill, chunked prefill, decode and resumption differ in `pending` only.
struct Candidate {
  SeqId seq = 0;
  int cached = 0;     ///< tokens whose keys and values are in the cache
  int pending = 0;    ///< tokens known but not cached yet: 1 while decoding
  int remaining = 0;  ///< most new tokens that are still to come
  TimePoint arrival{};
  int adapter = -1;                       ///< number of its adapter, -1 for none
  int priority = 0;                       ///< larger is more urgent
  int client = 0;                         ///< account that a fair policy charges
  int ordinal = 0;                        ///< Options::ordinal plus the number of the choice
  RequestId request = 0;                  ///< number that Engine::submit returned; choices of one request share it
  std::uint64_t tag = 0;                  ///< Options::tag
  TimePoint deadline = TimePoint::max();  ///< Options::deadline; max(): none
};

/// The state that a policy decides from. Valid during the call.
struct QueueState {
  std::span<const Candidate> running;  ///< in order of admission
  std::span<const Candidate> waiting;  ///< in order of arrival
  int free_cache_tokens = 0;
  TimePoint now{};
  bool draining = false;  ///< no other request will arrive: waiting for a fuller batch is useless
};

/// The work of a step.
struct Plan {
  struct Slice {
    SeqId seq;
    int tokens;  ///< the number of pending tokens to run, from the next one on
  };
  std::vector<Slice> slices;
  int rows = 0;  ///< sum of tokens
};

/// The work of a step for one sequence, for policies that keep accounts. Work repeated after a preemption is charged to
/// no client, and is not in it.
struct Served {
  SeqId seq = 0;
  int adapter = -1;
  int prompt_tokens = 0;  ///< prompt tokens computed for the first time; those found in the cache cost nothing
  int new_tokens = 0;     ///< 1 if the step ended with logits for a new token
  int client = 0;
};

/// The only way to schedule. It grants what fits the token budget of the step, the sequence's pending tokens, and the
/// room in the cache, which is reserved at once.
class PlanWriter {
 public:
  /// The queue that grants. Both functions are given `self`.
  struct Host {
    void* self;
    /// Reserves cache for at most min(tokens, budget) more tokens of `seq` and returns their number: 0 if it already
    /// runs in this step. If the cache keeps nothing (NoCache), the whole sequence or nothing, whatever the budget.
    int (*grant)(void* self, SeqId seq, int tokens, int budget);
    /// Free cache tokens that running all pending tokens of `seq` would use.
    int (*need)(void* self, SeqId seq);
  };

  PlanWriter(Plan& plan, int token_budget, const Host& host) : plan_(plan), budget_(token_budget), host_(host) {}

  /// Rows that the step may still take.
  int budget_left() const { return budget_; }

  /// Tokens of QueueState::free_cache_tokens that `seq` would use if it ran whole. Less than its pending tokens if the
  /// cache holds a prefix of it. More after kMaxPreemptions (4) preemptions: then it returns only with room to its end.
  /// If the cache trims, at most what a window holds at once.
  int need(SeqId seq) const { return host_.need(host_.self, seq); }

  /// Runs the next `tokens` pending tokens of `seq` in this step; returns the number granted. Tokens that a waiting
  /// sequence finds in the cache are no longer pending, and use no budget.
  int take(SeqId seq, int tokens) {
    if (tokens <= 0 || budget_ <= 0) return 0;
    const int granted = host_.grant(host_.self, seq, tokens, budget_);
    if (granted <= 0) return 0;
    plan_.slices.push_back({seq, granted});
    plan_.rows += granted;
    budget_ = std::max(0, budget_ - granted);
    return granted;
  }

 private:
  Plan& plan_;
  int budget_;
  Host host_;
};

}  // namespace tenon
