// A service: an engine, the thread that steps it, and answers as streams. Any thread submits, and never waits for a
// step.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/request.h"
#include "tenon/engine/answer_stream.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/engine/service_inbox.h"
#include "tenon/engine/service_loop.h"
#include "tenon/engine/snapshot.h"

namespace tenon {

/// How a service runs a request.
struct SubmitOptions {
  /// At this time the answer ends with the reason `deadline` and its tokens so far. Schedulers see the earliest of this
  /// time, `timeout` and Options::deadline.
  TimePoint deadline = TimePoint::max();
  Clock::duration timeout{};  ///< a deadline as a duration from submit on; 0: none
  /// How long submit waits for room among the adapters, where all are in use; 0: not at all. In a callback of the same
  /// service it counts as 0: the wait would stop the steps that make room.
  Clock::duration adapter_wait{};
  std::function<bool()> wanted = {};  ///< false ends that wait; called several times a second; empty: always true
  EventCallback on_event = {};        ///< gets every event, on the service's thread: it must not block
};

/// Adapters are read, and waited for, in the thread that submits.
///
/// Threads. The service's own thread steps the engine and runs the callbacks. Any thread, and any callback, may use
/// submit, close, stats and the streams. They hold the inbox's mutex for moments, never during a step or a callback.
/// drain and the destructor wait for the service's thread, and so does stop, except in a callback.
///
/// Failures. A step that throws ends all open requests with its message, and the service goes on with new ones. After
/// two such steps in a row it is unhealthy (stats), until one succeeds.
///
/// fork(). A child process has a copy of the service without its thread. There submit, snapshot, restore, close, drain,
/// drain_for, stop and stats throw Error unsupported, `service`. config and tokenizer work. The destructor waits for no
/// thread and releases nothing.
template <class E>
class Service {
  static_assert(
      ServesRequests<E>,
      "tenon: Service<E> got a type that is no engine; it needs prepare, enqueue, cancel, hold, resume, step, "
      "set_draining, idle, stats, cache_stats, config and tokenizer, as tenon::Engine has them; see "
      "docs/service.md");

 public:
  explicit Service(std::unique_ptr<E> engine, ServiceOptions options = {})
      : engine_(checked(std::move(engine))),
        inbox_(std::make_shared<detail::ServiceInbox>(options)),
        loop_(std::make_unique<detail::ServiceLoop<E>>(*engine_, *inbox_)) {
    try {
      thread_ = std::thread([this] { loop_->run(); });
    } catch (const std::system_error& error) {
      throw Error(Error::Kind::capacity, "threads", std::string("the system refused a thread: ") + error.what());
    }
  }
  /// Constructs the engine in place, from the other arguments.
  template <class... Arguments>
  requires std::constructible_from<E, Arguments...>
  explicit Service(ServiceOptions options, Arguments&&... arguments)
      : Service(std::make_unique<E>(std::forward<Arguments>(arguments)...), options) {}
  template <class... Arguments>
  requires std::constructible_from<E, Arguments...>
  explicit Service(Arguments&&... arguments) : Service(ServiceOptions{}, std::forward<Arguments>(arguments)...) {}

  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Cancels open requests. Not from a callback.
  ~Service() {
    if (inbox_->in_child()) {
      leak();
    } else {
      inbox_->stop();
      thread_.join();
    }
  }

  /// Takes a request. Reads the prompt in the caller's thread; never waits for a step. Error overloaded where a limit
  /// of ServiceOptions is reached or the service is closed, else as Engine::submit.
  AnswerStream submit(Request request, SubmitOptions options = {}) {
    inbox_->refuse_child();
    inbox_->admit();
    detail::AnswerPointer answer;
    try {
      answer = prepare(std::move(request), std::move(options));
    } catch (const Error& error) {
      inbox_->count_refusal(error.kind());
      throw;
    }
    inbox_->accept(answer);
    return AnswerStream(inbox_, std::move(answer));
  }

  /// Removes an open request (AnswerStream::id) from this service and returns it, so that another service or process
  /// can continue it. Its stream gives the events of all tokens of the snapshot, and then an end with the reason
  /// `moved`. Waits for a step. Errors: those of Engine::snapshot, after which the request continues here;
  /// invalid_request, `request`, if it is not open; any error in a callback.
  Snapshot snapshot(RequestId request) requires MovesRequests<E> {
    return take_out<Snapshot>(request, [](const E& engine, RequestId id) { return engine.snapshot(id); });
  }
  /// The same for a request that holds code: returns its progress alone. The caller makes the request again, with the
  /// progress as Request::begun.
  AnswerProgress take_progress(RequestId request) requires MovesRequests<E> {
    return take_out<AnswerProgress>(request, [](const E& engine, RequestId id) { return engine.progress(id); });
  }
  /// Continues a request from a snapshot. The stream gives the events after those of the snapshot, the same as if it
  /// had not moved. `make` makes its constraint. Waits for a step. Errors: those of submit() and request_of();
  /// invalid_request, `fingerprint` or `adapters`, if this engine, or an adapter here, has other contents; in a
  /// callback.
  AnswerStream restore(const Snapshot& snapshot, SubmitOptions options = {},
                       const ConstraintMaker& make = {}) requires MovesRequests<E> {
    Request request = request_of(snapshot, make);
    run_on_thread([&] {
      if (request.begun->fingerprint != std::string(engine_->full_fingerprint()))
        throw Error(Error::Kind::invalid_request, "fingerprint", "of the snapshot is not that of this engine");
    });
    return submit(std::move(request), std::move(options));
  }

  /// Refuses new requests from now on; open ones go on. Does not wait.
  void close() {
    inbox_->refuse_child();
    inbox_->close();
  }

  /// close(), and waits until all open requests and the thread have ended. stall_timeout ends answers without a reader.
  /// Error in a callback.
  void drain() { drain_until(TimePoint::max()); }
  /// Likewise, for `grace` at most. False if a request is still open then; stop() ends it.
  bool drain_for(Clock::duration grace) { return drain_until(detail::after(grace)); }

  /// Cancels open requests, and waits until the thread has ended: at most a step. A callback does not wait.
  void stop() {
    inbox_->refuse_child();
    inbox_->stop();
    if (!inbox_->on_service_thread()) inbox_->wait_stopped(TimePoint::max());
  }

  ServiceStats stats() const {
    inbox_->refuse_child();
    return inbox_->stats();
  }
  const ModelConfig& config() const { return engine_->config(); }
  const Tokenizer* tokenizer() const { return engine_->tokenizer(); }

 private:
  static std::unique_ptr<E> checked(std::unique_ptr<E> engine) {
    detail::require(engine != nullptr, "engine", "must not be null");
    return engine;
  }

  // Refuses what the engine would refuse, except a lease of another engine.
  detail::AnswerPointer prepare(Request request, SubmitOptions options) {
    detail::require(options.timeout >= Clock::duration::zero(), "timeout", "must be 0 (none) or more");
    detail::require(options.adapter_wait >= Clock::duration::zero(), "adapter_wait", "must be 0 (none) or more");
    if (options.timeout > Clock::duration::zero()) {
      options.deadline = std::min(options.deadline, detail::after(options.timeout));
    }
    request.options.deadline = options.deadline = std::min(options.deadline, request.options.deadline);
    PreparedRequest prepared = engine_->prepare(std::move(request));
    if constexpr (LeasesAdapters<E>) {
      if (!prepared.lease().set) {
        const auto wait = inbox_->on_service_thread() ? Clock::duration::zero() : options.adapter_wait;
        const TimePoint until = std::min(options.deadline, detail::after(wait));
        prepared.set_lease(engine_->lease(prepared.adapters(), {until, std::move(options.wanted)}));
      }
    }
    const Options& asked = prepared.options();
    detail::AnswerSettings settings{.id = inbox_->next_id(),
                                    .choices = asked.n,
                                    .prompt_tokens = static_cast<int>(prepared.tokens().size()),
                                    .with_logprobs = asked.top_logprobs >= 0,
                                    .limit = static_cast<std::size_t>(inbox_->options().buffer),
                                    .deadline = options.deadline,
                                    .on_event = std::move(options.on_event)};
    return std::make_shared<detail::AnswerBuffer>(std::move(settings), std::move(prepared));
  }

  template <class Taken, class Of>
  Taken take_out(RequestId request, const Of& of) {
    std::optional<Taken> taken;
    run_on_thread([&] { taken = loop_->take_out(request, of); });
    return *std::move(taken);
  }

  // Runs job() between two steps, and waits for it.
  template <class Job>
  void run_on_thread(Job job) {
    inbox_->refuse_child();
    detail::require(!inbox_->on_service_thread(), "service", "would wait for its own thread");
    inbox_->run(job);
  }

  bool drain_until(TimePoint until) {
    inbox_->refuse_child();
    detail::require(!inbox_->on_service_thread(), "drain", "would wait for its own thread; a callback may close()");
    inbox_->close();
    return inbox_->wait_stopped(until);
  }

  // In a child of fork(): the engine's threads are not there to be joined either.
  void leak() noexcept {
    detail::leak(std::move(thread_));
    detail::leak(std::move(loop_));
    detail::leak(std::move(engine_));
    detail::leak(std::move(inbox_));
  }

  std::unique_ptr<E> engine_;  // the loop's; here it is asked for what never changes, and for leases
  std::shared_ptr<detail::ServiceInbox> inbox_;
  std::unique_ptr<detail::ServiceLoop<E>> loop_;
  std::thread thread_;  // last: it runs when all else is there
};

}  // namespace tenon
