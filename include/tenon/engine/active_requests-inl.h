#pragma once
#include <algorithm>
#include <optional>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/engine/active_requests.h"

namespace tenon {

TENON_INLINE void ActiveRequests::open(RequestId id, const PreparedRequest& request,
                                       const std::vector<SeqId>& sequences, const Tokenizer* tokenizer) {
  const Options& options = request.options();
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
    outputs_.try_emplace(sequences[i], id, choice, std::move(own), tokenizer, request.constraint(),
                         request.logits_processor(), request.pool(),
                         GuessRecord(request.prediction(), request.guess_group()), request.receipt().get());
  }
}

TENON_INLINE void ActiveRequests::forget(RequestId id, const std::vector<SeqId>& sequences) {
  for (const SeqId seq : sequences) outputs_.erase(seq);
  requests_.erase(id);
}

TENON_INLINE const std::vector<SeqId>* ActiveRequests::writing(RequestId request) const {
  const auto found = requests_.find(request);
  return found == requests_.end() ? nullptr : &found->second.writing;
}

TENON_INLINE void ActiveRequests::token(SeqId seq, Pick& pick, std::string text, bool final) {
  SequenceOutput& output = outputs_.at(seq);
  emit({.kind = Event::Kind::token,
        .request = output.request(),
        .choice = output.choice(),
        .token = pick.token,
        .final = final,
        .text = std::move(text),
        .logprob = pick.logprob,
        .top_logprobs = std::move(pick.top),
        .scores = output.first_scores()});
}

TENON_INLINE void ActiveRequests::finish(SeqId seq, FinishReason reason, std::string text) {
  Event event = outputs_.at(seq).finished(reason, std::move(text));
  Owed& owed = requests_.at(event.request);
  std::erase(owed.writing, seq);
  outputs_.erase(seq);
  const RequestId request = event.request;
  event.last = owed.writing.empty();
  const bool ended = event.last;
  emit(std::move(event));
  if (!ended) return;
  if (owed.best) owed.best->settle([&](Event e) { events_.push_back(std::move(e)); });
  requests_.erase(request);
}

TENON_INLINE void ActiveRequests::fail(RequestId request, Error::Kind kind, std::string error) {
  for (const SeqId seq : requests_.at(request).writing) outputs_.erase(seq);
  requests_.erase(request);
  events_.push_back({.kind = Event::Kind::error,
                     .request = request,
                     .last = true,
                     .reason = FinishReason::error,
                     .error = std::move(error),
                     .error_kind = kind});
}

TENON_INLINE void ActiveRequests::emit(Event event) {
  const Owed& owed = requests_.at(event.request);
  if (owed.best)
    owed.best->add(std::move(event));
  else
    events_.push_back(std::move(event));
}

}  // namespace tenon
