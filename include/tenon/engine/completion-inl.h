#pragma once
#include <algorithm>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/engine/completion.h"

namespace tenon {

TENON_INLINE void Choice::add(const Event& event, bool with_logprobs) {
  text += event.text;
  if (event.kind == Event::Kind::token) {
    ids.push_back(event.token);
    if (with_logprobs) {
      logprobs.push_back(event.logprob);
      top_logprobs.push_back(event.top_logprobs);
    }
    return;
  }
  reason = event.reason;
  logits_hash = event.logits_hash;
  guesses = event.guesses;
  receipt = event.receipt;
}

TENON_INLINE bool Completion::add(const Event& event, bool with_logprobs) {
  const auto choice = static_cast<std::size_t>(event.choice);
  if (choice > others.size()) others.resize(choice);
  Choice& answer = choice == 0 ? *this : others[choice - 1];
  answer.add(event, with_logprobs);
  error += event.error;
  if (event.scores) scores = event.scores;
  return event.last;
}

TENON_INLINE TokenRange detail::SteppedEngine::generate(std::string prompt, Options options) & {
  return generate(Request{.prompt = std::move(prompt), .options = std::move(options)});
}

TENON_INLINE TokenRange detail::SteppedEngine::generate(std::vector<TokenId> input_ids, Options options) & {
  return generate(Request{.input_ids = std::move(input_ids), .options = std::move(options)});
}

TENON_INLINE TokenRange detail::SteppedEngine::generate(Request request) & {
  require(request.options.n == 1 && request.options.best_of <= 1, "n", "must be 1 here: generate() yields one answer");
  return {*this, take(std::move(request))};
}

TENON_INLINE std::vector<Completion> detail::SteppedEngine::complete(std::vector<Request> requests) {
  return BatchRun(*this, std::move(requests)).run();
}

TENON_INLINE Completion detail::SteppedEngine::complete(Request request) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  return std::move(complete(std::move(one)).front());
}

namespace detail {

// The scores of requests that pool rows, in their order.
TENON_INLINE std::vector<std::shared_ptr<const Scores>> pooled(SteppedEngine& engine, std::vector<Request> requests,
                                                               Pooling pooling) {
  for (Request& request : requests) {
    request.options.pooling = pooling;
    request.options.max_new_tokens = 0;
  }
  std::vector<std::shared_ptr<const Scores>> all;
  for (Completion& each : engine.complete(std::move(requests))) {
    if (!each.error.empty()) throw Error(Error::Kind::invalid_request, "request", each.error);
    all.push_back(std::move(each.scores));
  }
  return all;
}

}  // namespace detail

TENON_INLINE std::vector<std::vector<float>> detail::SteppedEngine::embed(std::vector<Request> requests,
                                                                          Pooling pooling, bool normalize) {
  require(pooling == Pooling::last || pooling == Pooling::mean, "pooling", "must be last or mean for an embedding");
  std::vector<std::vector<float>> all;
  for (const auto& scores : pooled(*this, std::move(requests), pooling)) {
    all.push_back(scores->embedding);
    if (normalize) tenon::normalize(all.back());
  }
  return all;
}

TENON_INLINE std::vector<float> detail::SteppedEngine::embed(Request request, Pooling pooling, bool normalize) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  return std::move(embed(std::move(one), pooling, normalize).front());
}

TENON_INLINE std::vector<Classification> detail::SteppedEngine::classify(std::vector<Request> requests) {
  std::vector<Classification> all;
  for (const auto& scores : pooled(*this, std::move(requests), Pooling::classify))
    all.push_back({scores->class_logits, best_label(scores->class_logits)});
  return all;
}

TENON_INLINE Classification detail::SteppedEngine::classify(Request request) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  return std::move(classify(std::move(one)).front());
}

TENON_INLINE void TokenRange::next() {
  if (!engine_) return;
  const Event event = next_event();
  if (event.kind == Event::Kind::token) {
    token_ = {event.token, event.text, event.logprob, event.top_logprobs};
    return;
  }
  engine_ = nullptr;
  if (event.kind == Event::Kind::error) throw Error(event.error_kind, "generate", event.error);
}

TENON_INLINE Event TokenRange::next_event() {
  for (;;) {
    auto& waiting = engine_->waiting_events();
    const auto own =
        std::find_if(waiting.begin(), waiting.end(), [&](const Event& e) { return e.request == request_; });
    if (own != waiting.end()) {
      Event event = std::move(*own);
      waiting.erase(own);
      return event;
    }
    const auto events = engine_->step_or_wait();
    waiting.insert(waiting.begin(), events.begin(), events.end());
  }
}

TENON_INLINE BatchRun::BatchRun(detail::SteppedEngine& engine, std::vector<Request> requests)
    : engine_(engine),
      requests_(std::move(requests)),
      answers_(requests_.size()),
      draining_(engine.exchange_draining(true)) {
  for (const Request& request : requests_) with_logprobs_.push_back(request.options.top_logprobs >= 0);
}

TENON_INLINE BatchRun::~BatchRun() {
  engine_.exchange_draining(draining_);
  for (const auto& [request, at] : open_) engine_.abandon(request);
}

TENON_INLINE std::vector<Completion> BatchRun::run() {
  for (submit_those_with_room(); !open_.empty(); submit_those_with_room()) {
    const std::span<const Event> events = engine_.step_or_wait();
    for (const Event& event : events) {
      const auto found = open_.find(event.request);
      if (found == open_.end())
        engine_.waiting_events().push_back(event);
      else if (answers_[found->second].add(event, with_logprobs_[found->second]))
        open_.erase(found);
    }
  }
  return std::move(answers_);
}

TENON_INLINE void BatchRun::submit_those_with_room() {
  for (; next_ < requests_.size(); ++next_) {
    try {
      if (!engine_.has_lease(requests_[next_], !open_.empty())) return;
      const RequestId request = engine_.take(std::move(requests_[next_]));
      try {
        open_.emplace(request, next_);
      } catch (...) {
        engine_.abandon(request);
        throw;
      }
    } catch (const Error& error) {
      answers_[next_].error = error.what();
    }
  }
}

}  // namespace tenon
