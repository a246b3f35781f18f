// The buffer between the two ends of one answer: the service's thread writes events, one reader takes them. It is
// bounded: a request whose buffer is full is held until there is room again.
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

/// Runs on the service's thread, which serves all requests: it must not block. An exception is its request's error.
using EventCallback = std::function<void(const Event&)>;

namespace detail {

// then + time, saturating at TimePoint::max().
TimePoint after(Clock::duration time, TimePoint then = Clock::now());

// Settings of an accepted request.
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

  // on_event may be released before the buffer; the rest never changes.
  const AnswerSettings& settings() const { return settings_; }

  // The service's thread alone: the request until the engine has it, and its id there.
  std::optional<PreparedRequest> request;
  RequestId in_engine = 0;

  // Guarded by the mutex of the service's inbox: the list of answers whose wishes the service has to read.
  std::shared_ptr<AnswerBuffer> next_posted;
  bool posted = false;

  // ---- the writing end: the service's thread
  // Calls the callback, unless an earlier call threw. Returns what this call throws, with which the request fails. The
  // lock is not held: a callback may cancel or drop its own answer.
  std::optional<Failure> call(const Event& event);

  // Queues the event for the reader, after call(). If the callback has thrown, the last event becomes that error.
  // Returns true if the queue is full now: hold the request.
  bool put(Event event);

  // Ends the answer without an event: there was no memory for one.
  void abort() noexcept;

  // The reader's wishes. `resumes` is returned once.
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
    bool wakes = false;          // there is room again: post the answer
  };

  // Takes the oldest event. If there is none, sleeps until `enough` of them are there, or half of the limit, or the
  // answer has ended, or it is `until`.
  Taken take(TimePoint until, std::size_t enough);

  void cancel();

  // The reader is gone. When this returns no callback runs, except the one that calls it.
  void drop();

  bool calls() const { return calls_; }
  bool has_thrown() const { return failure_.has_value(); }  // the callback; for the service's thread

 private:
  bool drained() const { return events_.size() <= settings_.limit / 2; }

  AnswerSettings settings_;  // on_event is guarded by mutex_ while no call runs; the rest never changes
  const bool calls_;
  std::optional<Failure> failure_;  // of the callback; the service's thread alone

  mutable std::mutex mutex_;  // guards what follows; never held while a callback, the engine or the inbox is called
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::size_t awaited_ = 1;  // number of events that wakes the reader
  bool ended_ = false;       // the last event has been put
  bool cancelled_ = false;
  bool dropped_ = false;
  bool held_ = false;  // was full, and has not been drained to half since
  TimePoint read_at_{};
  std::thread::id calling_;  // the thread inside the callback
};

}  // namespace detail
}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/answer_buffer-inl.h"
#endif
