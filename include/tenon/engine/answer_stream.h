// The reading end of an answer that a service writes: a range, a poll, or the whole at once.
#pragma once
#include <chrono>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/engine/completion.h"
#include "tenon/engine/service_inbox.h"

namespace tenon {

// One reader at a time; cancel() from any thread. Dropping the stream cancels the request. It may outlive its service,
// which ends every answer before it goes.
class AnswerStream {
 public:
  AnswerStream(std::shared_ptr<detail::ServiceInbox> inbox, detail::AnswerPointer answer)
      : inbox_(std::move(inbox)), answer_(std::move(answer)) {}
  AnswerStream(AnswerStream&&) noexcept = default;  // what was moved from may only be assigned to or destroyed
  AnswerStream& operator=(AnswerStream&& other) noexcept {
    if (this == &other) return *this;
    drop();
    inbox_ = std::move(other.inbox_);
    answer_ = std::move(other.answer_);
    ended_ = other.ended_;
    reason_ = other.reason_;
    return *this;
  }
  ~AnswerStream() { drop(); }

  // In the service; its events bear it.
  RequestId id() const { return answer_->terms().id; }

  // The next event, once it is there; none when all have been taken.
  std::optional<Event> next() { return take(TimePoint::max()); }
  // The same, but none as well where nothing comes in time; ended() tells which. Where nothing is there it sleeps until
  // `enough` events are, for who is in no hurry: each time that a reader is woken takes from the machine what a step
  // may need.
  std::optional<Event> next_for(Clock::duration time, int enough = 1) { return take(detail::after(time), enough); }
  std::optional<Event> try_next() { return take(TimePoint::min()); }

  // Whether all events have been taken, and how the answer ended then.
  bool ended() const { return ended_; }
  std::optional<FinishReason> reason() const { return reason_; }

  // The request ends within a step, with the reason `cancelled` if nothing else comes first. What is there stays to be
  // read. Does not wait.
  void cancel() {
    answer_->cancel();
    inbox_->post(answer_);
  }

  // Lets the request run to its end with nobody at this end: for those that have a callback. The service keeps it.
  void detach() {
    detail::require(answer_->calls(), "detach", "needs a request with on_event: nobody would read the answer");
    answer_.reset();
    inbox_.reset();
  }

  // An input range that waits for each of its values.
  template <class Value>
  class Iterator {
   public:
    using value_type = Value;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(AnswerStream* of) : of_(of) { ++*this; }
    const Value& operator*() const { return value_; }
    const Value* operator->() const { return &value_; }
    Iterator& operator++() {
      if (!of_->read(value_)) of_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return of_ == nullptr; }

   private:
    AnswerStream* of_;
    Value value_;
  };

  // for (const auto& token : stream): tokens, as from Engine::generate. Text that was held back for a stop string comes
  // at the end, as a token with the id -1. Throws Error where the request fails. For one choice.
  Iterator<Token> begin() {
    detail::require(answer_->terms().choices == 1, "n", "several answers do not make one text; read events()");
    return Iterator<Token>(this);
  }
  std::default_sentinel_t end() const { return {}; }

  // for (const auto& event : stream.events()): all that comes, ends and errors included.
  class Events {
   public:
    explicit Events(AnswerStream* of) : of_(of) {}
    Iterator<Event> begin() const { return Iterator<Event>(of_); }
    std::default_sentinel_t end() const { return {}; }

   private:
    AnswerStream* of_;
  };
  Events events() { return Events(this); }

  // Waits for the end. The whole answer, or answers; without what was taken before, and what went to a callback.
  Completion wait() {
    Completion whole;
    while (const auto event = take(TimePoint::max(), std::numeric_limits<int>::max())) {
      whole.add(*event, answer_->terms().with_logprobs);
    }
    return whole;
  }

 private:
  std::optional<Event> take(TimePoint until, int enough = 1) {
    if (ended_) return std::nullopt;
    detail::AnswerBuffer::Taken taken = answer_->take(until, static_cast<std::size_t>(enough));
    if (taken.wakes) inbox_->post(answer_);
    if (!taken.event && taken.ended) {  // the service had no memory to say so
      taken.event = Event{.kind = Event::Kind::error,
                          .request = id(),
                          .last = true,
                          .reason = FinishReason::error,
                          .error = "out of memory",
                          .error_kind = Error::Kind::capacity};
    }
    if (taken.event && taken.event->kind != Event::Kind::token) reason_ = taken.event->reason;
    ended_ = taken.event && taken.event->last;
    return std::move(taken.event);
  }

  bool read(Event& event) {
    auto next = this->next();
    if (next) event = *std::move(next);
    return next.has_value();
  }

  bool read(Token& token) {
    while (auto event = next()) {
      if (event->kind == Event::Kind::error) throw Error(event->error_kind, "answer", event->error);
      if (event->kind == Event::Kind::finished && event->text.empty()) continue;
      token = {event->token, std::move(event->text), event->logprob, std::move(event->top_logprobs)};
      return true;
    }
    return false;
  }

  void drop() noexcept {
    if (!answer_) return;
    answer_->drop();
    if (!ended_) inbox_->post(answer_);
    answer_.reset();
    inbox_.reset();
  }

  std::shared_ptr<detail::ServiceInbox> inbox_;
  detail::AnswerPointer answer_;
  bool ended_ = false;
  std::optional<FinishReason> reason_;
};

}  // namespace tenon
