// Answers as a caller wants them: a range of tokens, or the whole at once, of one request or of many.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/request.h"
#include "tenon/engine/admission.h"

namespace tenon {

// A generated token as `generate` yields it.
struct Token {
  TokenId id = -1;
  std::string text;   // whole characters: may be empty, or more than the token's own
  float logprob = 0;  // if top_logprobs >= 0
  std::vector<TokenLogprob> top_logprobs;
};

// One answer, whole.
struct Answer {
  std::vector<TokenId> ids;
  std::string text;
  FinishReason reason = FinishReason::error;
  std::vector<float> logprobs;                          // if top_logprobs >= 0
  std::vector<std::vector<TokenLogprob>> top_logprobs;  // likewise
  std::optional<std::uint64_t> logits_hash;             // if asked for

  void add(const Event& event, bool with_logprobs) {
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
  }
};

// All that came of a request: its first answer, and the others where n > 1.
struct Completion : Answer {
  std::string error;  // FinishReason::error
  std::shared_ptr<const Scores> scores;
  std::vector<Answer> others;  // choices 1..n-1

  // Adds the request's next event; true if it was the last.
  bool add(const Event& event, bool with_logprobs) {
    const auto choice = static_cast<std::size_t>(event.choice);
    if (choice > others.size()) others.resize(choice);
    Answer& answer = choice == 0 ? *this : others[choice - 1];
    answer.add(event, with_logprobs);
    error += event.error;
    if (event.scores) scores = event.scores;
    return event.last;
  }
};

// The tokens of one request as they come, an input range. Incrementing steps the engine; leaving the loop early cancels
// the request. Throws Error where the request fails.
template <class Engine>
class Generation {
 public:
  Generation(Engine& engine, RequestId request) : engine_(&engine), request_(request) {}
  Generation(Generation&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)), request_(other.request_), token_(std::move(other.token_)) {}
  Generation& operator=(Generation&&) = delete;
  ~Generation() {
    if (engine_) engine_->abandon(request_);
  }

  class Iterator {
   public:
    using value_type = Token;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Generation* of) : of_(of) {}
    Token& operator*() const { return of_->token_; }
    Token* operator->() const { return &of_->token_; }
    Iterator& operator++() {
      of_->next();
      return *this;
    }
    void operator++(int) { of_->next(); }
    bool operator==(std::default_sentinel_t) const { return of_->engine_ == nullptr; }

   private:
    Generation* of_;
  };

  Iterator begin() {
    next();
    return Iterator(this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  void next() {
    if (!engine_) return;
    const Event event = next_event();
    if (event.kind == Event::Kind::token) {
      token_ = {event.token, event.text, event.logprob, event.top_logprobs};
      return;
    }
    engine_ = nullptr;
    if (event.kind == Event::Kind::error) throw Error(event.error_kind, "generate", event.error);
  }

  // Everybody else's wait for the next step().
  Event next_event() {
    for (;;) {
      auto& waiting = engine_->answers_.events();
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

  Engine* engine_;  // null once the request has ended
  RequestId request_;
  Token token_;
};

// Requests that run together, in an engine whose caller waits for all of them, so that nobody else can come. Those that
// have not ended when it throws are cancelled.
template <class Engine>
class Together {
 public:
  Together(Engine& engine, std::vector<Request> requests)
      : engine_(engine),
        requests_(std::move(requests)),
        answers_(requests_.size()),
        draining_(engine.queue_.draining()) {
    for (const Request& request : requests_) with_logprobs_.push_back(request.options.top_logprobs >= 0);
    engine_.queue_.set_draining(true);
  }
  ~Together() {
    engine_.queue_.set_draining(draining_);
    for (const auto& [request, at] : open_) engine_.abandon(request);
  }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  std::vector<Completion> run() {
    for (submit_those_with_room(); !open_.empty(); submit_those_with_room()) {
      const std::span<const Event> events = engine_.step_or_wait();
      for (const Event& event : events) {
        const auto found = open_.find(event.request);
        if (found == open_.end())
          engine_.answers_.events().push_back(event);
        else if (answers_[found->second].add(event, with_logprobs_[found->second]))
          open_.erase(found);
      }
    }
    return std::move(answers_);
  }

 private:
  // Up to the first for whose adapters there is none yet.
  void submit_those_with_room() {
    for (; next_ < requests_.size(); ++next_) {
      try {
        if (!take_lease(engine_, requests_[next_], !open_.empty())) return;
        const RequestId request = engine_.submit(std::move(requests_[next_]));
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

  Engine& engine_;
  std::vector<Request> requests_;
  std::vector<Completion> answers_;
  const bool draining_;  // as it was before
  std::vector<bool> with_logprobs_;
  std::unordered_map<RequestId, std::size_t> open_;
  std::size_t next_ = 0;  // to submit
};

}  // namespace tenon
