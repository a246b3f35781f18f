// The reading end of an answer that a service writes: a range, a poll, or the whole at once.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

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
  AnswerStream& operator=(AnswerStream&& other) noexcept;
  ~AnswerStream() { drop(); }

  // In the service; its events bear it.
  RequestId id() const { return answer_->settings().id; }

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
  void cancel();

  // Lets the request run to its end with nobody at this end: for those that have a callback. The service keeps it.
  void detach();

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
  Iterator<Token> begin();
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
  Completion wait();

 private:
  std::optional<Event> take(TimePoint until, int enough = 1);

  bool read(Event& event);

  bool read(Token& token);

  void drop() noexcept;

  std::shared_ptr<detail::ServiceInbox> inbox_;
  detail::AnswerPointer answer_;
  bool ended_ = false;
  std::optional<FinishReason> reason_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/answer_stream-inl.h"
#endif
