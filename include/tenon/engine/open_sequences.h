// The sequences of open requests: their place in the queue, what they have written, and how each of them ends.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/engine/active_requests.h"
#include "tenon/engine/assembled_step.h"
#include "tenon/engine/pick_outcome.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/engine/retired_adapters.h"
#include "tenon/schedule/sequence_queue.h"

namespace tenon {

/// Keeps the queue and the active requests in step: a sequence is in both, or in neither.
class OpenSequences {
 public:
  /// queue: not null. keeps_ended: for take_ended(). runs_asynchronously: whether the device does.
  OpenSequences(std::unique_ptr<SequenceQueue> queue, bool keeps_ended, bool runs_asynchronously)
      : queue_(std::move(queue)), keeps_ended_(keeps_ended), retired_(runs_asynchronously) {}

  SequenceQueue& queue() { return *queue_; }
  const SequenceQueue& queue() const { return *queue_; }
  ActiveRequests& active() { return active_; }
  const ActiveRequests& active() const { return active_; }
  RetiredAdapters& retired() { return retired_; }       ///< of sequences that have ended
  std::uint64_t tokens() const { return tokens_; }      ///< that were picked so far
  std::uint64_t accepted() const { return accepted_; }  ///< of these, tokens that had been guessed

  /// An ended text that belongs to a group (DraftState::group).
  struct EndedText {
    std::vector<TokenId> tokens;  ///< prompt and answer; choices after the first have the end of the prompt
    int prompt_tokens;
    std::string group, cache_salt;
  };
  /// The texts that ended since the last call.
  std::vector<EndedText> take_ended() { return std::exchange(ended_, {}); }

  /// Adds all sequences of a request, or none if it throws. They continue from PreparedRequest::begun().
  void open(RequestId id, const PreparedRequest& request, const Tokenizer* tokenizer, const std::vector<TokenId>& eos,
            LedgerRef ledger);

  /// As Engine::snapshot and progress. fingerprint: Engine::full_fingerprint().
  Snapshot snapshot(RequestId request, const std::string& fingerprint) const;
  AnswerProgress progress(RequestId request, const std::string& fingerprint) const;

  /// As Engine::cancel, hold and resume.
  bool cancel(RequestId request, FinishReason reason, LedgerRef ledger);
  bool hold(RequestId request, LedgerRef ledger);
  bool resume(RequestId request);

  /// Appends the picks of a round of a committed step, emits its events, and ends sequences at their last token. Where
  /// a pick is not the guessed token, the sequence's later rows are gone. outcomes: Picker::outcomes().
  void append_picks(AssembledStep& step, int round, std::span<PickOutcome> outcomes, const std::vector<TokenId>& eos,
                    LedgerRef ledger);

  /// Ends sequences that only score their prompt, and fails those whose scores are not finite.
  void end_scored(const AssembledStep& step, LedgerRef ledger);

  /// Fails all requests of a step whose picks are lost: its rows are in the cache, so that they cannot go on.
  void fail_step(const AssembledStep& step, const char* what, LedgerRef ledger);

 private:
  // has_placeholder: the queue holds kUnknownToken, which the token replaces. Returns true if the token was guessed and
  // the text goes on.
  bool append(SeqId seq, PickOutcome& outcome, bool has_placeholder, const std::vector<TokenId>& eos, LedgerRef ledger);

  void finish(SeqId seq, FinishReason reason, LedgerRef ledger, std::string text = {});

  void keep_ended(const Sequence& s, const GuessRecord& guesses);

  // One sequence that fails ends its request. Returns false.
  bool fail(SeqId seq, Error::Kind kind, std::string error, LedgerRef ledger);

  void remove(SeqId seq, LedgerRef ledger);

  // Calls `f` for each sequence of the request that has not ended. Returns whether any call returned true.
  bool for_each_sequence(RequestId request, const std::function<bool(SeqId)>& f);

  std::unique_ptr<SequenceQueue> queue_;
  bool keeps_ended_;
  ActiveRequests active_;
  RetiredAdapters retired_;
  std::uint64_t tokens_ = 0, accepted_ = 0;
  std::vector<EndedText> ended_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/open_sequences-inl.h"
#endif
