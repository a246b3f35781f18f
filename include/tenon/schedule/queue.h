// The mechanism behind every scheduler: owns the sequences, shows them to the policy, grants what fits, preempts when
// the cache is full. One thread at a time; it reads no clock, and knows nothing of tensors.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"

namespace tenon {

// What the engine hands in.
struct NewSequence {
  RequestId request = 0;
  int choice = 0;
  std::vector<TokenId> tokens;  // the prompt
  int max_new_tokens = 16;
  TimePoint arrival{};
  int adapter = -1;
  int priority = 0;
};

struct Sequence {
  enum class State { waiting, running };

  SeqId seq = 0;
  RequestId request = 0;
  int choice = 0;
  std::vector<TokenId> tokens;  // prompt, then what was generated
  int prompt_tokens = 0;
  int cached = 0;    // tokens whose keys and values are in the cache
  int reserved = 0;  // tokens that the cache has room for, cached <= reserved
  int max_new_tokens = 0;
  TimePoint arrival{}, admitted{};  // admitted: the first time
  int adapter = -1;
  int priority = 0;
  int preemptions = 0;
  State state = State::waiting;
  std::uint64_t planned_in = 0;  // the attempt at a plan that granted it rows

  int known() const { return static_cast<int>(tokens.size()); }
  int pending() const { return known() - cached; }
  int generated() const { return known() - prompt_tokens; }
  int remaining() const { return max_new_tokens - generated(); }
};

struct QueueStats {
  std::uint64_t steps = 0;      // committed ones
  std::uint64_t sequences = 0;  // summed over steps: sequences / steps is the mean occupancy
  std::uint64_t rows = 0;       // summed over steps
  std::uint64_t preemptions = 0;
  std::uint64_t added = 0, ended = 0;
};

// A step: plan, run its slices, commit, append the tokens that were picked, finish whom they end. A plan that is not
// committed (the step failed) is forgotten by the next one.
template <SchedulerPolicy P>
class RequestQueue {
 public:
  // `keeps_tokens` as the cache policy says.
  explicit RequestQueue(P policy = {}, bool keeps_tokens = true)
      : policy_(std::move(policy)), keeps_tokens_(keeps_tokens) {}

  RequestQueue(RequestQueue&&) noexcept = default;
  RequestQueue& operator=(RequestQueue&&) noexcept = default;

  // Refuses what could never finish; whatever is accepted will.
  template <CacheLedger L>
  SeqId add(NewSequence request, const L& ledger) {
    if (request.tokens.empty()) throw Error(Error::Kind::invalid_request, "prompt", "must hold at least one token");
    if (request.max_new_tokens < 0) throw Error(Error::Kind::invalid_request, "max_new_tokens", "must be 0 or more");
    // The last new token is never fed back, so the cache never holds it.
    const std::size_t needed =
        request.tokens.size() + static_cast<std::size_t>(std::max(request.max_new_tokens, 1)) - 1;
    const int capacity = ledger.capacity_tokens();
    if (needed > static_cast<std::size_t>(std::max(capacity, 0))) {
      throw Error(Error::Kind::capacity, "prompt",
                  std::to_string(request.tokens.size()) + " tokens and max_new_tokens " +
                      std::to_string(request.max_new_tokens) + " need " + std::to_string(needed) +
                      " tokens of cache; a sequence can have " + std::to_string(capacity));
    }
    const SeqId seq = next_seq_++;
    Sequence& s = sequences_[seq];
    s.seq = seq;
    s.request = request.request;
    s.choice = request.choice;
    s.tokens = std::move(request.tokens);
    s.tokens.reserve(needed + 1);
    s.prompt_tokens = s.known();
    s.max_new_tokens = request.max_new_tokens;
    s.arrival = request.arrival;
    s.adapter = request.adapter;
    s.priority = request.priority;
    waiting_.push_back(candidate(s));
    ++stats_.added;
    return seq;
  }

  // Who runs in the next step, and how many tokens each; cache for them is reserved. Empty if the policy chose to wait.
  // Valid until the next call.
  template <CacheLedger L>
  const Plan& plan(L& ledger, int token_budget, TimePoint now) {
    forget_uncommitted(ledger);
    for (admitting_ = true;;) {
      const QueueState state = look(ledger, now);
      attempt(state, ledger, token_budget);
      if (starved_ < 0) break;
      // A running sequence found the cache full: take back what newcomers got, then whole sequences, last come first.
      // This ends, because the oldest fits alone.
      if (std::exchange(admitting_, false) && send_back_newcomers(ledger)) continue;
      if (running_.size() < 2) {
        throw Error(Error::Kind::internal, "cache",
                    "refuses " + std::to_string(starved_) + " more tokens to its only sequence, which holds " +
                        std::to_string(running_.front()->reserved) + " of " + std::to_string(ledger.capacity_tokens()));
      }
      preempt(victim(state), ledger);
    }
    admit_newcomers(now);
    return plan_;
  }

  // The step was computed: its tokens are in the cache. Who was cancelled meanwhile is skipped.
  template <CacheLedger L>
  void commit(const Plan& plan, L& ledger) {
    for (const Plan::Slice& slice : plan.slices) {
      Sequence* s = find(slice.seq);
      if (!s) continue;
      if (keeps_tokens_) {
        s->cached += slice.tokens;
      } else {
        give_back(*s, ledger);
      }
    }
    ++stats_.steps;
    stats_.sequences += plan.slices.size();
    stats_.rows += static_cast<std::uint64_t>(plan.rows);
  }

  // Whether the slice's last row is the sequence's last known token, so that its logits name the next one. Ask between
  // plan and commit.
  bool ends_known_tokens(const Plan::Slice& slice) const {
    const Sequence& s = sequence(slice.seq);
    return s.cached + slice.tokens == s.known();
  }

  void append(SeqId seq, TokenId token) { at(seq).tokens.push_back(token); }

  // The sequence has ended; its cache is free at once.
  template <CacheLedger L>
  void finish(SeqId seq, L& ledger) {
    if (!cancel(seq, ledger)) throw unknown(seq);
  }

  // Ends a sequence in any state; false if it is not here (any more).
  template <CacheLedger L>
  bool cancel(SeqId seq, L& ledger) {
    Sequence* s = find(seq);
    if (!s) return false;
    give_back(*s, ledger);
    if (s->state == Sequence::State::running) {
      std::erase(running_, s);
    } else {
      waiting_.erase(place(seq));
    }
    sequences_.erase(seq);
    ++stats_.ended;
    return true;
  }

  const Sequence& sequence(SeqId seq) const {
    const auto found = sequences_.find(seq);
    if (found == sequences_.end()) throw unknown(seq);
    return found->second;
  }
  bool contains(SeqId seq) const { return sequences_.contains(seq); }

  int waiting() const { return static_cast<int>(waiting_.size()); }
  int running() const { return static_cast<int>(running_.size()); }
  bool empty() const { return sequences_.empty(); }
  const QueueStats& stats() const { return stats_; }

  // Nothing else will arrive: policies that wait for company need not.
  void set_draining(bool draining) { draining_ = draining; }
  bool draining() const { return draining_; }

  P& policy() { return policy_; }
  const P& policy() const { return policy_; }

 private:
  static Error unknown(SeqId seq) {
    return Error(Error::Kind::internal, "queue", "has no sequence " + std::to_string(seq));
  }
  Sequence* find(SeqId seq) {
    const auto found = sequences_.find(seq);
    return found == sequences_.end() ? nullptr : &found->second;
  }
  Sequence& at(SeqId seq) {
    Sequence* s = find(seq);
    if (!s) throw unknown(seq);
    return *s;
  }

  static Candidate candidate(const Sequence& s) {
    return {s.seq, s.cached, s.pending(), s.remaining(), s.arrival, s.adapter, s.priority};
  }

  // Where a sequence stands, or would stand, in the waiting list. Ids are given in order of arrival and may wrap.
  auto place(SeqId seq) {
    return std::lower_bound(waiting_.begin(), waiting_.end(), seq,
                            [](const Candidate& c, SeqId id) { return static_cast<std::int32_t>(c.seq - id) < 0; });
  }

  template <CacheLedger L>
  QueueState look(const L& ledger, TimePoint now) {
    running_view_.clear();
    for (const Sequence* s : running_) running_view_.push_back(candidate(*s));
    return {running_view_, waiting_, ledger.free_tokens(), now, draining_};
  }

  template <CacheLedger L>
  void attempt(const QueueState& state, L& ledger, int token_budget) {
    struct Context {
      RequestQueue& queue;
      L& ledger;
      static int grant(void* self, SeqId seq, int tokens, int budget) {
        auto& context = *static_cast<Context*>(self);
        return context.queue.grant(context.ledger, seq, tokens, budget);
      }
    } context{*this, ledger};
    plan_.slices.clear();
    plan_.rows = 0;
    starved_ = -1;
    ++attempt_;
    PlanWriter out(plan_, token_budget, &context, &Context::grant);
    policy_.plan(state, out);
  }

  template <CacheLedger L>
  int grant(L& ledger, SeqId seq, int tokens, int budget) {
    Sequence* s = find(seq);
    if (!s || s->planned_in == attempt_) return 0;
    const bool runs = s->state == Sequence::State::running;
    if (!runs && !admitting_) return 0;
    const int wanted = keeps_tokens_ ? std::min({tokens, budget, s->pending()}) : s->pending();
    if (wanted <= 0) return 0;
    const int granted = std::min(wanted, reserve(ledger, *s, wanted));
    if (granted == 0) {
      if (runs) starved_ = std::max(starved_, wanted);
      return 0;
    }
    s->planned_in = attempt_;
    return granted;
  }

  // Has room for `wanted` tokens beyond the cached ones, or for as many as there is room; returns for how many.
  template <CacheLedger L>
  int reserve(L& ledger, Sequence& s, int wanted) {
    const int missing = wanted - (s.reserved - s.cached);
    if (missing > 0 && ledger.grow(s.seq, missing)) {
      s.reserved += missing;
    } else if (missing > 0 && keeps_tokens_) {
      // `grow` is all or nothing: halving finds all that fits without knowledge of blocks.
      for (int part = static_cast<int>(std::bit_floor(static_cast<unsigned>(missing))); part > 0; part /= 2) {
        if (ledger.grow(s.seq, part)) s.reserved += part;
      }
    } else if (missing > 0) {
      return 0;
    }
    return s.reserved - s.cached;
  }

  template <CacheLedger L>
  void give_back(Sequence& s, L& ledger) {
    if (s.reserved > 0) ledger.release(s.seq);
    s.cached = s.reserved = 0;
  }

  // Where nothing outlives a step, room reserved for a step that failed must not either.
  template <CacheLedger L>
  void forget_uncommitted(L& ledger) {
    if (keeps_tokens_) return;
    for (Sequence* s : running_) give_back(*s, ledger);
  }

  // Whether anybody had to go.
  template <CacheLedger L>
  bool send_back_newcomers(L& ledger) {
    bool any = false;
    for (const Plan::Slice& slice : plan_.slices) {
      Sequence& s = at(slice.seq);
      if (s.state != Sequence::State::waiting) continue;
      give_back(s, ledger);
      any = true;
    }
    return any;
  }

  // Never the oldest: it must get through, so that somebody does.
  SeqId victim(const QueueState& state) {
    if constexpr (ChoosesVictim<P>) {
      const SeqId chosen = policy_.victim(state);
      const Sequence* s = find(chosen);
      if (s && s->state == Sequence::State::running && s != running_.front()) return chosen;
    }
    return running_.back()->seq;
  }

  template <CacheLedger L>
  void preempt(SeqId seq, L& ledger) {
    Sequence& s = at(seq);
    give_back(s, ledger);
    s.state = Sequence::State::waiting;
    ++s.preemptions;
    ++stats_.preemptions;
    std::erase(running_, &s);
    waiting_.insert(place(seq), candidate(s));
  }

  void admit_newcomers(TimePoint now) {
    for (const Plan::Slice& slice : plan_.slices) {
      Sequence& s = at(slice.seq);
      if (s.state == Sequence::State::running) continue;
      waiting_.erase(place(s.seq));
      if (s.preemptions == 0) s.admitted = now;
      s.state = Sequence::State::running;
      running_.push_back(&s);
    }
  }

  P policy_;
  bool keeps_tokens_;
  bool draining_ = false;
  bool admitting_ = true;      // newcomers may join in this attempt
  int starved_ = -1;           // tokens that a running sequence asked for in vain, -1 if none did
  std::uint64_t attempt_ = 0;  // attempts at a plan so far
  SeqId next_seq_ = 0;
  std::unordered_map<SeqId, Sequence> sequences_;  // nodes stay where they are
  std::vector<Sequence*> running_;                 // in order of admission
  std::vector<Candidate> waiting_;                 // in order of arrival
  std::vector<Candidate> running_view_;
  Plan plan_;
  QueueStats stats_;
};

}  // namespace tenon
