// The scheduler's side of a step: what a policy sees, and the only way in which it can act.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/core/views.h"

namespace tenon {

// A sequence as a policy sees it. Prefill, a chunk of one, decode and resumption differ in `pending` only.
struct Candidate {
  SeqId seq = 0;
  int cached = 0;        // tokens whose keys and values are in the cache
  int pending = 0;       // tokens known but not cached yet: 1 while decoding
  int remaining = 0;     // at most so many new tokens are still to come
  TimePoint arrival{};
  int adapter = -1;      // slot of its adapter, -1 for none
  int priority = 0;      // larger is more urgent
};

struct QueueState {
  std::span<const Candidate> running;  // in order of admission
  std::span<const Candidate> waiting;  // in order of arrival
  int free_cache_tokens = 0;
  TimePoint now{};
  bool draining = false;               // nothing else will arrive: waiting for company is vain
};

struct Plan {
  struct Slice {
    SeqId seq;
    int tokens;  // the next so many of the sequence's pending tokens
  };
  std::vector<Slice> slices;
  int rows = 0;  // sum of tokens
};

// The only way to schedule. Grants what fits: the token budget of the step, what the sequence has pending, and the room
// in the cache, which is reserved at once.
class PlanWriter {
 public:
  // Reserves cache for at most min(tokens, budget) more tokens of `seq` and says for how many: 0 if it already runs in
  // this step. Where the cache keeps nothing (NoCache) that is the whole sequence or nothing, the budget notwithstanding.
  using Grant = int (*)(void* queue, SeqId seq, int tokens, int budget);

  PlanWriter(Plan& plan, int token_budget, void* queue, Grant grant)
      : plan_(plan), budget_(token_budget), queue_(queue), grant_(grant) {}

  int budget_left() const { return budget_; }

  // Runs the next `tokens` pending tokens of `seq` in this step; returns how many were granted.
  int take(SeqId seq, int tokens) {
    if (tokens <= 0 || budget_ <= 0) return 0;
    const int granted = grant_(queue_, seq, tokens, budget_);
    if (granted <= 0) return 0;
    plan_.slices.push_back({seq, granted});
    plan_.rows += granted;
    budget_ = std::max(0, budget_ - granted);
    return granted;
  }

 private:
  Plan& plan_;
  int budget_;
  void* queue_;
  Grant grant_;
};

}  // namespace tenon
