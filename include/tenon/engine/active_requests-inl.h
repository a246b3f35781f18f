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
  owed.asked = request.data();
  owed.immovable = request.immovable();
  owed.digests = request.lease().digests;
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
                         GuessRecord(request.prediction(), request.guess_group(), request.options().cache_salt),
                         request.receipt().get());
  }
}

TENON_INLINE void ActiveRequests::forget(RequestId id, const std::vector<SeqId>& sequences) {
  for (const SeqId seq : sequences) outputs_.erase(seq);
  requests_.erase(id);
  std::erase_if(events_, [id](const Event& event) { return event.request == id; });
}

template <class Write>
auto ActiveRequests::again(RequestId request, bool repeats, Write&& write) {
  requests_.at(request).is_silent = !repeats && !requests_.at(request).best;
  auto result = write();
  if (const auto found = requests_.find(request); found != requests_.end()) found->second.is_silent = false;
  return result;
}

TENON_INLINE std::optional<FinishReason> ActiveRequests::take_up(SeqId seq, const PreparedRequest& from,
                                                                 const std::vector<TokenId>& eos) {
  SequenceOutput& output = outputs_.at(seq);
  const ChoiceProgress& begun = from.begun()->choices[static_cast<std::size_t>(output.choice())];
  output.take_up(begun, output.choice() == 0 ? from.begun()->scores : nullptr);
  return again(output.request(), from.repeats_begun(), [&]() -> std::optional<FinishReason> {
    for (std::size_t i = 0; i < begun.ids.size(); ++i) {
      const int remaining = from.options().max_new_tokens - static_cast<int>(i);
      auto [text, reason] = output.write_again(begun.ids[i], eos, remaining);
      Pick pick{.token = begun.ids[i], .logprob = 0, .top = {}};
      if (!begun.logprobs.empty()) {
        pick.logprob = begun.logprobs[i];
        pick.top = begun.top_logprobs[i];
      }
      emit_token(output, pick, std::move(text), reason.has_value(), nullptr);  // the prompt is still to be read
      if (!reason) continue;
      detail::require(i + 1 == begun.ids.size(), "begun", "has tokens after the end of the answer");
      return reason;
    }
    return std::nullopt;
  });
}

TENON_INLINE void ActiveRequests::finish_again(SeqId seq, FinishReason reason, const PreparedRequest& from) {
  const RequestId request = outputs_.at(seq).request();
  detail::require(requests_.at(request).writing.size() > 1, "begun", "has ended: nothing is left to compute");
  again(request, from.repeats_begun(), [&] {
    finish(seq, reason);
    return true;
  });
}

TENON_INLINE const std::vector<SeqId>* ActiveRequests::writing(RequestId request) const {
  const auto found = requests_.find(request);
  return found == requests_.end() ? nullptr : &found->second.writing;
}

TENON_INLINE void ActiveRequests::token(SeqId seq, Pick& pick, std::string text, bool final) {
  emit_token(outputs_.at(seq), pick, std::move(text), final, outputs_.at(seq).first_scores());
}

TENON_INLINE void ActiveRequests::emit_token(SequenceOutput& output, Pick& pick, std::string text, bool final,
                                             std::shared_ptr<const Scores> scores) {
  output.list(pick.logprob, pick.top);
  emit({.kind = Event::Kind::token,
        .request = output.request(),
        .choice = output.choice(),
        .token = pick.token,
        .final = final,
        .text = std::move(text),
        .logprob = pick.logprob,
        .top_logprobs = std::move(pick.top),
        .scores = std::move(scores)});
}

TENON_INLINE void ActiveRequests::finish(SeqId seq, FinishReason reason, std::string text) {
  Event event = outputs_.at(seq).finished(reason, std::move(text));
  Owed& owed = requests_.at(event.request);
  std::erase(owed.writing, seq);
  if (!owed.writing.empty()) {
    owed.ended.emplace_back(event.choice, outputs_.at(seq).progress());
    if (event.choice == 0) owed.scores = event.scores;
  }
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

TENON_INLINE void ActiveRequests::move_out(RequestId request) {
  const Owed& owed = requests_.at(request);
  std::vector<int> choices;
  if (owed.best)
    for (int choice = 0; choice < owed.asked.options.n; ++choice) choices.push_back(choice);
  else
    for (const SeqId seq : owed.writing) choices.push_back(outputs_.at(seq).choice());
  for (const int choice : choices)
    events_.push_back({.kind = Event::Kind::finished,
                       .request = request,
                       .choice = choice,
                       .last = choice == choices.back(),
                       .reason = FinishReason::moved});
  for (const SeqId seq : owed.writing) outputs_.erase(seq);
  requests_.erase(request);
}

TENON_INLINE const ActiveRequests::Owed& ActiveRequests::find(RequestId request) const {
  const auto found = requests_.find(request);
  detail::require(found != requests_.end(), "request", "is not open: it has ended, or is another engine's");
  return found->second;
}

TENON_INLINE AnswerProgress ActiveRequests::progress(RequestId request) const {
  const Owed& owed = find(request);
  AnswerProgress progress{.digests = owed.digests, .scores = owed.scores};
  progress.choices.resize(owed.ended.size() + owed.writing.size());
  for (const auto& [choice, ended] : owed.ended) progress.choices[static_cast<std::size_t>(choice)] = ended;
  for (const SeqId seq : owed.writing) {
    const SequenceOutput& output = outputs_.at(seq);
    progress.choices[static_cast<std::size_t>(output.choice())] = output.progress();
  }
  return progress;
}

TENON_INLINE Snapshot ActiveRequests::snapshot(RequestId request) const {
  const Owed& owed = find(request);
  if (!owed.immovable.empty())
    throw Error(Error::Kind::unsupported, owed.immovable,
                "cannot be moved to another engine: it is code without a text (constraint_source), or a text that is "
                "not UTF-8");
  Snapshot snapshot{.request = owed.asked, .progress = progress(request)};
  const auto prediction = outputs_.at(owed.writing.front()).guesses().prediction();
  snapshot.request.prediction.assign(prediction.begin(), prediction.end());
  return snapshot;
}

TENON_INLINE void ActiveRequests::emit(Event event) {
  const Owed& owed = requests_.at(event.request);
  if (owed.is_silent) return;
  if (owed.best)
    owed.best->add(std::move(event));
  else
    events_.push_back(std::move(event));
}

}  // namespace tenon
