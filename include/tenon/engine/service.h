// A service: an engine, the thread that steps it, and answers as streams. Any thread submits; none waits for a step.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
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

namespace tenon {

struct SubmitOptions {
  TimePoint deadline = TimePoint::max();  // the answer ends then, with the reason `deadline` and its tokens so far; the
                                          // scheduler sees the earliest of it, `timeout` and Options::deadline
  Clock::duration timeout{};              // the same, from now on; 0: none
  Clock::duration
      adapter_wait{};  // so long submit waits for room among the adapters where all are in use; 0: not at all
  std::function<bool()> wanted = {};  // and no longer than this is true, asked some times a second; none: always
  EventCallback on_event = {};        // called with every event, on the service's thread: it must not block
};

// Adapters are read, and waited for, in the thread that submits.
//
// Threads. The service's own thread steps the engine and runs the callbacks. submit, close, stats and the streams may
// be used from any thread, and from callbacks; they share the inbox's mutex with it for moments, never for a step or a
// callback. drain, stop and the destructor wait for the thread.
//
// Failures. A step that throws ends all open requests with its message, and the service goes on with those that come;
// after two such steps in a row it calls itself unhealthy (stats), until one succeeds.
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
  // These construct the engine in place, from the other arguments.
  template <class... Arguments>
  requires std::constructible_from<E, Arguments...>
  explicit Service(ServiceOptions options, Arguments&&... arguments)
      : Service(std::make_unique<E>(std::forward<Arguments>(arguments)...), options) {}
  template <class... Arguments>
  requires std::constructible_from<E, Arguments...>
  explicit Service(Arguments&&... arguments) : Service(ServiceOptions{}, std::forward<Arguments>(arguments)...) {}

  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Cancels what is open. Not from a callback.
  ~Service() {
    if (inbox_->in_child()) {
      leak();
    } else {
      inbox_->stop();
      thread_.join();
    }
  }

  // Takes a request, or throws: Error::Kind::overloaded where a limit of ServiceOptions is reached or the service is
  // closed, else what Engine::submit throws. Reads the prompt in the caller's thread; never waits for a step.
  AnswerStream submit(Request request, SubmitOptions options = {}) {
    inbox_->refuse_child();
    inbox_->admit();
    detail::AnswerPointer answer;
    try {
      answer = prepare(std::move(request), std::move(options));
    } catch (const Error&) {
      inbox_->count_invalid();
      throw;
    }
    inbox_->accept(answer);
    return AnswerStream(inbox_, std::move(answer));
  }

  // From now on nothing new is taken; what is open goes on. Does not wait.
  void close() {
    inbox_->refuse_child();
    inbox_->close();
  }

  // close(), and waits until all that is open has ended, and the thread with it. What nobody reads is ended by its
  // stall_timeout.
  void drain() { drain_until(TimePoint::max()); }
  // False if something is still open after the time of grace; stop() cuts it short.
  bool drain_for(Clock::duration grace) { return drain_until(detail::after(grace)); }

  // Cancels what is open, and waits until the thread has ended: at most a step. From a callback it does not wait.
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

  // All that could refuse the request is asked here, of facts that never change; but whose lease it brings, which the
  // engine asks.
  detail::AnswerPointer prepare(Request request, SubmitOptions options) {
    detail::require(options.timeout >= Clock::duration::zero(), "timeout", "must be 0 (none) or more");
    detail::require(options.adapter_wait >= Clock::duration::zero(), "adapter_wait", "must be 0 (none) or more");
    if (options.timeout > Clock::duration::zero()) {
      options.deadline = std::min(options.deadline, detail::after(options.timeout));
    }
    request.options.deadline = options.deadline = std::min(options.deadline, request.options.deadline);
    PreparedRequest prepared = engine_->prepare(std::move(request));
    if constexpr (requires { engine_->lease(prepared.adapters(), options.deadline); }) {
      if (!prepared.lease().set) {
        const TimePoint until = std::min(options.deadline, detail::after(options.adapter_wait));
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
