#pragma once
#include <algorithm>
#include <exception>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/engine/open_sequences.h"

namespace tenon {

TENON_INLINE void OpenSequences::open(RequestId id, const PreparedRequest& request, const Tokenizer* tokenizer,
                                      const std::vector<TokenId>& eos, LedgerRef ledger) {
  std::vector<SeqId> choices;
  choices.reserve(static_cast<std::size_t>(request.sequences()));
  try {
    for (int choice = 0; choice < request.sequences(); ++choice) {
      const SeqId parent = choice == 0 ? kNoSequence : choices.front();
      choices.push_back(queue_->add(request.sequence(id, choice, parent), ledger));
    }
    active_.open(id, request, choices, tokenizer);
    for (std::size_t i = 0; request.begun() && i < choices.size(); ++i) {
      const auto ended = active_.replay_choice(choices[i], request, eos);
      if (!ended) continue;
      active_.finish_replayed(choices[i], *ended, request);
      remove(choices[i], ledger);
    }
  } catch (...) {
    for (const SeqId seq : choices) queue_->cancel(seq, ledger);
    active_.forget(id, choices);
    throw;
  }
}

TENON_INLINE Snapshot OpenSequences::snapshot(RequestId request, const std::string& fingerprint) const {
  Snapshot snapshot = active_.snapshot(request);
  snapshot.progress.fingerprint = fingerprint;
  const Sequence& first = queue_->sequence(active_.unfinished(request)->front());
  snapshot.request.input_ids.assign(first.tokens.begin(), first.tokens.begin() + first.prompt_tokens);
  return snapshot;
}

TENON_INLINE AnswerProgress OpenSequences::progress(RequestId request, const std::string& fingerprint) const {
  AnswerProgress progress = active_.progress(request);
  progress.fingerprint = fingerprint;
  return progress;
}

TENON_INLINE bool OpenSequences::cancel(RequestId request, FinishReason reason, LedgerRef ledger) {
  const auto* unfinished = active_.unfinished(request);
  if (!unfinished) return false;
  const std::vector<SeqId> all = *unfinished;
  if (reason == FinishReason::moved) {
    active_.finish_moved(request);
    for (const SeqId seq : all) remove(seq, ledger);
    return true;
  }
  for (const SeqId seq : all) finish(seq, reason, ledger, active_.output(seq).text().finish());
  return true;
}

TENON_INLINE bool OpenSequences::hold(RequestId request, LedgerRef ledger) {
  return for_each_sequence(request, [&](SeqId seq) { return queue_->hold(seq, ledger); });
}

TENON_INLINE bool OpenSequences::resume(RequestId request) {
  return for_each_sequence(request, [&](SeqId seq) { return queue_->resume(seq); });
}

TENON_INLINE void OpenSequences::append_picks(AssembledStep& step, int round, std::span<PickOutcome> outcomes,
                                              const std::vector<TokenId>& eos, LedgerRef ledger) {
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const LogitRow& row = step.rows[i];
    if (!row.pick || row.round != round || !active_.has_sequence(row.seq)) continue;
    if (!append(row.seq, outcomes[i], step.picks_ahead, eos, ledger)) step.forget_after(i);
  }
}

TENON_INLINE void OpenSequences::end_scored(const AssembledStep& step, LedgerRef ledger) {
  for (const Plan::Slice& slice : step.plan.slices) {
    if (!active_.has_sequence(slice.seq)) continue;
    const Sequence& s = queue_->sequence(slice.seq);
    const std::string& failure = active_.output(slice.seq).failure();
    const bool whole = !queue_->keeps_tokens() || s.pending() == 0;
    if (!failure.empty())
      fail(slice.seq, Error::Kind::internal, failure, ledger);
    else if (s.max_new_tokens == 0 && whole)
      finish(slice.seq, FinishReason::length, ledger);
  }
}

TENON_INLINE void OpenSequences::fail_step(const AssembledStep& step, const char* what, LedgerRef ledger) {
  for (const Plan::Slice& slice : step.plan.slices) {
    if (active_.has_sequence(slice.seq)) fail(slice.seq, Error::Kind::internal, std::string("step: ") + what, ledger);
  }
}

TENON_INLINE bool OpenSequences::append(SeqId seq, PickOutcome& outcome, bool has_placeholder,
                                        const std::vector<TokenId>& eos, LedgerRef ledger) {
  SequenceOutput& output = active_.output(seq);
  if (!output.failure().empty()) return false;
  if (!outcome.pick && queue_->sequence(seq).verifies()) {  // perhaps a guess is to blame
    output.guesses().stop();
    queue_->retry(seq);
    return false;
  }
  if (!outcome.pick) return fail(seq, outcome.kind, outcome.failure, ledger);
  Pick& pick = *outcome.pick;
  bool guessed = false;
  if (has_placeholder)
    queue_->learn(seq, pick.token);
  else
    guessed = queue_->append(seq, pick.token);
  ++tokens_;
  accepted_ += guessed;
  output.guesses().verify(pick.token);
  if (output.options().logits_hash) output.add_to_hash(outcome.row_hash);
  output.add_to_receipt(pick.token, outcome.row_digest);
  SequenceOutput::Written written;
  try {
    written = output.write(pick.token, eos, queue_->sequence(seq).remaining() == 0);
  } catch (const Error& error) {
    return fail(seq, error.kind(), error.what(), ledger);
  } catch (const std::exception& error) {
    return fail(seq, Error::Kind::internal, error.what(), ledger);
  }
  active_.emit_token(seq, pick, std::move(written.text), written.reason.has_value());
  if (!written.reason) return guessed;
  finish(seq, *written.reason, ledger);
  return false;
}

TENON_INLINE void OpenSequences::finish(SeqId seq, FinishReason reason, LedgerRef ledger, std::string text) {
  if (keeps_ended_) keep_ended(queue_->sequence(seq), active_.output(seq).guesses());
  active_.finish(seq, reason, std::move(text));
  remove(seq, ledger);
}

TENON_INLINE void OpenSequences::keep_ended(const Sequence& s, const GuessRecord& guesses) {
  constexpr int kContext = 32;  // tokens of a prompt that other choices show, too
  if (guesses.group().empty() || s.generated() == 0) return;
  const int begin = s.choice == 0 ? 0 : std::max(0, s.prompt_tokens - kContext);
  ended_.push_back({{s.tokens.begin() + begin, s.tokens.begin() + s.known()},
                    s.prompt_tokens - begin,
                    guesses.group(),
                    guesses.cache_salt()});
}

TENON_INLINE bool OpenSequences::fail(SeqId seq, Error::Kind kind, std::string error, LedgerRef ledger) {
  const RequestId request = active_.output(seq).request();
  const std::vector<SeqId> unfinished = *active_.unfinished(request);
  active_.fail(request, kind, std::move(error));
  for (const SeqId each : unfinished) remove(each, ledger);
  return false;
}

TENON_INLINE void OpenSequences::remove(SeqId seq, LedgerRef ledger) {
  retired_.add(queue_->sequence(seq).adapters);
  queue_->finish(seq, ledger);
}

TENON_INLINE bool OpenSequences::for_each_sequence(RequestId request, const std::function<bool(SeqId)>& f) {
  const auto* unfinished = active_.unfinished(request);
  if (!unfinished) return false;
  bool any = false;
  for (const SeqId seq : *unfinished) any = f(seq) || any;
  return any;
}

}  // namespace tenon
