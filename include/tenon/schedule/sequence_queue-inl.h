#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/schedule/sequence_queue.h"

namespace tenon {

TENON_INLINE SeqId SequenceQueue::add(NewSequence request, LedgerRef ledger) {
  if (request.tokens.empty()) throw Error(Error::Kind::invalid_request, "prompt", "must hold at least one token");
  if (request.max_new_tokens < 0) throw Error(Error::Kind::invalid_request, "max_new_tokens", "must be 0 or more");
  check_cache_room(request.tokens.size(), request.max_new_tokens, ledger.capacity_tokens());
  const SeqId parent = request.parent;
  while (next_seq_ == kNoSequence || contains(next_seq_)) ++next_seq_;  // ids wrap, after 2^32 of them
  const SeqId seq = next_seq_++;
  const auto added = sequences_.emplace(seq, make_sequence(seq, std::move(request))).first;
  added->second.outgrow(recompute_after_);
  try {
    if (ledger.forks()) await_parent(added->second, parent);
    if (!added->second.awaits_parent) waiting_.push_back(added->second.candidate());
  } catch (...) {
    sequences_.erase(added);
    throw;
  }
  ++stats_.added;
  return seq;
}

TENON_INLINE const Plan& SequenceQueue::plan(LedgerRef ledger, int token_budget, TimePoint now) {
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

TENON_INLINE int SequenceQueue::guess(std::size_t index, std::span<const TokenId> tokens, LedgerRef ledger) {
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

TENON_INLINE void SequenceQueue::commit(const Plan& plan, LedgerRef ledger) {
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
  policy_served(served_);
  ++stats_.steps;
  stats_.sequences += plan.slices.size();
  stats_.rows += static_cast<std::uint64_t>(plan.rows);
}

TENON_INLINE bool SequenceQueue::ends_known_tokens(const Plan::Slice& slice) const {
  const Sequence& s = sequence(slice.seq);
  return s.cached + slice.tokens - s.guessed == s.known();
}

TENON_INLINE bool SequenceQueue::append(SeqId seq, TokenId token) {
  Sequence& s = at(seq);
  s.unpublished = s.unpublished || s.guessed > 0;
  if (s.guessed > 0 && s.tokens[static_cast<std::size_t>(s.known())] == token) {
    --s.guessed;
    ++s.cached;
    s.computed = std::max(s.computed, s.cached);
    const Served more{.seq = seq, .adapter = s.adapter, .new_tokens = 1, .client = s.client};
    policy_served(std::span(&more, 1));
    return true;
  }
  if (s.guessed > 0) s.forget_guesses();
  s.tokens.push_back(token);
  s.outgrown = s.outgrow(recompute_after_) || s.outgrown;
  return false;
}

TENON_INLINE void SequenceQueue::retry(SeqId seq) {
  Sequence& s = at(seq);
  s.forget_guesses();
  --s.cached;
}

TENON_INLINE void SequenceQueue::finish(SeqId seq, LedgerRef ledger) {
  at(seq);
  cancel(seq, ledger);
}

TENON_INLINE bool SequenceQueue::cancel(SeqId seq, LedgerRef ledger) {
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

TENON_INLINE bool SequenceQueue::hold(SeqId seq, LedgerRef ledger) {
  Sequence* s = find(seq);
  if (!s || s->on_hold) return false;
  s->forget_guesses();
  room_.give_back(ledger, *s);
  withdraw(*s);
  s->on_hold = true;
  s->state = Sequence::State::held;
  return true;
}

TENON_INLINE bool SequenceQueue::resume(SeqId seq) {
  Sequence* s = find(seq);
  if (!s || !s->on_hold) return false;
  s->on_hold = false;
  if (!s->awaits_parent) stand_in_line(*s);
  return true;
}

TENON_INLINE std::vector<Candidate>::iterator SequenceQueue::place(SeqId seq) {
  return std::lower_bound(waiting_.begin(), waiting_.end(), seq,
                          [](const Candidate& c, SeqId id) { return static_cast<std::int32_t>(c.seq - id) < 0; });
}

TENON_INLINE QueueState SequenceQueue::look(LedgerRef ledger, TimePoint now) {
  running_view_.clear();
  for (const Sequence* s : running_)
    if (!s->has_written_all()) running_view_.push_back(s->candidate());
  return {running_view_, waiting_, ledger.free_tokens(), now, draining_};
}

TENON_INLINE void SequenceQueue::attempt(const QueueState& state, LedgerRef ledger, int token_budget) {
  struct Context {
    SequenceQueue& queue;
    LedgerRef ledger;
    static int grant(void* self, SeqId seq, int tokens, int budget) {
      auto& context = *static_cast<Context*>(self);
      return context.queue.grant(context.ledger, seq, tokens, budget);
    }
    static int need(void* self, SeqId seq) {
      auto& context = *static_cast<Context*>(self);
      return context.queue.need(context.ledger, seq);
    }
  } context{*this, ledger};
  plan_.slices.clear();
  plan_.rows = 0;
  starved_ = -1;
  ++attempt_;
  PlanWriter out(plan_, token_budget, {&context, &Context::grant, &Context::need});
  policy_plan(state, out);
}

TENON_INLINE int SequenceQueue::grant(LedgerRef ledger, SeqId seq, int tokens, int budget) {
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

TENON_INLINE int SequenceQueue::need(LedgerRef ledger, SeqId seq) const {
  const Sequence* s = find(seq);
  return s ? room_.need(ledger, *s, parent_of(*s)) : 0;
}

TENON_INLINE void SequenceQueue::await_parent(Sequence& s, SeqId parent) {
  Sequence* of = parent == kNoSequence ? nullptr : find(parent);
  if (!of || !keeps_tokens()) return;
  s.parent = parent;
  if (of->computed >= of->prompt_tokens) return;
  s.awaits_parent = true;
  s.state = Sequence::State::held;
  of->children.push_back(s.seq);
}

TENON_INLINE void SequenceQueue::release_children(Sequence& parent) {
  for (const SeqId seq : std::exchange(parent.children, {})) {
    Sequence* child = find(seq);
    if (!child) continue;
    child->awaits_parent = false;
    if (!child->on_hold) stand_in_line(*child);
  }
}

TENON_INLINE void SequenceQueue::stand_in_line(Sequence& s) {
  s.state = Sequence::State::waiting;
  waiting_.insert(place(s.seq), s.candidate());
}

TENON_INLINE void SequenceQueue::withdraw(Sequence& s) {
  if (s.state == Sequence::State::running) std::erase(running_, &s);
  if (s.state == Sequence::State::waiting) waiting_.erase(place(s.seq));
}

TENON_INLINE void SequenceQueue::account(Sequence& s, int tokens) {
  const int after = s.cached + tokens;
  const int fresh = std::min(after, s.prompt_tokens) - std::min(std::max(s.computed, s.cached), s.prompt_tokens);
  served_.push_back({s.seq, s.adapter, std::max(fresh, 0), after == s.known() && s.remaining() > 0 ? 1 : 0, s.client});
  s.computed = std::max(s.computed, after);
}

TENON_INLINE void SequenceQueue::begin_step(LedgerRef ledger) {
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

TENON_INLINE void SequenceQueue::forget_outgrown(LedgerRef ledger) {
  if (recompute_after_ == 0) return;
  for (Sequence* s : running_)
    if (std::exchange(s->outgrown, false)) room_.give_back(ledger, *s);
}

TENON_INLINE bool SequenceQueue::send_back_newcomers(LedgerRef ledger) {
  bool any = false;
  for (const Plan::Slice& slice : plan_.slices) {
    Sequence& s = at(slice.seq);
    if (s.state != Sequence::State::waiting) continue;
    room_.give_back(ledger, s);
    any = true;
  }
  return any;
}

TENON_INLINE const Sequence* SequenceQueue::victim(const QueueState& state) {
  if (running_.size() < 2) return nullptr;
  const Sequence* s = find(policy_victim(state));
  if (s && s->state == Sequence::State::running && s != running_.front() && s->preemptible()) return s;
  const auto last =
      std::find_if(running_.rbegin(), running_.rend() - 1, [](const Sequence* each) { return each->preemptible(); });
  if (last != running_.rend() - 1) return *last;
  return plan_.slices.empty() ? running_.back() : nullptr;
}

TENON_INLINE void SequenceQueue::preempt(SeqId seq, LedgerRef ledger) {
  Sequence& s = at(seq);
  room_.give_back(ledger, s);
  ++s.preemptions;
  ++stats_.preemptions;
  std::erase(running_, &s);
  stand_in_line(s);
}

TENON_INLINE void SequenceQueue::admit_newcomers(TimePoint now) {
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

}  // namespace tenon
