// The active requests of an engine: the sequences that write each of them, and events that no step has returned yet.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/engine/best_of.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/engine/sequence_output.h"
#include "tenon/sample/sampler.h"

namespace tenon {

/// Requests that have not ended, and what their sequences have written.
class ActiveRequests {
 public:
  /// Adds a request. sequences: one for each choice, in their order.
  void open(RequestId id, const PreparedRequest& request, const std::vector<SeqId>& sequences,
            const Tokenizer* tokenizer);

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

  /// Ends a request, with all its sequences, by an error.
  void fail(RequestId request, Error::Kind kind, std::string error);

  // ---- events, oldest first

  std::vector<Event>& events() { return events_; }
  const std::vector<Event>& events() const { return events_; }

 private:
  struct Owed {
    std::vector<SeqId> writing;
    std::unique_ptr<BestOf> best;  // null: events go out as they come
  };

  void emit(Event event);

  std::unordered_map<SeqId, SequenceOutput> outputs_;
  std::unordered_map<RequestId, Owed> requests_;
  std::vector<Event> events_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/active_requests-inl.h"
#endif
