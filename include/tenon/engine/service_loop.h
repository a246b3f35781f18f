// The loop of a service's thread: it gives the engine new requests, steps it, and brings every event to its answer.
#pragma once
#include <algorithm>
#include <bitset>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/request.h"
#include "tenon/engine/failure.h"
#include "tenon/engine/progress.h"
#include "tenon/engine/service_inbox.h"
#include "tenon/engine/snapshot.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

/// An engine that a service can run; the functions mean what those of Engine mean. prepare() is called from any thread.
template <class E>
concept ServesRequests = requires(E& engine, const E& state, Request request, PreparedRequest prepared, RequestId id) {
  { state.prepare(std::move(request)) } -> std::same_as<PreparedRequest>;
  { engine.enqueue(std::move(prepared)) } -> std::same_as<RequestId>;
  { engine.cancel(id, FinishReason::deadline) } -> std::same_as<bool>;
  { engine.hold(id) } -> std::same_as<bool>;
  { engine.resume(id) } -> std::same_as<bool>;
  { engine.step() } -> std::convertible_to<std::span<const Event>>;
  engine.set_draining(true);
  { state.idle() } -> std::same_as<bool>;
  { state.stats() } -> std::convertible_to<EngineStats>;
  { state.cache_stats() } -> std::convertible_to<CacheStats>;
  { state.config() } -> std::convertible_to<const ModelConfig&>;
  { state.tokenizer() } -> std::convertible_to<const Tokenizer*>;
};

// An engine that loads and holds adapters (Engine::lease).
template <class E>
concept LeasesAdapters = ServesRequests<E> && requires(E& engine, std::span<const AdapterUse> uses, Patience patience) {
  { engine.lease(uses, std::move(patience)) } -> std::same_as<AdapterLease>;
};

// An engine whose requests go on in another one (Engine::snapshot).
template <class E>
concept MovesRequests = ServesRequests<E> && requires(const E& state, RequestId request) {
  { state.snapshot(request) } -> std::same_as<Snapshot>;
  { state.progress(request) } -> std::same_as<AnswerProgress>;
  { state.full_fingerprint() } -> std::convertible_to<std::string>;
};

namespace detail {

// Used by one thread, except the inbox. No exception ends the thread: it ends requests.
template <class E>
class ServiceLoop {
 public:
  ServiceLoop(E& engine, ServiceInbox& inbox) : engine_(engine), inbox_(inbox) {
    inbox_.update([&](ServiceStats& s) { publish(s); });
  }

  void run() noexcept {
    inbox_.begin();
    for (ServiceInbox::Mail mail;;) {
      inbox_.take(mail);
      for (auto& answer : mail.requests) admit(std::move(answer), mail.stopping);
      mail.requests.clear();
      while (const AnswerPointer answer = inbox_.next(mail.posted)) guarded([&] { attend(*answer); });
      for (auto& job : mail.jobs) job();
      mail.jobs.clear();
      if (mail.stopping) break;
      guarded([&] {
        if (mail.draining) engine_.set_draining(true);
        look_at_clock();
      });
      if (mail.draining && open_.empty()) break;
      if (open_.empty())
        inbox_.wait(TimePoint::max());
      else if (!step())
        inbox_.wait(held_ == open_.size() ? alarm_ : std::min(alarm_, Clock::now() + kNap));
    }
    cancel_all();
    inbox_.end();
  }

  // For jobs (ServiceInbox::run). Ends a request with the reason `moved` after of(engine, id there), which it returns.
  // Error invalid_request, `request`, if it is not open here. Where of() throws, the request goes on.
  template <class Of>
  auto take_out(RequestId request, const Of& of) {
    const auto found = std::find_if(open_.begin(), open_.end(), [request](const auto& each) {
      return each.second.answer->settings().id == request && !each.second.cancelled;
    });
    require(found != open_.end(), "request", "is not open: it has ended, or is another service's");
    auto taken = of(std::as_const(engine_), found->first);
    guarded([&] { cancel(found->second, FinishReason::moved); });
    return taken;
  }

 private:
  // How often a scheduler that waits for company (StaticPolicy) is asked again.
  static constexpr auto kNap = std::chrono::milliseconds(1);

  struct Open {
    AnswerPointer answer;
    std::bitset<kMostChoices> ended{};  // choices
    bool waiting = true;                // no event so far
    bool held = false;
    bool cancelled = false;
    bool freed = false;    // its place
    bool counted = false;  // as ended, by reason
  };

  // Fails all requests where `action` throws: the engine may be in any state.
  template <class Action>
  void guarded(Action&& action) noexcept {
    if (const auto failure = attempt(action)) fail_all(*failure);
  }

  // ---- what comes from the inbox

  // Gives a new request to the engine, unless it was cancelled or its deadline has passed.
  void admit(AnswerPointer answer, bool stopping) noexcept {
    Open entry{std::move(answer)};
    AnswerBuffer& a = *entry.answer;
    auto request = std::exchange(a.request, std::nullopt);  // with its lease, which must not live as long as the stream
    if (stopping || a.wishes().cancels) return end(entry, FinishReason::cancelled);
    if (Clock::now() >= a.settings().deadline) return end(entry, FinishReason::deadline);
    const auto failure = attempt([&] {
      a.in_engine = engine_.enqueue(*std::move(request));
      open_.try_emplace(a.in_engine, entry);
      alarm_ = std::min(alarm_, a.settings().deadline);
    });
    if (!failure) return;
    cancel_quietly(a.in_engine);
    fail(entry, *failure);
  }

  // The reader has cancelled, or made room.
  void attend(AnswerBuffer& answer) {
    const auto found = open_.find(answer.in_engine);
    if (found == open_.end() || found->second.answer.get() != &answer) return;
    Open& entry = found->second;
    const auto wishes = answer.wishes();
    if (wishes.cancels) {
      cancel(entry, FinishReason::cancelled);
    } else if (wishes.resumes && std::exchange(entry.held, false)) {
      --held_;
      inbox_.update([&](ServiceStats& s) { publish(s); });
      engine_.resume(answer.in_engine);
    }
  }

  // Deadlines and stalled readers.
  void look_at_clock() {
    const TimePoint now = Clock::now();
    if (now < alarm_) return;
    const Clock::duration patience = inbox_.options().stall_timeout;
    alarm_ = TimePoint::max();
    for (auto& [id, entry] : open_) {
      if (entry.cancelled) continue;
      const TimePoint deadline = entry.answer->settings().deadline;
      const bool stalls = entry.held && patience > Clock::duration::zero();
      const TimePoint stall = stalls ? after(patience, entry.answer->read_at()) : TimePoint::max();
      if (now >= deadline) {
        cancel(entry, FinishReason::deadline);
      } else if (now >= stall) {
        inbox_.update([](ServiceStats& s) { ++s.stalled; });
        cancel(entry, FinishReason::cancelled);
      } else {
        alarm_ = std::min({alarm_, deadline, stall});
      }
    }
  }

  // ---- what goes to the engine, and comes from it

  void cancel(Open& entry, FinishReason reason) {
    if (!std::exchange(entry.cancelled, true)) engine_.cancel(entry.answer->in_engine, reason);
  }

  // Cancels without an event for the reader: the caller ends the answer.
  void cancel_quietly(RequestId id) noexcept {
    const auto ignored = attempt([&] { engine_.cancel(id, FinishReason::error); });
    static_cast<void>(ignored);
  }

  void hold(Open& entry) {
    entry.held = true;
    ++held_;
    const Clock::duration patience = inbox_.options().stall_timeout;
    if (patience > Clock::duration::zero()) alarm_ = std::min(alarm_, after(patience));
    inbox_.update([&](ServiceStats& s) {
      ++s.holds;
      publish(s);
    });
    engine_.hold(entry.answer->in_engine);
  }

  // False if there was nothing to do.
  bool step() noexcept {
    bool worked = true;
    guarded([&] {
      const std::uint64_t before = engine_.stats().steps;
      const std::span<const Event> events = engine_.step();
      const bool stepped = engine_.stats().steps != before;
      if (stepped) failures_ = 0;
      settle(events);
      deliver(events);
      worked = stepped || !events.empty();
      if (!worked && engine_.idle()) {
        throw Error(Error::Kind::internal, "engine", "has lost " + std::to_string(open_.size()) + " requests");
      }
    });
    return worked;
  }

  // Counts the events of a step before they are delivered: a reader of an end finds its place free.
  void settle(std::span<const Event> events) {
    inbox_.update([&](ServiceStats& s) {
      for (const Event& event : events) {
        const auto found = open_.find(event.request);
        if (found != open_.end()) count(found->second, event.last, event.reason, s);
      }
      publish(s);
    });
  }

  void deliver(std::span<const Event> events) {
    changed_.clear();
    const TimePoint now = Clock::now();
    for (const Event& event : events) {
      const auto found = open_.find(event.request);
      if (found == open_.end()) continue;
      Open& entry = found->second;
      if (event.kind != Event::Kind::token) entry.ended.set(static_cast<std::size_t>(event.choice));
      Event own = event;
      own.request = entry.answer->settings().id;
      own.came = now;
      Brought brought = bring(entry, std::move(own));
      if (event.last)
        open_.erase(found);
      else if (brought.full || brought.failure)
        changed_.emplace_back(event.request, std::move(brought.failure));
    }
    for (const auto& [id, failure] : changed_) {  // only now: the events are valid until the engine is called
      const auto found = open_.find(id);
      if (found == open_.end()) continue;
      if (!failure) {
        hold(found->second);
      } else {
        cancel_quietly(id);
        fail(found->second, *failure);
        open_.erase(found);
      }
    }
  }

  struct Brought {
    bool full = false;                    // hold the request
    std::optional<Failure> failure = {};  // the request fails so
  };

  // Brings an event to its answer. A request with a callback is counted as ended here: after the last call, which may
  // throw, and before its reader sees the end.
  Brought bring(Open& entry, Event event) {
    AnswerBuffer& answer = *entry.answer;
    std::optional<Failure> failure = answer.call(event);
    if (event.last && answer.calls()) {
      inbox_.update(
          [&](ServiceStats& s) { count_end(entry, answer.has_thrown() ? FinishReason::error : event.reason, s); });
    }
    const bool full = answer.put(std::move(event));
    return {full, std::move(failure)};
  }

  // ---- ends that do not come from the engine

  void end(Open& entry, FinishReason reason) noexcept {
    const AnswerSettings& settings = entry.answer->settings();
    inbox_.update([&](ServiceStats& s) { count(entry, true, reason, s); });
    const auto choices = static_cast<std::size_t>(settings.choices);
    const auto failure = attempt([&] {
      for (std::size_t left = choices - entry.ended.count(), choice = 0; choice < choices; ++choice) {
        if (entry.ended[choice]) continue;
        bring(entry, {.kind = Event::Kind::finished,
                      .request = settings.id,
                      .choice = static_cast<int>(choice),
                      .last = --left == 0,
                      .reason = reason});
      }
    });
    if (failure) abort(entry);
  }

  void fail(Open& entry, const Failure& why) noexcept {
    inbox_.update([&](ServiceStats& s) { count(entry, true, FinishReason::error, s); });
    const auto failure = attempt([&] { bring(entry, why.event(entry.answer->settings().id)); });
    if (failure) abort(entry);
  }

  // There was no memory to bring the end.
  void abort(Open& entry) noexcept {
    inbox_.update([&](ServiceStats& s) { count_end(entry, FinishReason::error, s); });
    entry.answer->abort();
  }

  void fail_all(const Failure& why) noexcept {
    ++failures_;
    const auto silent = attempt([&] {
      inbox_.update([&](ServiceStats& s) {
        ++s.failed_steps;
        publish(s);
        s.last_failure = why.what;
      });
    });
    static_cast<void>(silent);
    for (auto& [id, entry] : open_) {
      cancel_quietly(id);
      fail(entry, why);
    }
    open_.clear();
  }

  void cancel_all() noexcept {
    guarded([&] {
      for (auto& [id, entry] : open_) cancel(entry, FinishReason::cancelled);
      if (open_.empty()) return;
      const std::span<const Event> events = engine_.step();  // nothing runs any more: it hands out the ends
      settle(events);
      deliver(events);
    });
    for (auto& [id, entry] : open_) end(entry, FinishReason::cancelled);
    open_.clear();
  }

  // ---- numbers

  // Frees the place of a request at its last event.
  void count(Open& entry, bool last, FinishReason reason, ServiceStats& s) {
    if (std::exchange(entry.waiting, false)) {
      --s.waiting;
      s.waiting_tokens -= entry.answer->settings().prompt_tokens;
    }
    if (!last || std::exchange(entry.freed, true)) return;
    --s.open;
    if (std::exchange(entry.held, false)) s.held = static_cast<int>(--held_);
    if (!entry.answer->calls()) count_end(entry, reason, s);
  }

  static void count_end(Open& entry, FinishReason reason, ServiceStats& s) {
    if (std::exchange(entry.counted, true)) return;
    if (reason == FinishReason::error)
      ++s.failed;
    else if (reason == FinishReason::deadline)
      ++s.expired;
    else if (reason == FinishReason::cancelled)
      ++s.cancelled;
    else if (reason == FinishReason::moved)
      ++s.moved;
    else
      ++s.finished;
  }

  void publish(ServiceStats& s) const {
    s.engine = engine_.stats();
    s.cache = engine_.cache_stats();
    s.held = static_cast<int>(held_);
    s.healthy = failures_ < 2;
  }

  E& engine_;
  ServiceInbox& inbox_;
  std::unordered_map<RequestId, Open> open_;                           // by the engine's ids
  std::vector<std::pair<RequestId, std::optional<Failure>>> changed_;  // in a step: failed, or (none) to be held
  std::size_t held_ = 0;                                               // of open_
  TimePoint alarm_ = TimePoint::max();                                 // no deadline and no reader's time ends before
  int failures_ = 0;                                                   // steps in a row that threw
};

}  // namespace detail
}  // namespace tenon
