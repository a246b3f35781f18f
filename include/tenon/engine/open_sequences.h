// The sequences of open requests: their place in the queue, what they have written, and how each of them ends.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/engine/active_requests.h"
#include "tenon/engine/picker.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/engine/retired_adapters.h"
#include "tenon/schedule/queue.h"

namespace tenon {

/// Keeps the queue and the active requests in step: a sequence is in both, or in neither.
template <SchedulerPolicy P, class DeviceP>
class OpenSequences {
 public:
  /// keeps_ended: for take_ended().
  OpenSequences(P scheduler, bool keeps_tokens, bool keeps_ended)
      : queue_(std::move(scheduler), keeps_tokens), keeps_tokens_(keeps_tokens), keeps_ended_(keeps_ended) {}

  RequestQueue<P>& queue() { return queue_; }
  const RequestQueue<P>& queue() const { return queue_; }
  ActiveRequests& active() { return active_; }
  const ActiveRequests& active() const { return active_; }
  RetiredAdapters<DeviceP>& retired() { return retired_; }  ///< of sequences that have ended
  std::uint64_t tokens() const { return tokens_; }          ///< that were picked so far
  std::uint64_t accepted() const { return accepted_; }      ///< of these, tokens that had been guessed

  /// A text of a group (DraftState::group) that has ended.
  struct EndedText {
    std::vector<TokenId> tokens;  ///< the prompt and the answer; of choices but the first, the end of the prompt
    int prompt_tokens;
    std::string group, cache_salt;
  };
  /// The texts that ended since the last call.
  std::vector<EndedText> take_ended() { return std::exchange(ended_, {}); }

  /// Takes all sequences of a request, or none where it throws. They go on after PreparedRequest::begun.
  template <CacheLedger L>
  void open(RequestId id, const PreparedRequest& request, const Tokenizer* tokenizer, const std::vector<TokenId>& eos,
            L& ledger) {
    std::vector<SeqId> choices;
    choices.reserve(static_cast<std::size_t>(request.sequences()));
    try {
      for (int choice = 0; choice < request.sequences(); ++choice) {
        const SeqId parent = choice == 0 ? kNoParent : choices.front();
        choices.push_back(queue_.add(request.sequence(id, choice, parent), ledger));
      }
      active_.open(id, request, choices, tokenizer);
      for (std::size_t i = 0; request.begun() && i < choices.size(); ++i) {
        const auto ended = active_.take_up(choices[i], request, eos);
        if (!ended) continue;
        active_.finish_again(choices[i], *ended, request);
        remove(choices[i], ledger);
      }
    } catch (...) {
      for (const SeqId seq : choices) queue_.cancel(seq, ledger);
      active_.forget(id, choices);
      throw;
    }
  }

  /// As Engine::snapshot and progress. fingerprint: of the engine, long.
  Snapshot snapshot(RequestId request, const std::string& fingerprint) const {
    Snapshot snapshot = active_.snapshot(request);
    snapshot.progress.fingerprint = fingerprint;
    const Sequence& any = queue_.sequence(active_.writing(request)->front());
    snapshot.request.input_ids.assign(any.tokens.begin(), any.tokens.begin() + any.prompt_tokens);
    return snapshot;
  }
  AnswerProgress progress(RequestId request, const std::string& fingerprint) const {
    AnswerProgress progress = active_.progress(request);
    progress.fingerprint = fingerprint;
    return progress;
  }

  /// As Engine::cancel, hold and resume.
  template <CacheLedger L>
  bool cancel(RequestId request, FinishReason reason, L& ledger) {
    const auto* writing = active_.writing(request);
    if (!writing) return false;
    const std::vector<SeqId> all = *writing;
    if (reason == FinishReason::moved) {
      active_.move_out(request);
      for (const SeqId seq : all) remove(seq, ledger);
      return true;
    }
    for (const SeqId seq : all) finish(seq, reason, ledger, active_.output(seq).text().finish());
    return true;
  }
  template <CacheLedger L>
  bool hold(RequestId request, L& ledger) {
    return for_all(request, [&](SeqId seq) { return queue_.hold(seq, ledger); });
  }
  bool resume(RequestId request) {
    return for_all(request, [&](SeqId seq) { return queue_.resume(seq); });
  }

  /// Appends what `picker` has picked for a round of a committed step, emits its events, and ends sequences at their
  /// last token. Where a pick is not the guessed token, the sequence's later rows are gone.
  template <class Step, class Picker, CacheLedger L>
  void append_picks(Step& step, int round, Picker& picker, const std::vector<TokenId>& eos, L& ledger) {
    for (std::size_t i = 0; i < step.rows.size(); ++i) {
      const LogitRow& row = step.rows[i];
      if (!row.pick || row.round != round || !active_.writes(row.seq)) continue;
      if (!append(row.seq, picker.outcome(i), step.picks_ahead, eos, ledger)) step.forget_after(i);
    }
  }

  /// Ends sequences that only score their prompt, and fails those whose scores are not finite.
  template <class Step, CacheLedger L>
  void end_scored(const Step& step, L& ledger) {
    for (const Plan::Slice& slice : step.plan.slices) {
      if (!active_.writes(slice.seq)) continue;
      const Sequence& s = queue_.sequence(slice.seq);
      const std::string& failure = active_.output(slice.seq).failure();
      const bool whole = !keeps_tokens_ || s.pending() == 0;
      if (!failure.empty())
        fail(slice.seq, Error::Kind::internal, failure, ledger);
      else if (s.max_new_tokens == 0 && whole)
        finish(slice.seq, FinishReason::length, ledger);
    }
  }

  /// Fails all requests of a step whose picks are lost: its rows are in the cache, so that they cannot go on.
  template <class Step, CacheLedger L>
  void fail_step(const Step& step, const char* what, L& ledger) {
    for (const Plan::Slice& slice : step.plan.slices) {
      if (active_.writes(slice.seq)) fail(slice.seq, Error::Kind::internal, std::string("step: ") + what, ledger);
    }
  }

 private:
  // in_queue: the queue holds kUnknownToken in the token's place. True if the token was guessed and the text goes on.
  template <CacheLedger L>
  bool append(SeqId seq, PickOutcome& outcome, bool in_queue, const std::vector<TokenId>& eos, L& ledger) {
    SequenceOutput& output = active_.output(seq);
    if (!output.failure().empty()) return false;
    if (!outcome.pick && queue_.sequence(seq).verifies()) {  // perhaps a guess is to blame
      output.guesses().stop();
      queue_.retry(seq);
      return false;
    }
    if (!outcome.pick) return fail(seq, outcome.kind, outcome.failure, ledger);
    Pick& pick = *outcome.pick;
    bool guessed = false;
    if (in_queue)
      queue_.learn(seq, pick.token);
    else
      guessed = queue_.append(seq, pick.token);
    ++tokens_;
    accepted_ += guessed;
    output.guesses().verify(pick.token);
    if (output.options().logits_hash) output.add_to_hash(outcome.row_hash);
    output.add_to_receipt(pick.token, outcome.row_digest);
    SequenceOutput::Written written;
    try {
      written = output.write(pick.token, eos, queue_.sequence(seq).remaining() == 0);
    } catch (const Error& error) {
      return fail(seq, error.kind(), error.what(), ledger);
    } catch (const std::exception& error) {
      return fail(seq, Error::Kind::internal, error.what(), ledger);
    }
    active_.token(seq, pick, std::move(written.text), written.reason.has_value());
    if (!written.reason) return guessed;
    finish(seq, *written.reason, ledger);
    return false;
  }

  template <CacheLedger L>
  void finish(SeqId seq, FinishReason reason, L& ledger, std::string text = {}) {
    if (keeps_ended_) keep_ended(queue_.sequence(seq), active_.output(seq).guesses());
    active_.finish(seq, reason, std::move(text));
    remove(seq, ledger);
  }

  void keep_ended(const Sequence& s, const GuessRecord& guesses) {
    constexpr int kContext = 32;  // tokens of a prompt that other choices show, too
    if (guesses.group().empty() || s.generated() == 0) return;
    const int begin = s.choice == 0 ? 0 : std::max(0, s.prompt_tokens - kContext);
    ended_.push_back({{s.tokens.begin() + begin, s.tokens.begin() + s.known()},
                      s.prompt_tokens - begin,
                      guesses.group(),
                      guesses.cache_salt()});
  }

  // One sequence that fails ends its request. Returns false.
  template <CacheLedger L>
  bool fail(SeqId seq, Error::Kind kind, std::string error, L& ledger) {
    const RequestId request = active_.output(seq).request();
    const std::vector<SeqId> writing = *active_.writing(request);
    active_.fail(request, kind, std::move(error));
    for (const SeqId each : writing) remove(each, ledger);
    return false;
  }

  template <CacheLedger L>
  void remove(SeqId seq, L& ledger) {
    retired_.add(queue_.sequence(seq).adapters);
    queue_.finish(seq, ledger);
  }

  template <class F>
  bool for_all(RequestId request, F&& f) {
    const auto* writing = active_.writing(request);
    if (!writing) return false;
    bool any = false;
    for (const SeqId seq : *writing) any = f(seq) || any;
    return any;
  }

  RequestQueue<P> queue_;
  bool keeps_tokens_, keeps_ended_;
  ActiveRequests active_;
  RetiredAdapters<DeviceP> retired_;
  std::uint64_t tokens_ = 0, accepted_ = 0;
  std::vector<EndedText> ended_;
};

}  // namespace tenon
