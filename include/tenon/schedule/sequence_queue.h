// The mechanism of every scheduler: it owns the sequences, shows them to the policy, grants what fits, and preempts
// when the cache is full. One thread at a time uses it. It reads no clock, and knows nothing of tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/schedule/cache_room.h"
#include "tenon/schedule/sequence_table.h"

namespace tenon {

/// The queue of any policy and any cache. A step is: plan, run its slices, commit, append the picked tokens, finish
/// sequences at their last token. A plan that is not committed, for the step failed, is forgotten by the next one.
class SequenceQueue : public SequenceTable {
 public:
  virtual ~SequenceQueue() = default;

  /// Takes a sequence. Error invalid_request or capacity where it could never finish.
  SeqId add(NewSequence request, LedgerRef ledger);

  /// The sequences of the next step, and the number of tokens of each; their cache is reserved. Empty if the policy
  /// chose to wait. Valid until the next call.
  const Plan& plan(LedgerRef ledger, int token_budget, TimePoint now);

  /// CachePolicy::keeps_tokens.
  bool keeps_tokens() const { return room_.keeps_tokens; }

  /// The number of tokens of a running sequence that may be guessed.
  int most_guesses(const Sequence& s) const { return keeps_tokens() ? s.most_guesses(recompute_after_) : 0; }

  /// Adds guessed tokens to slice `index` of the last plan, which must end the known tokens. It takes the first of
  /// `tokens`, as many as the sequence may write before its last token and the cache has room for, and returns their
  /// number. Call it between plan and commit.
  int guess(std::size_t index, std::span<const TokenId> tokens, LedgerRef ledger);

  /// The step was computed: its tokens are in the cache. Skips sequences that were cancelled or held meanwhile. Guessed
  /// tokens count from append() on.
  void commit(const Plan& plan, LedgerRef ledger);

  /// Whether the slice ends at the sequence's last known token, so that a token is picked from its logits. Call it
  /// between plan and commit.
  bool ends_known_tokens(const Plan::Slice& slice) const;

  /// Appends a picked token; kUnknownToken where the host does not know it yet. learn() sets it before the next commit.
  /// True if this token was guessed: then its keys are in the cache, and a token is picked from the next row, too.
  /// Otherwise the sequence's other guesses are forgotten.
  bool append(SeqId seq, TokenId token);
  /// Takes the sequence's last row back instead of append(), as a guess may have spoilt it. It is computed again alone.
  void retry(SeqId seq);
  void learn(SeqId seq, TokenId token) { at(seq).tokens.back() = token; }

  /// Ends a sequence; its cache is free at once. Error internal if it is not here.
  void finish(SeqId seq, LedgerRef ledger);

  /// Ends a sequence in any state; false if it is not here (any more).
  bool cancel(SeqId seq, LedgerRef ledger);

  /// Gives the sequence's cache back and shows it to no policy until resume(). It keeps its place in line, and its
  /// cached prefix may still be found. False if it is not here, or held already.
  bool hold(SeqId seq, LedgerRef ledger);
  bool resume(SeqId seq);

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

 protected:
  /// keeps_tokens: CachePolicy::keeps_tokens. first: the first id, so that tests see ids wrap.
  SequenceQueue(bool keeps_tokens, SeqId first) : room_{.keeps_tokens = keeps_tokens}, next_seq_(first) {}
  SequenceQueue(SequenceQueue&&) noexcept = default;
  SequenceQueue& operator=(SequenceQueue&&) noexcept = default;

 private:
  // ---- the policy
  virtual void policy_plan(const QueueState& state, PlanWriter& out) = 0;
  // ChoosesVictim::victim; kNoSequence: the queue chooses.
  virtual SeqId policy_victim(const QueueState& state) = 0;
  virtual void policy_served(std::span<const Served> step) = 0;

  // Where a sequence stands, or would stand, in the waiting list. Ids are given in order of arrival and may wrap.
  std::vector<Candidate>::iterator place(SeqId seq);

  QueueState look(LedgerRef ledger, TimePoint now);

  void attempt(const QueueState& state, LedgerRef ledger, int token_budget);

  int grant(LedgerRef ledger, SeqId seq, int tokens, int budget);

  int need(LedgerRef ledger, SeqId seq) const;

  const Sequence* parent_of(const Sequence& s) const { return s.parent == kNoSequence ? nullptr : find(s.parent); }

  void await_parent(Sequence& s, SeqId parent);

  // The parent has read the prompt, or has ended.
  void release_children(Sequence& parent);

  void stand_in_line(Sequence& s);

  // Takes a sequence off the list that it is on.
  void withdraw(Sequence& s);

  void account(Sequence& s, int tokens);

  // Forgets guesses of a step that failed, the room of wrong ones, and positions before the windows of right ones.
  // Where nothing outlives a step, room reserved for a step that failed must not either.
  void begin_step(LedgerRef ledger);

  void forget_outgrown(LedgerRef ledger);

  // Takes back the cache of this attempt's newcomers; false: there were none.
  bool send_back_newcomers(LedgerRef ledger);

  // The sequence to preempt. Never the oldest, so that one sequence always finishes. None beyond the bound on
  // preemptions, unless the step would be empty. Null: none.
  const Sequence* victim(const QueueState& state);

  void preempt(SeqId seq, LedgerRef ledger);

  void admit_newcomers(TimePoint now);

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

#ifndef TENON_COMPILED
#include "tenon/schedule/sequence_queue-inl.h"
#endif
