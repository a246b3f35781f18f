// What the two ends of one answer share: the service's thread writes events, one reader takes them. Bounded: a request
// that nobody reads is held until there is room again.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "tenon/core/request.h"
#include "tenon/engine/failure.h"
#include "tenon/engine/prepared_request.h"

namespace tenon {

// Runs on the service's thread, which serves everybody: it must not block.
using EventCallback = std::function<void(const Event&)>;

namespace detail {

// So long from then: TimePoint::max(), that is never, where that is too long to say.
TimePoint after(Clock::duration time, TimePoint then = Clock::now());

// What was agreed when the request was accepted.
struct AnswerSettings {
  RequestId id = 0;
  int choices = 1;
  int prompt_tokens = 0;
  bool with_logprobs = false;
  std::size_t limit = 64;  // events that wait before the request is held
  TimePoint deadline = TimePoint::max();
  EventCallback on_event = {};  // gets the events instead of the buffer
};

class AnswerBuffer {
 public:
  AnswerBuffer(AnswerSettings settings, PreparedRequest prepared)
      : request(std::move(prepared)), settings_(std::move(settings)), calls_(settings_.on_event != nullptr) {}
  AnswerBuffer(const AnswerBuffer&) = delete;
  AnswerBuffer& operator=(const AnswerBuffer&) = delete;

  // `on_event` aside, which may go sooner.
  const AnswerSettings& settings() const { return settings_; }

  // The service's thread alone: the request until the engine has it, and its name there.
  std::optional<PreparedRequest> request;
  RequestId in_engine = 0;

  // Guarded by the mutex of the service's inbox: the list of those that want the service's attention.
  std::shared_ptr<AnswerBuffer> next_posted;
  bool posted = false;

  // ---- the writing end: the service's thread
  struct Put {
    bool full = false;                    // nobody reads: hold the request
    std::optional<Failure> failure = {};  // what the callback threw: the request fails so
  };
  // The last event of a request whose callback has thrown is the error that it threw.
  Put put(Event event);

  // Ends the answer where there was no memory for an event that says so.
  void abort() noexcept;

  // What the reader wants of the service. `resumes` is said once.
  struct Wishes {
    bool cancels = false, resumes = false;
  };
  Wishes wishes();

  // When the reader of a held request last took something.
  TimePoint read_at() const;

  // ---- the reading end
  struct Taken {
    std::optional<Event> event;  // none: nothing came until then, or the answer has ended
    bool ended = false;          // nothing else comes
    bool wakes = false;          // the service should hear that there is room again
  };

  // Where there is nothing, sleeps until so many events are there, or as many as wait at most.
  Taken take(TimePoint until, std::size_t enough);

  void cancel();

  // Nobody reads any more. When this returns no callback runs, except the one that calls it.
  void drop();

  bool calls() const { return calls_; }

 private:
  bool drained() const { return events_.size() <= settings_.limit / 2; }

  // Calls the callback and returns what it throws. Not under the lock: a callback may cancel or drop its own answer.
  std::optional<Failure> call(const Event& event);

  AnswerSettings settings_;  // on_event is guarded by mutex_ while nobody calls it; the rest never changes
  const bool calls_;
  std::optional<Failure> failure_;  // of the callback; the service's thread alone

  mutable std::mutex mutex_;  // guards what follows; never held while a callback, the engine or the inbox is called
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::size_t awaited_ = 1;  // events that wake the reader
  bool ended_ = false;       // the last event has been put
  bool cancelled_ = false;
  bool dropped_ = false;
  bool held_ = false;  // was full, and has not been drained to half since
  TimePoint read_at_{};
  std::thread::id calling_;  // who is inside the callback
};

}  // namespace detail
}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/answer_buffer-inl.h"
#endif
