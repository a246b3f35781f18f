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
  ActiveRequest& active = requests_[id];
  active.unfinished = sequences;
  if (options.best_of > options.n) active.best = std::make_unique<BestOf>(options);
  active.data = request.data();
  active.unmovable_field = request.unmovable_field();
  active.adapter_digests = request.lease().digests;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const int choice = static_cast<int>(i);
    Options choice_options = options;
    choice_options.seed = choice_seed(options.seed, choice);
    if (active.best) choice_options.top_logprobs = std::max(choice_options.top_logprobs, 0);
    if (choice > 0) {  // the prompt is the same: it is scored once
      choice_options.logits_at.clear();
      choice_options.nll = false;
      choice_options.prompt_logprobs = -1;
    }
    outputs_.try_emplace(sequences[i], id, choice, std::move(choice_options), tokenizer, request.constraint(),
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
auto ActiveRequests::replay(RequestId request, bool repeats_events, Write&& write) {
  requests_.at(request).is_silent = !repeats_events && !requests_.at(request).best;
  auto result = write();
  if (const auto found = requests_.find(request); found != requests_.end()) found->second.is_silent = false;
  return result;
}

TENON_INLINE std::optional<FinishReason> ActiveRequests::replay_choice(SeqId seq, const PreparedRequest& request,
                                                                       const std::vector<TokenId>& eos) {
  SequenceOutput& output = outputs_.at(seq);
  const ChoiceProgress& begun = request.begun()->choices[static_cast<std::size_t>(output.choice())];
  output.begin_replay(begun, output.choice() == 0 ? request.begun()->scores : nullptr);
  return replay(output.request(), request.repeats_begun(), [&]() -> std::optional<FinishReason> {
    for (std::size_t i = 0; i < begun.ids.size(); ++i) {
      const int remaining = request.options().max_new_tokens - static_cast<int>(i);
      auto [text, reason] = output.replay(begun.ids[i], eos, remaining);
      Pick pick{.token = begun.ids[i], .logprob = 0, .top = {}};
      if (!begun.logprobs.empty()) {
        pick.logprob = begun.logprobs[i];
        pick.top = begun.top_logprobs[i];
      }
      emit_token_event(output, pick, std::move(text), reason.has_value(), nullptr);  // the prompt is still to be read
      if (!reason) continue;
      detail::require(i + 1 == begun.ids.size(), "begun", "has tokens after the end of the answer");
      return reason;
    }
    return std::nullopt;
  });
}

TENON_INLINE void ActiveRequests::finish_replayed(SeqId seq, FinishReason reason, const PreparedRequest& request) {
  const RequestId id = outputs_.at(seq).request();
  detail::require(requests_.at(id).unfinished.size() > 1, "begun", "has ended: nothing is left to compute");
  replay(id, request.repeats_begun(), [&] {
    finish(seq, reason);
    return true;
  });
}

TENON_INLINE const std::vector<SeqId>* ActiveRequests::unfinished(RequestId request) const {
  const auto found = requests_.find(request);
  return found == requests_.end() ? nullptr : &found->second.unfinished;
}

TENON_INLINE void ActiveRequests::emit_token(SeqId seq, Pick& pick, std::string text, bool final) {
  emit_token_event(outputs_.at(seq), pick, std::move(text), final, outputs_.at(seq).first_scores());
}

TENON_INLINE void ActiveRequests::emit_token_event(SequenceOutput& output, Pick& pick, std::string text, bool final,
                                                   std::shared_ptr<const Scores> scores) {
  output.add_logprobs(pick.logprob, pick.top);
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
  ActiveRequest& active = requests_.at(event.request);
  std::erase(active.unfinished, seq);
  if (!active.unfinished.empty()) {
    active.ended_choices.emplace_back(event.choice, outputs_.at(seq).progress());
    if (event.choice == 0) active.ended_scores = event.scores;
  }
  outputs_.erase(seq);
  const RequestId request = event.request;
  const bool last = active.unfinished.empty();
  event.last = last;
  emit(std::move(event));
  if (!last) return;
  if (active.best) active.best->emit_best([&](Event e) { events_.push_back(std::move(e)); });
  requests_.erase(request);
}

TENON_INLINE void ActiveRequests::fail(RequestId request, Error::Kind kind, std::string error) {
  for (const SeqId seq : requests_.at(request).unfinished) outputs_.erase(seq);
  requests_.erase(request);
  events_.push_back({.kind = Event::Kind::error,
                     .request = request,
                     .last = true,
                     .reason = FinishReason::error,
                     .error = std::move(error),
                     .error_kind = kind});
}

TENON_INLINE void ActiveRequests::finish_moved(RequestId request) {
  const ActiveRequest& active = requests_.at(request);
  std::vector<int> choices;
  if (active.best)
    for (int choice = 0; choice < active.data.options.n; ++choice) choices.push_back(choice);
  else
    for (const SeqId seq : active.unfinished) choices.push_back(outputs_.at(seq).choice());
  for (const int choice : choices)
    events_.push_back({.kind = Event::Kind::finished,
                       .request = request,
                       .choice = choice,
                       .last = choice == choices.back(),
                       .reason = FinishReason::moved});
  for (const SeqId seq : active.unfinished) outputs_.erase(seq);
  requests_.erase(request);
}

TENON_INLINE const ActiveRequests::ActiveRequest& ActiveRequests::find(RequestId request) const {
  const auto found = requests_.find(request);
  detail::require(found != requests_.end(), "request", "is not open: it has ended, or is another engine's");
  return found->second;
}

TENON_INLINE AnswerProgress ActiveRequests::progress(RequestId request) const {
  const ActiveRequest& active = find(request);
  AnswerProgress progress{.digests = active.adapter_digests, .scores = active.ended_scores};
  progress.choices.resize(active.ended_choices.size() + active.unfinished.size());
  for (const auto& [choice, written] : active.ended_choices)
    progress.choices[static_cast<std::size_t>(choice)] = written;
  for (const SeqId seq : active.unfinished) {
    const SequenceOutput& output = outputs_.at(seq);
    progress.choices[static_cast<std::size_t>(output.choice())] = output.progress();
  }
  return progress;
}

TENON_INLINE Snapshot ActiveRequests::snapshot(RequestId request) const {
  const ActiveRequest& active = find(request);
  if (!active.unmovable_field.empty())
    throw Error(Error::Kind::unsupported, active.unmovable_field,
                "cannot be moved to another engine: it is code without a text (constraint_source), or a text that is "
                "not UTF-8");
  Snapshot snapshot{.request = active.data, .progress = progress(request)};
  const auto prediction = outputs_.at(active.unfinished.front()).guesses().prediction();
  snapshot.request.prediction.assign(prediction.begin(), prediction.end());
  return snapshot;
}

TENON_INLINE void ActiveRequests::emit(Event event) {
  const ActiveRequest& active = requests_.at(event.request);
  if (active.is_silent) return;
  if (active.best)
    active.best->add(std::move(event));
  else
    events_.push_back(std::move(event));
}

}  // namespace tenon
