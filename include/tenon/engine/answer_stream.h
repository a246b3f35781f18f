// The reading end of an answer that a service writes: a range, a poll, or the whole at once.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "tenon/engine/completion.h"
#include "tenon/engine/service_inbox.h"

namespace tenon {

/// One thread at a time reads it; any thread may cancel(). Dropping the stream cancels the request. It may outlive its
/// service, which ends every answer before it goes. A call that would wait for its own thread, in a callback, throws.
/// In a child of fork(), next, next_for, try_next, wait, cancel, detach and the iterators throw Error unsupported,
/// `service`. The destructor and a move assignment wait for no thread there and release nothing.
class AnswerStream {
 public:
  AnswerStream(std::shared_ptr<detail::ServiceInbox> inbox, detail::AnswerPointer answer)
      : inbox_(std::move(inbox)), answer_(std::move(answer)) {}
  AnswerStream(AnswerStream&&) noexcept = default;  ///< a moved-from stream may only be assigned to or destroyed
  AnswerStream& operator=(AnswerStream&& other) noexcept;
  ~AnswerStream() { drop(); }

  /// The id that its events bear.
  RequestId id() const { return answer_->settings().id; }

  /// Waits for the next event; none when all have been taken.
  std::optional<Event> next() { return take(TimePoint::max()); }
  /// Likewise, and none where no event comes in time; ended() tells which. With `enough` an empty stream sleeps until
  /// that number of events is there: waking a reader takes processor time from the steps.
  std::optional<Event> next_for(Clock::duration time, int enough = 1) { return take(detail::after(time), enough); }
  /// The next event, if it is there.
  std::optional<Event> try_next() { return take(TimePoint::min()); }

  /// Whether all events have been taken, and how the answer ended.
  bool ended() const { return ended_; }
  std::optional<FinishReason> reason() const { return reason_; }

  /// Ends the request within a step, with the reason `cancelled` unless it ends before. Events that came can still be
  /// read. Does not wait.
  void cancel();

  /// Gives the stream away: the request runs to its end with its callback. Error where it has none.
  void detach();

  /// An input range that waits for each of its values.
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

  /// for (const auto& token : stream): tokens, as from Engine::generate. Text that was held back for a stop string
  /// comes at the end, as a token with the id -1. Error where the request fails, or has more than one choice.
  Iterator<Token> begin();
  std::default_sentinel_t end() const { return {}; }

  /// for (const auto& event : stream.events()): all events, ends and errors included.
  class Events {
   public:
    explicit Events(AnswerStream* of) : of_(of) {}
    Iterator<Event> begin() const { return Iterator<Event>(of_); }
    std::default_sentinel_t end() const { return {}; }

   private:
    AnswerStream* of_;
  };
  Events events() { return Events(this); }

  /// Waits for the end: the whole answer, or answers, without events that were taken before or went to a callback.
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
