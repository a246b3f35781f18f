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

  /// Writes what the request `from` has of this choice (Request::begun), without events unless it repeats them. Returns
  /// how the choice has ended, if it has. Error invalid_request where it could not be so.
  std::optional<FinishReason> take_up(SeqId seq, const PreparedRequest& from, const std::vector<TokenId>& eos);
  /// Ends a choice that take_up() says has ended.
  void finish_again(SeqId seq, FinishReason reason, const PreparedRequest& from);

  /// Undoes open(), also where it has thrown.
  void forget(RequestId id, const std::vector<SeqId>& sequences);

  /// Whether the sequence is active.
  bool writes(SeqId seq) const { return outputs_.contains(seq); }
  SequenceOutput& output(SeqId seq) { return outputs_.at(seq); }
  const SequenceOutput& output(SeqId seq) const { return outputs_.at(seq); }

  /// The sequences of a request that have not ended; null if the request has.
  const std::vector<SeqId>* writing(RequestId request) const;
  std::size_t size() const { return requests_.size(); }

  // ---- what happens to a sequence

  /// Emits a new token. final: the last of its sequence.
  void token(SeqId seq, Pick& pick, std::string text, bool final);

  /// Ends a sequence, and with the last one its request.
  void finish(SeqId seq, FinishReason reason, std::string text = {});

  /// Ends a request that goes on in another engine, with the reason `moved`.
  void move_out(RequestId request);

  /// The progress of a request, but for the fingerprint. Error invalid_request, `request`, if it is not open.
  AnswerProgress progress(RequestId request) const;

  /// A request as data, but for the prompt and the fingerprint. Error unsupported, with the field's name, for one that
  /// holds code.
  Snapshot snapshot(RequestId request) const;

  /// Ends a request, with all its sequences, by an error.
  void fail(RequestId request, Error::Kind kind, std::string error);

  // ---- events, oldest first

  std::vector<Event>& events() { return events_; }
  const std::vector<Event>& events() const { return events_; }

 private:
  struct Owed {
    std::vector<SeqId> writing;
    std::unique_ptr<BestOf> best;  // null: events go out as they come
    // For snapshots:
    Request asked;          // PreparedRequest::data
    std::string immovable;  // PreparedRequest::immovable
    std::vector<std::string> digests;
    std::vector<std::pair<int, ChoiceProgress>> ended;  // choices, while others are being written
    std::shared_ptr<const Scores> scores;               // of choice 0, likewise
    bool is_silent = false;                             // what happens now has happened before
  };

  const Owed& find(RequestId request) const;
  // Runs write() for a request; its events are left out unless `repeats`, or best_of, needs them.
  template <class Write>
  auto again(RequestId request, bool repeats, Write&& write);

  // The event of a token. scores: Event::scores.
  void emit_token(SequenceOutput& output, Pick& pick, std::string text, bool final,
                  std::shared_ptr<const Scores> scores);
  void emit(Event event);

  std::unordered_map<SeqId, SequenceOutput> outputs_;
  std::unordered_map<RequestId, Owed> requests_;
  std::vector<Event> events_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/active_requests-inl.h"
#endif
