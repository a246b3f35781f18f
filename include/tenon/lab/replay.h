// The scheduler laboratory. A trace runs through the real queue, the real policy and the real ledger of a paged cache,
// on a virtual clock that each step advances by the cost model. It uses no model and no real time: a trace gives the
// same result on every machine, and an hour of traffic takes about a second.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/cache/block_ledger.h"
#include "tenon/core/concepts.h"
#include "tenon/core/concepts/scheduler_hooks.h"
#include "tenon/lab/cost.h"
#include "tenon/lab/trace.h"
#include "tenon/schedule/queue.h"

namespace tenon::lab {

/// Options of replay().
struct ReplayOptions {
  int token_budget = 512;    ///< rows of a step, as in EngineOptions
  int cache_tokens = 32768;  ///< capacity for all sequences, in blocks of 16
  bool prefix_reuse = true;  ///< requests share cached prefixes, as in EngineOptions
  StepCost cost = {};        ///< how long a step takes
  std::chrono::nanoseconds nap = std::chrono::microseconds(200);  ///< clock step while the scheduler waits
  bool drains = true;        ///< tell the scheduler when the last request has arrived
  double input_weight = 1;   ///< service of an adapter for a token of the prompt, as in FairPolicy
  double output_weight = 2;  ///< and for a token of the answer
};

/// The outcome of one request.
struct RequestResult {
  int adapter = -1;
  int prompt_tokens = 0, new_tokens = 0;
  std::chrono::nanoseconds arrival{}, admitted{}, first_token{}, finished{};  ///< since the start of the trace
  int preemptions = 0;
  bool refused = false;  ///< the cache could never hold it; of the times, only `arrival` is set
  friend bool operator==(const RequestResult&, const RequestResult&) = default;
};

/// A request's time in one slot of the batch. It takes the lowest free slot. A preemption ends the stay.
struct Stay {
  int slot = 0, request = 0;
  std::chrono::nanoseconds begin{}, end{};
  std::uint64_t first_step = 0, last_step = 0;  ///< from 0
  friend bool operator==(const Stay&, const Stay&) = default;
};

/// Service and time of an adapter while it was contended: while it and another adapter had unfinished requests.
struct AdapterResult {
  int adapter = -1;
  double contended_service = 0;
  std::chrono::nanoseconds contended{};
  friend bool operator==(const AdapterResult&, const AdapterResult&) = default;
};

/// The result of replay().
struct ReplayResult {
  std::vector<RequestResult> requests;  ///< in the order of the trace
  std::vector<Stay> stays;              ///< in the order of their ends
  std::vector<AdapterResult> adapters;  ///< in the order of their numbers
  /// Counts as in QueueStats.
  std::uint64_t steps = 0, sequences = 0, rows = 0, preemptions = 0, prefix_hit_tokens = 0;
  std::chrono::nanoseconds end{}, busy{};  ///< end of the last step; total time in steps
  friend bool operator==(const ReplayResult&, const ReplayResult&) = default;
};

/// A step, as the observer of replay() sees it afterwards. References are valid during the call.
struct StepSeen {
  std::chrono::nanoseconds begin, end;
  const Plan& plan;
  std::span<const Served> served;
};

namespace detail {

// A token of a request. Requests with the same prefix share its tokens; all other tokens are unique to the request.
inline TokenId trace_token(const TraceRequest& request, int index, int position) {
  const bool shared = position < request.prefix_tokens;
  std::uint64_t z = static_cast<std::uint64_t>(shared ? request.prefix : index) << 33 | std::uint64_t{shared} << 32;
  z = (z + static_cast<std::uint64_t>(position) + 1) * 0x9e3779b97f4a7c15U;
  return static_cast<TokenId>((z ^ (z >> 32)) & 0x7fffffff);
}

// Wraps a policy and records the service that the queue reports to it.
template <class P>
struct Overheard {
  static_assert(sizeof(tenon::detail::CheckedHooks<P>) > 0);
  P policy;
  std::vector<Served>* heard;

  void plan(const QueueState& state, PlanWriter& out) { policy.plan(state, out); }
  SeqId victim(const QueueState& state) requires ChoosesVictim<P> { return policy.victim(state); }
  void served(std::span<const Served> step) {
    heard->assign(step.begin(), step.end());
    if constexpr (KeepsAccounts<P>) policy.served(step);
  }
};

// The slots of the batch and the requests in them.
class Slots {
 public:
  void sit(int request, SeqId seq, std::chrono::nanoseconds begin, std::uint64_t step) {
    auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.taken; });
    if (free == slots_.end()) free = slots_.insert(free, {{.slot = static_cast<int>(slots_.size())}});
    free->taken = true;
    free->seq = seq;
    free->stay.request = request;
    free->stay.begin = begin;
    free->stay.first_step = step;
  }
  bool sits(SeqId seq) const {
    return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.taken && s.seq == seq; });
  }
  // Ends the stays of all sequences for which gone(seq) is true. `last_step` is the last step that they could take part
  // in.
  template <class Gone>
  void leave(std::chrono::nanoseconds end, std::uint64_t last_step, std::vector<Stay>& stays, Gone&& gone) {
    for (Slot& s : slots_) {
      if (!s.taken || !gone(s.seq)) continue;
      s.taken = false;
      s.stay.end = end;
      s.stay.last_step = last_step;
      stays.push_back(s.stay);
    }
  }

 private:
  struct Slot {
    Stay stay;
    SeqId seq = 0;
    bool taken = false;
  };
  std::vector<Slot> slots_;
};

// Service per adapter while at least two adapters have unfinished requests.
class Contention {
 public:
  void come(int adapter) { count(adapter, +1); }
  void go(int adapter) { count(adapter, -1); }
  void pass(std::chrono::nanoseconds time) { clock_ += active_ > 1 ? time : time.zero(); }
  void serve(int adapter, double service) { adapters_[adapter].service += active_ > 1 ? service : 0; }

  std::vector<AdapterResult> results() const {
    std::vector<AdapterResult> out;
    for (const auto& [adapter, a] : adapters_) out.push_back({adapter, a.service, a.time});
    return out;
  }

 private:
  struct Adapter {
    int unfinished = 0;
    double service = 0;
    std::chrono::nanoseconds since{}, time{};  // on clock_
  };
  void count(int adapter, int change) {
    Adapter& a = adapters_[adapter];
    if (a.unfinished == 0) a.since = clock_, ++active_;
    a.unfinished += change;
    if (a.unfinished == 0) a.time += clock_ - a.since, --active_;
  }
  std::map<int, Adapter> adapters_;
  int active_ = 0;                    // adapters with unfinished requests
  std::chrono::nanoseconds clock_{};  // stops while fewer than two adapters have some
};

template <class P, class OnStep>
class Replayer {
 public:
  Replayer(P policy, const Trace& trace, const ReplayOptions& options, OnStep on_step)
      : trace_(trace),
        options_(checked(options)),
        on_step_(std::move(on_step)),
        ledger_(Ledger::blocks_of(options.cache_tokens), kLongestText),
        queue_(Overheard<P>{std::move(policy), &heard_}) {
    queue_.set_prefix_reuse(options.prefix_reuse);
  }
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  ReplayResult run() {
    const auto earlier = [](const TraceRequest& a, const TraceRequest& b) { return a.arrival < b.arrival; };
    tenon::detail::require(std::is_sorted(trace_.begin(), trace_.end(), earlier), "trace",
                           "must be in order of arrival");
    result_.requests.resize(trace_.size());
    while (submit_arrivals(), next_ < trace_.size() || !queue_.empty()) {
      if (queue_.empty()) {
        pass(trace_[next_].arrival - now_);
        continue;
      }
      const Plan& plan = queue_.plan(ledger_, options_.token_budget, at(now_));
      if (plan.slices.empty())
        nap();
      else
        step(plan);
    }
    const QueueStats& stats = queue_.stats();
    result_.steps = stats.steps;
    result_.sequences = stats.sequences;
    result_.rows = stats.rows;
    result_.preemptions = stats.preemptions;
    result_.prefix_hit_tokens = stats.prefix_hit_tokens;
    result_.adapters = contention_.results();
    return std::move(result_);
  }

 private:
  static constexpr int kLongestText = 1 << 20;  // longer than any model's, and short enough for a table of blocks
  using Ledger = BlockLedger<16>;
  using Time = std::chrono::nanoseconds;

  static const ReplayOptions& checked(const ReplayOptions& o) {
    using tenon::detail::require;
    require(o.token_budget >= 1, "token_budget", "must be 1 or more");
    require(o.cache_tokens >= 1 && o.cache_tokens <= 1 << 28, "cache_tokens", "must lie in 1..2^28");
    require(o.nap > Time::zero(), "nap", "must be above 0");
    const StepCost& c = o.cost;
    for (const double part : {c.step, c.row, c.context}) {
      require(part >= 0 && part <= 1e3, "cost", "must be 0 to 1,000 seconds per part");
    }
    return o;
  }

  static TimePoint at(Time time) { return TimePoint{} + std::chrono::duration_cast<Clock::duration>(time); }
  static Time since_start(TimePoint time) { return std::chrono::duration_cast<Time>(time - TimePoint{}); }
  RequestResult& result(int request) { return result_.requests[static_cast<std::size_t>(request)]; }

  static constexpr Time kMostTime = std::chrono::hours(24 * 365 * 140);

  void pass(Time time) {
    if (time > kMostTime - now_) {
      throw Error(Error::Kind::invalid_request, "cost",
                  "lets the clock run for more than 140 years; make steps shorter");
    }
    contention_.pass(time);
    now_ += time;
  }

  void submit_arrivals() {
    for (; next_ < trace_.size() && trace_[next_].arrival <= now_; ++next_)
      submit(trace_[next_], static_cast<int>(next_));
    queue_.set_draining(options_.drains && next_ == trace_.size());
  }

  void submit(const TraceRequest& request, int index) {
    result(index) = {.adapter = request.adapter,
                     .prompt_tokens = request.prompt_tokens,
                     .new_tokens = request.new_tokens,
                     .arrival = request.arrival};
    if (request.prompt_tokens > ledger_.capacity_tokens()) {  // before allocating a hostile number of tokens
      result(index).refused = true;
      return;
    }
    std::vector<TokenId> tokens(static_cast<std::size_t>(request.prompt_tokens));
    for (int i = 0; i < request.prompt_tokens; ++i)
      tokens[static_cast<std::size_t>(i)] = trace_token(request, index, i);
    try {
      queue_.add({.request = static_cast<RequestId>(index),
                  .tokens = std::move(tokens),
                  .max_new_tokens = request.new_tokens,
                  .arrival = at(request.arrival),
                  .adapter = request.adapter,
                  .priority = request.priority,
                  .identity = request.adapter < 0 ? "" : std::to_string(request.adapter)},
                 ledger_);
      contention_.come(request.adapter);
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::capacity) throw;
      result(index).refused = true;
    }
  }

  // Advances the clock while the scheduler waits for more requests, as an engine does. Longer waits take longer clock
  // steps: a departure is late by at most a thousandth of the wait.
  void nap() {
    const Time length = std::max(options_.nap, waited_ / 1024);
    const bool all_came = next_ == trace_.size();
    if (all_came && waited_ > std::chrono::hours(24)) {
      throw Error(Error::Kind::internal, "scheduler",
                  "runs none of the " + std::to_string(queue_.waiting()) +
                      " waiting requests, though a day has passed and no other request will arrive");
    }
    const Time passes = all_came ? length : std::min(length, trace_[next_].arrival - now_);
    waited_ += passes;
    pass(passes);
  }

  void step(const Plan& plan) {
    waited_ = {};
    const Time begin = now_;
    const std::uint64_t number = queue_.stats().steps;
    seat(plan, number);
    long long context = 0;
    ending_.clear();
    for (const Plan::Slice& slice : plan.slices) {
      context += queue_.sequence(slice.seq).cached + slice.tokens;
      if (queue_.ends_known_tokens(slice)) ending_.push_back(slice.seq);
    }
    const Time length = options_.cost(plan.rows, context);
    pass(length);
    result_.busy += length;
    result_.end = now_;
    queue_.commit(plan, ledger_);
    for (const Served& s : heard_) {
      contention_.serve(s.adapter, options_.input_weight * s.prompt_tokens + options_.output_weight * s.new_tokens);
    }
    for (const SeqId seq : ending_) advance(seq, number);
    on_step_(StepSeen{begin, now_, plan, heard_});
  }

  void seat(const Plan& plan, std::uint64_t number) {
    const auto preempted = [&](SeqId seq) { return queue_.sequence(seq).state != Sequence::State::running; };
    slots_.leave(now_, number - 1, result_.stays, preempted);
    for (const Plan::Slice& slice : plan.slices) {
      if (slots_.sits(slice.seq)) continue;
      slots_.sit(static_cast<int>(queue_.sequence(slice.seq).request), slice.seq, now_, number);
    }
  }

  // Appends a new token and finishes the request if it is the last.
  void advance(SeqId seq, std::uint64_t step) {
    const int index = static_cast<int>(queue_.sequence(seq).request);
    RequestResult& r = result(index);
    queue_.append(seq, trace_token(trace_[static_cast<std::size_t>(index)], index, queue_.sequence(seq).known()));
    const Sequence& s = queue_.sequence(seq);
    if (s.generated() == 1) r.first_token = now_;
    if (s.remaining() > 0) return;
    r.admitted = since_start(s.admitted);
    r.finished = now_;
    r.preemptions = s.preemptions;
    slots_.leave(now_, step, result_.stays, [&](SeqId other) { return other == seq; });
    contention_.go(r.adapter);
    queue_.finish(seq, ledger_);
  }

  const Trace& trace_;
  const ReplayOptions options_;
  OnStep on_step_;
  Ledger ledger_;
  std::vector<Served> heard_;
  RequestQueue<Overheard<P>> queue_;
  Slots slots_;
  Contention contention_;
  std::vector<SeqId> ending_;
  std::size_t next_ = 0;
  Time now_{}, waited_{};
  ReplayResult result_;
};

struct Unwatched {
  void operator()(const StepSeen&) const {}
};

}  // namespace detail

/// Replays a trace under a policy of the library or of your own. `on_step` is called after each step. Error
/// invalid_request if the trace is not in order of arrival or an option is out of range.
template <class P, class OnStep = detail::Unwatched>
ReplayResult replay(P policy, const Trace& trace, const ReplayOptions& options = {}, OnStep on_step = {}) {
  static_assert(SchedulerPolicy<P>,
                "tenon: lab::replay got a type that is no scheduler; it needs to be copyable and to have void "
                "plan(const QueueState&, PlanWriter&); see docs/policies.md#scheduler");
  if constexpr (SchedulerPolicy<P>)
    return detail::Replayer<P, OnStep>(std::move(policy), trace, options, std::move(on_step)).run();
  else
    return {};  // one error is enough
}

}  // namespace tenon::lab
