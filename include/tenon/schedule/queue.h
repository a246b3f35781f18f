// The mechanism of every scheduler: it owns the sequences, shows them to the policy, grants what fits, and preempts
// when the cache is full. One thread at a time uses it. It reads no clock, and knows nothing of tensors.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"
#include "tenon/schedule/cache_room.h"
#include "tenon/schedule/sequence_table.h"

namespace tenon {

/// A step is: plan, run its slices, commit, append the picked tokens, finish sequences at their last token. A plan that
/// is not committed, for the step failed, is forgotten by the next one.
template <SchedulerPolicy P>
class RequestQueue : public SequenceTable {
 public:
  /// keeps_tokens: CachePolicy::keeps_tokens. first: the first id, so that tests see ids wrap.
  explicit RequestQueue(P policy = {}, bool keeps_tokens = true, SeqId first = 0)
      : policy_(std::move(policy)), room_{.keeps_tokens = keeps_tokens}, next_seq_(first) {}

  RequestQueue(RequestQueue&&) noexcept = default;
  RequestQueue& operator=(RequestQueue&&) noexcept = default;

  /// Takes a sequence. Error invalid_request or capacity where it could never finish.
  template <CacheLedger L>
  SeqId add(NewSequence request, const L& ledger) {
    if (request.tokens.empty()) throw Error(Error::Kind::invalid_request, "prompt", "must hold at least one token");
    if (request.max_new_tokens < 0) throw Error(Error::Kind::invalid_request, "max_new_tokens", "must be 0 or more");
    check_cache_room(request.tokens.size(), request.max_new_tokens, ledger.capacity_tokens());
    const SeqId parent = request.parent;
    while (next_seq_ == kNoParent || contains(next_seq_)) ++next_seq_;  // ids wrap, after 2^32 of them
    const SeqId seq = next_seq_++;
    const auto added = sequences_.emplace(seq, make_sequence(seq, std::move(request))).first;
    added->second.outgrow(recompute_after_);
    try {
      if (forks_sequences(ledger)) await_parent(added->second, parent);
      if (!added->second.awaits_parent) waiting_.push_back(added->second.candidate());
    } catch (...) {
      sequences_.erase(added);
      throw;
    }
    ++stats_.added;
    return seq;
  }

  /// The sequences of the next step, and the number of tokens of each; their cache is reserved. Empty if the policy
  /// chose to wait. Valid until the next call.
  template <CacheLedger L>
  const Plan& plan(L& ledger, int token_budget, TimePoint now) {
    begin_step(ledger);
    forget_outgrown(ledger);
    for (admitting_ = true;;) {
      const QueueState state = look(ledger, now);
      attempt(state, ledger, token_budget);
      if (starved_ < 0) break;
      // A running sequence found the cache full: send newcomers back, then preempt, the victim first. This ends,
      // because the oldest fits alone.
      if (std::exchange(admitting_, false) && send_back_newcomers(ledger)) continue;
      if (std::any_of(running_.begin(), running_.end(), [](const Sequence* s) { return s->has_written_all(); }))
        break;  // room comes
      if (const Sequence* chosen = victim(state)) {
        preempt(chosen->seq, ledger);
      } else if (!plan_.slices.empty()) {
        break;  // it pauses: the others have room to their end, and give it back there
      } else {
        throw Error(Error::Kind::internal, "cache",
                    "refuses " + std::to_string(starved_) + " more tokens to its only sequence, which holds " +
                        std::to_string(running_.front()->reserved) + " of " + std::to_string(ledger.capacity_tokens()));
      }
    }
    admit_newcomers(now);
    return plan_;
  }

  /// The number of tokens of a running sequence that may be guessed.
  int most_guesses(const Sequence& s) const { return keeps_tokens() ? s.most_guesses(recompute_after_) : 0; }

  /// Adds guessed tokens to slice `index` of the last plan, which must end the known tokens. It takes the first of
  /// `tokens`, as many as the sequence may write before its last token and the cache has room for, and returns their
  /// number. Call it between plan and commit.
  template <CacheLedger L>
  int guess(std::size_t index, std::span<const TokenId> tokens, L& ledger) {
    Plan::Slice& slice = plan_.slices[index];
    Sequence& s = at(slice.seq);
    const int most = std::min(static_cast<int>(tokens.size()), most_guesses(s));
    if (most <= 0 || s.guessed > 0 || !ends_known_tokens(slice)) return 0;
    const int count = std::min(most, room_.reserve(ledger, s, slice.tokens + most) - slice.tokens);
    if (count <= 0) return 0;
    s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.begin() + count);
    s.guessed = count;
    slice.tokens += count;
    plan_.rows += count;
    return count;
  }

  /// The step was computed: its tokens are in the cache. Skips sequences that were cancelled or held meanwhile. Guessed
  /// tokens count from append() on.
  template <CacheLedger L>
  void commit(const Plan& plan, L& ledger) {
    served_.clear();
    for (const Plan::Slice& slice : plan.slices) {
      Sequence* s = find(slice.seq);
      if (!s || s->state != Sequence::State::running) continue;
      const int tokens = slice.tokens - s->guessed;
      account(*s, tokens);
      if (!keeps_tokens()) {
        room_.give_back(ledger, *s);
        continue;
      }
      s->cached += tokens;
      if (s->guessed == 0) s->unpublished = false;
      const int sure = s->cached - (s->guessed > 0 ? 1 : 0);  // retry() may take a row back
      room_.publish(ledger, *s, sure);
      room_.trim(ledger, *s, sure);
      if (s->pending() == 0) release_children(*s);
    }
    if constexpr (KeepsAccounts<P>) policy_.served(served_);
    ++stats_.steps;
    stats_.sequences += plan.slices.size();
    stats_.rows += static_cast<std::uint64_t>(plan.rows);
  }

  /// Whether the slice ends at the sequence's last known token, so that a token is picked from its logits. Call it
  /// between plan and commit.
  bool ends_known_tokens(const Plan::Slice& slice) const {
    const Sequence& s = sequence(slice.seq);
    return s.cached + slice.tokens - s.guessed == s.known();
  }

  /// Appends a picked token; kUnknownToken where the host does not know it yet. learn() sets it before the next commit.
  /// True if this token was guessed: then its keys are in the cache, and a token is picked from the next row, too.
  /// Otherwise the sequence's other guesses are forgotten.
  bool append(SeqId seq, TokenId token) {
    Sequence& s = at(seq);
    s.unpublished = s.unpublished || s.guessed > 0;
    if (s.guessed > 0 && s.tokens[static_cast<std::size_t>(s.known())] == token) {
      --s.guessed;
      ++s.cached;
      s.computed = std::max(s.computed, s.cached);
      if constexpr (KeepsAccounts<P>) {
        const Served more{.seq = seq, .adapter = s.adapter, .new_tokens = 1, .client = s.client};
        policy_.served(std::span(&more, 1));
      }
      return true;
    }
    if (s.guessed > 0) s.forget_guesses();
    s.tokens.push_back(token);
    s.outgrown = s.outgrow(recompute_after_) || s.outgrown;
    return false;
  }
  /// Takes the sequence's last row back instead of append(), as a guess may have spoilt it. It is computed again alone.
  void retry(SeqId seq) {
    Sequence& s = at(seq);
    s.forget_guesses();
    --s.cached;
  }
  void learn(SeqId seq, TokenId token) { at(seq).tokens.back() = token; }

  /// Ends a sequence; its cache is free at once. Error internal if it is not here.
  template <CacheLedger L>
  void finish(SeqId seq, L& ledger) {
    at(seq);
    cancel(seq, ledger);
  }

  /// Ends a sequence in any state; false if it is not here (any more).
  template <CacheLedger L>
  bool cancel(SeqId seq, L& ledger) {
    Sequence* s = find(seq);
    if (!s) return false;
    if (s->unpublished && !s->outgrown) room_.publish(ledger, *s, s->cached);
    room_.give_back(ledger, *s);
    withdraw(*s);
    release_children(*s);
    sequences_.erase(seq);
    ++stats_.ended;
    return true;
  }

  /// Gives the sequence's cache back and shows it to no policy until resume(). It keeps its place in line, and its
  /// cached prefix may still be found. False if it is not here, or held already.
  template <CacheLedger L>
  bool hold(SeqId seq, L& ledger) {
    Sequence* s = find(seq);
    if (!s || s->on_hold) return false;
    s->forget_guesses();
    room_.give_back(ledger, *s);
    withdraw(*s);
    s->on_hold = true;
    s->state = Sequence::State::held;
    return true;
  }
  bool resume(SeqId seq) {
    Sequence* s = find(seq);
    if (!s || !s->on_hold) return false;
    s->on_hold = false;
    if (!s->awaits_parent) stand_in_line(*s);
    return true;
  }

  int waiting() const { return static_cast<int>(waiting_.size()); }  ///< without held ones
  int running() const { return static_cast<int>(running_.size()); }
  const QueueStats& stats() const { return stats_; }

  /// true: no more sequences arrive, so that policies that wait for company stop waiting.
  void set_draining(bool draining) { draining_ = draining; }
  bool draining() const { return draining_; }

  /// Whether prompts may begin with cached prefixes of others. Their tokens are the same either way.
  void set_prefix_reuse(bool reuses) { room_.reuses_prefixes = reuses; }

  /// The number of positions that a row of the model sees, its own included; 0: all before it. KvShape::window.
  void set_window(int window) { room_.window = window; }

  /// A sequence whose prompt has at most `tokens` tokens loses its cache once it grows beyond them, and is read again
  /// as a prompt: its keys depend on its length (longrope). 0: none does.
  void set_recompute_after(int tokens) { recompute_after_ = tokens; }

  P& policy() { return policy_; }
  const P& policy() const { return policy_; }

 private:
  bool keeps_tokens() const { return room_.keeps_tokens; }

  // Where a sequence stands, or would stand, in the waiting list. Ids are given in order of arrival and may wrap.
  auto place(SeqId seq) {
    return std::lower_bound(waiting_.begin(), waiting_.end(), seq,
                            [](const Candidate& c, SeqId id) { return static_cast<std::int32_t>(c.seq - id) < 0; });
  }

  template <CacheLedger L>
  QueueState look(const L& ledger, TimePoint now) {
    running_view_.clear();
    for (const Sequence* s : running_)
      if (!s->has_written_all()) running_view_.push_back(s->candidate());
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
      static int need(void* self, SeqId seq) {
        auto& context = *static_cast<Context*>(self);
        return context.queue.need(std::as_const(context.ledger), seq);
      }
    } context{*this, ledger};
    plan_.slices.clear();
    plan_.rows = 0;
    starved_ = -1;
    ++attempt_;
    PlanWriter out(plan_, token_budget, {&context, &Context::grant, &Context::need});
    policy_.plan(state, out);
  }

  template <CacheLedger L>
  int grant(L& ledger, SeqId seq, int tokens, int budget) {
    Sequence* s = find(seq);
    if (!s || s->planned_in == attempt_ || s->has_written_all()) return 0;
    const bool runs = s->state == Sequence::State::running;
    if (!runs && (!admitting_ || s->state == Sequence::State::held)) return 0;
    if (!runs && !room_.move_in(ledger, *s, parent_of(*s))) return 0;
    const int wanted = keeps_tokens() ? std::min({tokens, budget, s->pending()}) : s->pending();
    if (wanted <= 0) return 0;
    const int granted = std::min(wanted, room_.reserve(ledger, *s, wanted));
    if (granted == 0) {
      if (runs)
        starved_ = std::max(starved_, wanted);
      else
        room_.give_back(ledger, *s);
      return 0;
    }
    s->planned_in = attempt_;
    return granted;
  }

  template <CacheLedger L>
  int need(const L& ledger, SeqId seq) const {
    const Sequence* s = find(seq);
    return s ? room_.need(ledger, *s, parent_of(*s)) : 0;
  }

  const Sequence* parent_of(const Sequence& s) const { return s.parent == kNoParent ? nullptr : find(s.parent); }

  void await_parent(Sequence& s, SeqId parent) {
    Sequence* of = parent == kNoParent ? nullptr : find(parent);
    if (!of || !keeps_tokens()) return;
    s.parent = parent;
    if (of->computed >= of->prompt_tokens) return;
    s.awaits_parent = true;
    s.state = Sequence::State::held;
    of->children.push_back(s.seq);
  }

  // The parent has read the prompt, or has ended.
  void release_children(Sequence& parent) {
    for (const SeqId seq : std::exchange(parent.children, {})) {
      Sequence* child = find(seq);
      if (!child) continue;
      child->awaits_parent = false;
      if (!child->on_hold) stand_in_line(*child);
    }
  }

  void stand_in_line(Sequence& s) {
    s.state = Sequence::State::waiting;
    waiting_.insert(place(s.seq), s.candidate());
  }

  // Takes a sequence off the list that it is on.
  void withdraw(Sequence& s) {
    if (s.state == Sequence::State::running) std::erase(running_, &s);
    if (s.state == Sequence::State::waiting) waiting_.erase(place(s.seq));
  }

  void account(Sequence& s, int tokens) {
    const int after = s.cached + tokens;
    if constexpr (KeepsAccounts<P>) {
      const int fresh = std::min(after, s.prompt_tokens) - std::min(std::max(s.computed, s.cached), s.prompt_tokens);
      served_.push_back(
          {s.seq, s.adapter, std::max(fresh, 0), after == s.known() && s.remaining() > 0 ? 1 : 0, s.client});
    }
    s.computed = std::max(s.computed, after);
  }

  // Forgets guesses of a step that failed, the room of wrong ones, and positions before the windows of right ones.
  // Where nothing outlives a step, room reserved for a step that failed must not either.
  template <CacheLedger L>
  void begin_step(L& ledger) {
    for (Sequence* s : running_) {
      s->forget_guesses();
      if (!keeps_tokens()) {
        room_.give_back(ledger, *s);
        continue;
      }
      room_.trim(ledger, *s, s->cached);
      room_.shrink(ledger, *s);
    }
  }

  template <CacheLedger L>
  void forget_outgrown(L& ledger) {
    if (recompute_after_ == 0) return;
    for (Sequence* s : running_)
      if (std::exchange(s->outgrown, false)) room_.give_back(ledger, *s);
  }

  // Takes back the cache of this attempt's newcomers; false: there were none.
  template <CacheLedger L>
  bool send_back_newcomers(L& ledger) {
    bool any = false;
    for (const Plan::Slice& slice : plan_.slices) {
      Sequence& s = at(slice.seq);
      if (s.state != Sequence::State::waiting) continue;
      room_.give_back(ledger, s);
      any = true;
    }
    return any;
  }

  // The sequence to preempt. Never the oldest, so that one sequence always finishes. None beyond the bound on
  // preemptions, unless the step would be empty. Null: none.
  const Sequence* victim(const QueueState& state) {
    if (running_.size() < 2) return nullptr;
    if constexpr (ChoosesVictim<P>) {
      const Sequence* s = find(policy_.victim(state));
      if (s && s->state == Sequence::State::running && s != running_.front() && s->preemptible()) return s;
    }
    const auto last =
        std::find_if(running_.rbegin(), running_.rend() - 1, [](const Sequence* s) { return s->preemptible(); });
    if (last != running_.rend() - 1) return *last;
    return plan_.slices.empty() ? running_.back() : nullptr;
  }

  template <CacheLedger L>
  void preempt(SeqId seq, L& ledger) {
    Sequence& s = at(seq);
    room_.give_back(ledger, s);
    ++s.preemptions;
    ++stats_.preemptions;
    std::erase(running_, &s);
    stand_in_line(s);
  }

  void admit_newcomers(TimePoint now) {
    for (const Plan::Slice& slice : plan_.slices) {
      Sequence& s = at(slice.seq);
      if (s.state == Sequence::State::running) continue;
      waiting_.erase(place(s.seq));
      if (!std::exchange(s.was_admitted, true)) {
        s.admitted = now;
        stats_.prefix_hit_tokens += static_cast<std::uint64_t>(s.reused);
      }
      s.state = Sequence::State::running;
      running_.push_back(&s);
    }
  }

  P policy_;
  CacheRoom room_;
  bool draining_ = false;
  int recompute_after_ = 0;    // tokens
  bool admitting_ = true;      // newcomers may join in this attempt
  int starved_ = -1;           // tokens that a running sequence asked for in vain, -1 if none did
  std::uint64_t attempt_ = 0;  // attempts at a plan so far
  SeqId next_seq_ = 0;
  std::vector<Sequence*> running_;  // in order of admission
  std::vector<Candidate> waiting_;  // in order of arrival
  std::vector<Candidate> running_view_;
  std::vector<Served> served_;
  Plan plan_;
  QueueStats stats_;
};

}  // namespace tenon
