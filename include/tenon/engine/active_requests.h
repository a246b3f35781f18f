// The active requests of an engine: the sequences that write each of them, and events that no step has returned yet.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/engine/best_of.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/engine/progress.h"
#include "tenon/engine/sequence_output.h"
#include "tenon/engine/snapshot.h"
#include "tenon/sample/sampler.h"

namespace tenon {

/// Requests that have not ended, and what their sequences have written.
class ActiveRequests {
 public:
  /// Adds a request. sequences: one for each choice, in their order.
  void open(RequestId id, const PreparedRequest& request, const std::vector<SeqId>& sequences,
            const Tokenizer* tokenizer);

  /// Writes the tokens that `request` brings for this choice (Request::begun). Emits their events only if the request
  /// asks for it (Request::repeats_begun). Returns how the choice has ended, if it has. Error invalid_request if these
  /// tokens cannot be the beginning of an answer to this request.
  std::optional<FinishReason> replay_choice(SeqId seq, const PreparedRequest& request, const std::vector<TokenId>& eos);
  /// Ends a choice for which replay_choice() returned a reason.
  void finish_replayed(SeqId seq, FinishReason reason, const PreparedRequest& request);

  /// Undoes open(), even if open() has thrown.
  void forget(RequestId id, const std::vector<SeqId>& sequences);

  /// Whether the sequence writes an active request.
  bool has_sequence(SeqId seq) const { return outputs_.contains(seq); }
  SequenceOutput& output(SeqId seq) { return outputs_.at(seq); }
  const SequenceOutput& output(SeqId seq) const { return outputs_.at(seq); }

  /// The sequences of a request that have not ended; null if the request itself has ended.
  const std::vector<SeqId>* unfinished(RequestId request) const;
  std::size_t size() const { return requests_.size(); }

  // ---- what happens to a sequence

  /// Emits the event of a new token. final: it is the last one of its sequence.
  void emit_token(SeqId seq, Pick& pick, std::string text, bool final);

  /// Ends a sequence. The request ends with its last sequence.
  void finish(SeqId seq, FinishReason reason, std::string text = {});

  /// Ends a request, which another engine continues, with the reason `moved`.
  void finish_moved(RequestId request);

  /// The progress of a request, without the fingerprint. Error invalid_request, `request`, if it is not open.
  AnswerProgress progress(RequestId request) const;

  /// A request as data, without the prompt and the fingerprint. Error unsupported, with the field's name, if a field
  /// cannot be written as data (PreparedRequest::unmovable_field).
  Snapshot snapshot(RequestId request) const;

  /// Ends a request, with all its sequences, by an error.
  void fail(RequestId request, Error::Kind kind, std::string error);

  // ---- events, oldest first

  std::vector<Event>& events() { return events_; }
  const std::vector<Event>& events() const { return events_; }

 private:
  struct ActiveRequest {
    std::vector<SeqId> unfinished;  // sequences
    std::unique_ptr<BestOf> best;   // null: events are not held back
    bool is_silent = false;         // emit() drops events: they are those of a replay
    // For snapshots:
    Request data;                 // PreparedRequest::data
    std::string unmovable_field;  // PreparedRequest::unmovable_field
    std::vector<std::string> adapter_digests;
    std::vector<std::pair<int, ChoiceProgress>> ended_choices;  // while other choices are being written
    std::shared_ptr<const Scores> ended_scores;                 // those of choice 0, likewise
  };

  const ActiveRequest& find(RequestId request) const;
  // Calls write() and returns its result. Events of write() are dropped, unless `repeats_events` is true or best_of
  // needs them.
  template <class Write>
  auto replay(RequestId request, bool repeats_events, Write&& write);

  // scores: Event::scores.
  void emit_token_event(SequenceOutput& output, Pick& pick, std::string text, bool final,
                        std::shared_ptr<const Scores> scores);
  void emit(Event event);

  std::unordered_map<SeqId, SequenceOutput> outputs_;
  std::unordered_map<RequestId, ActiveRequest> requests_;
  std::vector<Event> events_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/active_requests-inl.h"
#endif
