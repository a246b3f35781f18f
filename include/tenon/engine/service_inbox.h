// Messages to a service's thread: new requests within limits, wishes about old ones, the order to stop. And its
// numbers.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/cache/store.h"
#include "tenon/engine/answer_buffer.h"
#include "tenon/engine/stats.h"

namespace tenon {

/// A request beyond one of the first three limits is refused at once: Error overloaded, with the limit's name.
struct ServiceOptions {
  int max_open = 1024;              ///< requests accepted and not ended
  int max_waiting = 256;            ///< open requests without an event so far
  int max_waiting_tokens = 262144;  ///< tokens of their prompts; a single request may have more
  int buffer = 64;                  ///< events that wait for a reader; then the request is held until half are taken
  Clock::duration stall_timeout = std::chrono::seconds(30);  ///< ends a held request without a reader; 0: never
};

/// Numbers of a service, for a metrics page.
struct ServiceStats {
  // Now.
  int open = 0;                     ///< requests accepted and not ended
  int waiting = 0;                  ///< open requests without an event so far
  int held = 0;                     ///< open requests that wait for their reader
  std::int64_t waiting_tokens = 0;  ///< prompt tokens of waiting requests
  Clock::duration in_step{};        ///< how long the running step and its callbacks have taken so far; 0: idle
  bool healthy = true;              ///< false: the last two steps have thrown
  bool draining = false;            ///< refuses new requests
  bool stopped = false;             ///< the thread has ended
  // Since the start. Every accepted request is counted once more when it ends.
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;    ///< overloaded: by a limit, or by adapters in use
  std::uint64_t invalid = 0;    ///< refused for what they ask
  std::uint64_t finished = 0;   ///< at their length or a stop
  std::uint64_t cancelled = 0;  ///< stalled ones included
  std::uint64_t expired = 0;    ///< at their deadline
  std::uint64_t moved = 0;      ///< to another service (Service::snapshot)
  std::uint64_t failed = 0;     ///< by an error
  std::uint64_t holds = 0;      ///< times that a full buffer held a request
  std::uint64_t stalled = 0;    ///< held requests that stall_timeout ended
  std::uint64_t failed_steps = 0;
  std::string last_failure;  ///< text of the last failed step
  EngineStats engine;        ///< after the last step
  CacheStats cache;
};

namespace detail {

using AnswerPointer = std::shared_ptr<AnswerBuffer>;

// Never destroys it. For a child of fork(): threads of the parent may have held or awaited what a destructor waits for.
template <class T>
void leak(T value) noexcept {
  static_cast<void>(new (std::nothrow) T(std::move(value)));
}

class ServiceInbox {
 public:
  explicit ServiceInbox(const ServiceOptions& options);

  const ServiceOptions& options() const { return options_; }

  // ---- any thread; none of these waits for a step

  // Refuses early what accept() would refuse, before time is spent on a prompt.
  void admit();

  RequestId next_id();

  void accept(AnswerPointer answer);

  // Counts a request that the engine refuses, by the kind of its error.
  void count_refusal(Error::Kind kind);

  // The service reads the answer's wishes before its next step. The list runs through the answers: nothing is
  // allocated.
  void post(const AnswerPointer& answer) noexcept;

  // Runs job() on the service's thread, between two steps, and returns when it has run. Throws what it throws, and
  // Error overloaded where the service has stopped.
  void run(std::function<void()> job);

  void close() { order(/*stop=*/false); }
  void stop() { order(/*stop=*/true); }

  // Whether the thread has ended by then.
  bool wait_stopped(TimePoint until);

  ServiceStats stats() const;

  bool on_service_thread() const { return thread_ == std::this_thread::get_id(); }

  // A child of fork() has no such thread, and may have found the mutex locked: it may touch nothing here.
  bool in_child() const;
  void refuse_child() const;

  // ---- the service's thread

  struct Mail {
    std::vector<AnswerPointer> requests;  // in order of arrival
    AnswerPointer posted;                 // the first of a list
    std::vector<std::packaged_task<void()>> jobs;
    bool draining = false, stopping = false;
  };

  void begin();

  // From here to wait() or end() the thread works: ServiceStats::in_step.
  void take(Mail& mail);

  // The next of a list that was posted, which may be posted again from here on; null at its end.
  AnswerPointer next(AnswerPointer& list);

  // Sleeps until a message comes, or until then.
  void wait(TimePoint until);

  // change(ServiceStats&) runs under the mutex: keep it short.
  template <class Change>
  void update(Change&& change) {
    std::lock_guard lock(mutex_);
    change(stats_);
  }

  void end();

 private:
  static const ServiceOptions& checked(const ServiceOptions& o);

  [[noreturn]] void refuse(const char* limit, const std::string& what);

  void check_room();

  void order(bool stop);

  const ServiceOptions options_;
  const long process_;
  std::atomic<std::thread::id> thread_{};

  mutable std::mutex mutex_;  // guards all below, and the list through posted answers; never held during a step
  std::condition_variable bell_, stopped_;
  std::vector<AnswerPointer> requests_;
  AnswerPointer posted_;
  std::vector<std::packaged_task<void()>> jobs_;
  bool rung_ = false;
  bool stopping_ = false;
  RequestId next_id_ = 1;
  std::optional<TimePoint> work_began_;
  ServiceStats stats_;
};

}  // namespace detail
}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/service_inbox-inl.h"
#endif
