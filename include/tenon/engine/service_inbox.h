// What everybody tells a service's thread, and what it tells everybody: new requests within limits, wishes about old
// ones, the order to stop; and numbers for a metrics page.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/cache/store.h"
#include "tenon/core/error.h"
#include "tenon/engine/answer_buffer.h"
#include "tenon/engine/stats.h"

namespace tenon {

// Beyond the first three a request is refused at once, with Error::Kind::overloaded and the limit's name.
struct ServiceOptions {
  int max_open = 1024;              // requests accepted and not ended
  int max_waiting = 256;            // of them, those of whose answer nothing has come yet
  int max_waiting_tokens = 262144;  // of their prompts; a single request may have more
  int buffer = 64;                  // events that wait for a reader; then the request is held until half are taken
  Clock::duration stall_timeout = std::chrono::seconds(30);  // a held request that nobody reads is cancelled; 0: never
};

struct ServiceStats {
  // Now.
  int open = 0;                     // requests accepted and not ended
  int waiting = 0;                  // of them, those of whose answer nothing has come yet
  int held = 0;                     // of them, those that wait for their reader
  std::int64_t waiting_tokens = 0;  // prompts of those that wait
  Clock::duration in_step{};        // how long the step that runs has taken so far; 0 between steps
  bool healthy = true;              // false: two steps in a row have thrown, the last two
  bool draining = false;            // takes nothing new
  bool stopped = false;             // and its thread has ended
  // Since the start. Every accepted request is counted once more when it ends.
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;    // overloaded
  std::uint64_t invalid = 0;    // refused for what they ask
  std::uint64_t finished = 0;   // at their length or a stop
  std::uint64_t cancelled = 0;  // stalled ones included
  std::uint64_t expired = 0;    // at their deadline
  std::uint64_t failed = 0;
  std::uint64_t holds = 0;    // times that a full buffer held a request
  std::uint64_t stalled = 0;  // held requests that were cancelled
  std::uint64_t failed_steps = 0;
  std::string last_failure;  // what the last failed step said
  EngineStats engine;        // after the last step
  CacheStats cache;
};

namespace detail {

using AnswerPointer = std::shared_ptr<AnswerBuffer>;

class ServiceInbox {
 public:
  explicit ServiceInbox(const ServiceOptions& options) : options_(checked(options)) {}

  const ServiceOptions& options() const { return options_; }

  // ---- any thread; none of these waits for a step

  // Refuses early what accept() would refuse, before anybody spends time on a prompt.
  void admit() {
    std::lock_guard lock(mutex_);
    check_room();
  }

  RequestId next_id() {
    std::lock_guard lock(mutex_);
    return next_id_++;
  }

  void accept(AnswerPointer answer) {
    {
      std::lock_guard lock(mutex_);
      check_room();
      const int tokens = answer->terms().prompt_tokens;
      // A prompt that is longer than the limit is served alone: refusing it as overloaded would be forever.
      if (stats_.waiting > 0 && stats_.waiting_tokens + tokens > options_.max_waiting_tokens) {
        refuse("max_waiting_tokens", std::to_string(stats_.waiting_tokens) + " prompt tokens wait already; " +
                                         std::to_string(tokens) + " more would exceed " +
                                         std::to_string(options_.max_waiting_tokens));
      }
      requests_.push_back(std::move(answer));
      ++stats_.accepted;
      ++stats_.open;
      ++stats_.waiting;
      stats_.waiting_tokens += tokens;
      rung_ = true;
    }
    bell_.notify_one();
  }

  void count_invalid() {
    std::lock_guard lock(mutex_);
    ++stats_.invalid;
  }

  // The service looks at the answer's wishes before its next step. A list through the answers: nothing is allocated.
  void post(const AnswerPointer& answer) noexcept {
    {
      std::lock_guard lock(mutex_);
      if (stats_.stopped || answer->posted) return;
      answer->posted = true;
      answer->next_posted = std::exchange(posted_, answer);
      rung_ = true;
    }
    bell_.notify_one();
  }

  void close() { order(/*stop=*/false); }
  void stop() { order(/*stop=*/true); }

  // Whether the thread has ended by then.
  bool wait_stopped(TimePoint until) {
    std::unique_lock lock(mutex_);
    const auto ended = [&] { return stats_.stopped; };
    if (until != TimePoint::max()) return stopped_.wait_until(lock, until, ended);
    stopped_.wait(lock, ended);
    return true;
  }

  ServiceStats stats() const {
    std::lock_guard lock(mutex_);
    ServiceStats now = stats_;
    if (step_began_) now.in_step = Clock::now() - *step_began_;
    return now;
  }

  bool on_service_thread() const {
    std::lock_guard lock(mutex_);
    return thread_ == std::this_thread::get_id();
  }

  // ---- the service's thread

  struct Mail {
    std::vector<AnswerPointer> requests;  // in order of arrival
    AnswerPointer posted;                 // the first of a list
    bool draining = false, stopping = false;
  };

  void begin() {
    std::lock_guard lock(mutex_);
    thread_ = std::this_thread::get_id();
  }

  void take(Mail& mail) {
    std::lock_guard lock(mutex_);
    mail.requests.swap(requests_);
    mail.posted = std::exchange(posted_, nullptr);
    mail.draining = stats_.draining;
    mail.stopping = stopping_;
    rung_ = false;
  }

  // The next of a list that was posted, which may be posted again from here on; null at its end.
  AnswerPointer next(AnswerPointer& list) {
    std::lock_guard lock(mutex_);
    AnswerPointer first = std::exchange(list, nullptr);
    if (!first) return first;
    list = std::exchange(first->next_posted, nullptr);
    first->posted = false;
    return first;
  }

  // Until something comes, or until then. Without either no processor time is used.
  void wait(TimePoint until) {
    std::unique_lock lock(mutex_);
    const auto rung = [&] { return rung_; };
    if (until == TimePoint::max())
      bell_.wait(lock, rung);
    else
      bell_.wait_until(lock, until, rung);
  }

  void step_begins() {
    std::lock_guard lock(mutex_);
    step_began_ = Clock::now();
  }

  // change(ServiceStats&), short: everybody else waits.
  template <class Change>
  void update(Change&& change) {
    std::lock_guard lock(mutex_);
    step_began_.reset();
    change(stats_);
  }

  void end() {
    AnswerPointer list;
    {
      std::lock_guard lock(mutex_);
      stats_.draining = stats_.stopped = true;
      thread_ = std::thread::id();
      list = std::exchange(posted_, nullptr);
    }
    stopped_.notify_all();
    while (list) next(list);  // one by one: a long list that dies at once would recurse
  }

 private:
  static const ServiceOptions& checked(const ServiceOptions& o) {
    require(o.max_open >= 1, "max_open", "must be 1 or more");
    require(o.max_waiting >= 1, "max_waiting", "must be 1 or more");
    require(o.max_waiting_tokens >= 1, "max_waiting_tokens", "must be 1 or more");
    require(o.buffer >= 1, "buffer", "must be 1 or more");
    require(o.stall_timeout >= Clock::duration::zero(), "stall_timeout", "must be 0 (never) or more");
    return o;
  }

  [[noreturn]] void refuse(const char* limit, const std::string& what) {
    ++stats_.refused;
    throw Error(Error::Kind::overloaded, limit, what);
  }

  void check_room() {
    if (stats_.stopped || stopping_) refuse("service", "has stopped");
    if (stats_.draining) refuse("service", "is draining, and takes nothing new");
    if (stats_.open >= options_.max_open) {
      refuse("max_open", std::to_string(stats_.open) + " requests are open already");
    }
    if (stats_.waiting >= options_.max_waiting) {
      refuse("max_waiting", std::to_string(stats_.waiting) + " requests wait already");
    }
  }

  void order(bool stop) {
    {
      std::lock_guard lock(mutex_);
      stats_.draining = true;
      stopping_ = stopping_ || stop;
      rung_ = true;
    }
    bell_.notify_one();
  }

  const ServiceOptions options_;

  mutable std::mutex mutex_;  // guards all below, and the list through posted answers; never held during a step
  std::condition_variable bell_, stopped_;
  std::vector<AnswerPointer> requests_;
  AnswerPointer posted_;
  bool rung_ = false;
  bool stopping_ = false;
  RequestId next_id_ = 1;
  std::thread::id thread_;
  std::optional<TimePoint> step_began_;
  ServiceStats stats_;
};

}  // namespace detail
}  // namespace tenon
