// The answers that an engine owes: which sequences write them, and the events that were not handed out yet.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/engine/best_of.h"
#include "tenon/engine/stream.h"
#include "tenon/sample/sampler.h"

namespace tenon {

class Answers {
 public:
  // One sequence for each choice, in their order.
  void open(RequestId id, const Options& options, const std::vector<SeqId>& sequences, const Tokenizer* tokenizer,
            const Constraint* constraint = nullptr) {
    Owed& owed = requests_[id];
    owed.writing = sequences;
    if (options.best_of > options.n) owed.best = std::make_unique<BestOf>(options);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const int choice = static_cast<int>(i);
      Options own = options;
      own.seed = choice_seed(options.seed, choice);
      if (owed.best) own.top_logprobs = std::max(own.top_logprobs, 0);
      if (choice > 0) {  // the prompt is the same: it is scored once
        own.logits_at.clear();
        own.nll = false;
        own.prompt_logprobs = -1;
      }
      streams_.try_emplace(sequences[i], id, choice, std::move(own), tokenizer, constraint);
    }
  }

  // Takes open() back, however far it came.
  void forget(RequestId id, const std::vector<SeqId>& sequences) {
    for (const SeqId seq : sequences) streams_.erase(seq);
    requests_.erase(id);
  }

  bool writes(SeqId seq) const { return streams_.contains(seq); }
  Stream& stream(SeqId seq) { return streams_.at(seq); }
  const Stream& stream(SeqId seq) const { return streams_.at(seq); }

  // The sequences of a request that still write; null if it has ended.
  const std::vector<SeqId>* writing(RequestId request) const {
    const auto found = requests_.find(request);
    return found == requests_.end() ? nullptr : &found->second.writing;
  }
  std::size_t size() const { return requests_.size(); }

  // ---- what happens to a sequence. The last two end it: it writes no more.

  void token(SeqId seq, Pick& pick, std::string text, bool final) {
    const Stream& stream = streams_.at(seq);
    emit({.kind = Event::Kind::token,
          .request = stream.request(),
          .choice = stream.choice(),
          .token = pick.token,
          .final = final,
          .text = std::move(text),
          .logprob = pick.logprob,
          .top_logprobs = std::move(pick.top)});
  }

  void finish(SeqId seq, FinishReason reason, std::string text = {}) {
    Event event = streams_.at(seq).finished(reason, std::move(text));
    Owed& owed = requests_.at(event.request);
    std::erase(owed.writing, seq);
    streams_.erase(seq);
    const RequestId request = event.request;
    event.last = owed.writing.empty();
    const bool ended = event.last;
    emit(std::move(event));
    if (!ended) return;
    if (owed.best) owed.best->settle([&](Event e) { events_.push_back(std::move(e)); });
    requests_.erase(request);
  }

  // One answer that fails ends its request.
  void fail(RequestId request, Error::Kind kind, std::string error) {
    for (const SeqId seq : requests_.at(request).writing) streams_.erase(seq);
    requests_.erase(request);
    events_.push_back({.kind = Event::Kind::error,
                       .request = request,
                       .last = true,
                       .reason = FinishReason::error,
                       .error = std::move(error),
                       .error_kind = kind});
  }

  // ---- events, oldest first

  std::vector<Event>& events() { return events_; }
  const std::vector<Event>& events() const { return events_; }

 private:
  struct Owed {
    std::vector<SeqId> writing;
    std::unique_ptr<BestOf> best;  // null: events go out as they come
  };

  void emit(Event event) {
    const Owed& owed = requests_.at(event.request);
    if (owed.best)
      owed.best->add(std::move(event));
    else
      events_.push_back(std::move(event));
  }

  std::unordered_map<SeqId, Stream> streams_;
  std::unordered_map<RequestId, Owed> requests_;
  std::vector<Event> events_;
};

}  // namespace tenon
