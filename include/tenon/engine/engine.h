// The engine: policies composed at compile time, requests in, events out.
#pragma once
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/adapter/no_adapter.h"
#include "tenon/adapter/segmented.h"
#include "tenon/cache/paged.h"
#include "tenon/cache/store.h"
#include "tenon/core/axes.h"
#include "tenon/core/request.h"
#include "tenon/device/memory_count.h"
#include "tenon/engine/active_requests.h"
#include "tenon/engine/admission.h"
#include "tenon/engine/completion.h"
#include "tenon/engine/fingerprint.h"
#include "tenon/engine/formats.h"
#include "tenon/engine/launched_step.h"
#include "tenon/engine/make.h"
#include "tenon/engine/options.h"
#include "tenon/engine/picker.h"
#include "tenon/engine/retired_adapters.h"
#include "tenon/engine/stats.h"
#include "tenon/model/decoder.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/all.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/queue.h"
#include "tenon/weights/float32.h"

namespace tenon {
namespace detail {
template <class>
inline constexpr bool kMisused = false;
}  // namespace detail

template <class Model, class... Choices>
class Engine : private detail::SteppedEngine {
  static_assert(ModelTraits<Model>,
                "tenon: Engine<Model, ...> needs a model first, such as Gpt2; see docs/policies.md#model");
  static_assert(sizeof(detail::CheckChoices<Choices...>) > 0 && ((sizeof(Choices) > 0) && ...));

 public:
  using SchedulerP = detail::policy_of<scheduler_axis, Scheduler<ContinuousPolicy>, Choices...>;
  using CacheP = detail::policy_of<cache_axis, Cache<PagedKV>, Choices...>;
  using WeightP = detail::policy_of<weights_axis, Weights<Float32>, Choices...>;
  using HeadP = detail::policy_of<head_axis, Head<WeightP>, Choices...>;
  using AdapterP = detail::policy_of<adapter_axis, Adapter<SegmentedLoRA>, Choices...>;
  using AttentionP = detail::policy_of<attention_axis, Attention<FlashAttention>, Choices...>;
  using DeviceP = detail::policy_of<device_axis, Device<Cpu>, Choices...>;
  using WeightView = typename WeightP::View;
  using HeadView = typename HeadP::View;
  using CacheViewT = typename CacheP::View;
  static_assert(!AdapterP::adds_at_runtime || AddsLowRank<DeviceP>,
                "tenon: this Device lacks the op low_rank; use Adapter<NoAdapter>; see docs/policies.md#adapter");
  static_assert(
      !PicksAhead<DeviceP, HeadView> || requires { requires DeviceP::runs_behind; },
      "tenon: this Device picks ahead and does not say runs_behind; say it, so that what a step reads outlives it; see "
      "docs/policies.md#device");
  static_assert(RunsTransformer<DeviceP, WeightView, HeadView, CacheViewT, AttentionP>,
                "tenon: this Device lacks an op for this Weights, Head, Cache and Attention; include its ops (cpu: "
                "tenon/tenon.h), or overload attention(Device&, YourTag, args); see docs/policies.md#device");

  // Reads the weights; the files may be used for other engines, too. Errors name file and field.
  explicit Engine(const ModelFiles& files, EngineOptions options = {}) : Engine(files, SchedulerP{}, options) {}
  // A template, so that braces that could mean both, as in Engine{files, {.token_budget = 24}}, mean EngineOptions.
  template <class = void>
  Engine(const ModelFiles& files, SchedulerP scheduler, EngineOptions options = {})
      : options_(checked(options)),
        config_(with_positions(detail::configure<Model>(files), options_.positions,
                               Model::positions == PositionKind::learned)),
        tokenizer_(files.tokenizer),
        device_(detail::make_device<DeviceP>(options)),
        weights_(detail::make_weights<Model, WeightP, HeadP, AdapterP>(device_, options_, files)),
        cache_(make_cache<CacheP>(device_, options_, config_)),
        queue_(std::move(scheduler), CacheP::keeps_tokens),
        picker_(device_.threads()),
        state_(config_),
        adapters_(detail::make_adapters<Model, AdapterP, DeviceP>(options_, config_, files)) {
    queue_.set_prefix_reuse(options_.prefix_reuse);
    queue_.set_window(config_.window);
  }

  Engine(Engine&&) = default;
  Engine& operator=(Engine&&) = default;
  Engine(const Engine&) = delete;  // it owns its weights and threads: pass it by reference
  // The copy of an engine that is not const. A deleted function cannot give its reason before C++26.
  template <std::same_as<Engine> E>
  Engine(E&) : Engine(ModelFiles{}) {
    static_assert(detail::kMisused<E>,
                  "tenon: an Engine is not copied, as it owns its weights and threads; pass it by reference, or make "
                  "another one from the same ModelFiles");
  }

  // Takes a request, or refuses it with an Error that names the field. Its events come from step(). Adapters that it
  // holds no lease of are read here, unless they are resident.
  RequestId submit(Request request) {
    validate(request.options);
    auto tokens = prompt_tokens(request, tokenizer_.get(), config_.positions);
    check_against_model(request.options, tokens, config_, tokenizer_ != nullptr);
    check_constraint(request, config_);
    request.lease = lease_of(request);
    const Options& o = request.options;
    const RequestId id = next_request_++;
    std::vector<SeqId> choices;
    choices.reserve(static_cast<std::size_t>(std::max(o.n, o.best_of)));
    try {
      for (int choice = 0; choice < std::max(o.n, o.best_of); ++choice) {
        choices.push_back(queue_.add({.request = id,
                                      .choice = choice,
                                      .tokens = tokens,
                                      .max_new_tokens = o.max_new_tokens,
                                      .arrival = Clock::now(),
                                      .adapter = request.lease.tenant,
                                      .priority = o.priority,
                                      .client = o.client,
                                      .ordinal = o.ordinal + choice,
                                      .identity = cache_identity(o, config_, tokens.size(), request.lease.identity),
                                      .adapters = request.lease.set,
                                      .reuse_limit = choice == 0 ? reuse_limit(o) : std::numeric_limits<int>::max(),
                                      .parent = choice == 0 ? kNoParent : choices.front()},
                                     cache_.ledger()));
      }
      active_.open(id, o, choices, tokenizer_.get(), request.constraint.get());
    } catch (...) {  // all of its answers or none
      for (const SeqId seq : choices) queue_.cancel(seq, cache_.ledger());
      active_.forget(id, choices);
      throw;
    }
    return id;
  }

  // The adapters that a request names, loaded and held, for Request::lease. From any thread, while others step: then it
  // may wait for room, too (AdapterStore::lease).
  AdapterLease lease(std::span<const AdapterUse> uses, [[maybe_unused]] Patience patience = {}) {
    if constexpr (AdapterP::adds_at_runtime) return adapters_->lease(uses, std::move(patience));
    if (!uses.empty()) refuse_adapters();
    return {};
  }
  // Those that are resident, and what can be done with them; from any thread.
  auto& adapters() requires(AdapterP::adds_at_runtime) { return *adapters_; }
  // How the rows of the next steps are taken together; between steps.
  AdapterP& adapter_policy() { return adapter_policy_; }

  // Ends a request; false if it has ended already. What it wrote until then stands; its last event says `reason`.
  bool cancel(RequestId request, FinishReason reason = FinishReason::cancelled) {
    const auto* writing = active_.writing(request);
    if (!writing) return false;
    for (const SeqId seq : std::vector<SeqId>(*writing)) finish(seq, reason, active_.output(seq).text().finish());
    return true;
  }

  // A held request gives its cache back and is not scheduled, for its reader is slow; it keeps its place, and what it
  // has computed may still be found when it is resumed. False if it has ended, or is (not) held already.
  bool hold(RequestId request) {
    return for_all(request, [&](SeqId seq) { return queue_.hold(seq, cache_.ledger()); });
  }
  bool resume(RequestId request) {
    return for_all(request, [&](SeqId seq) { return queue_.resume(seq); });
  }

  // One step of whatever the scheduler picks: at most token_budget rows. The events are valid until the next call.
  // Nothing is done, and nothing returned, while the scheduler waits for company (StaticPolicy) or there is no work.
  // Where it throws, the next step goes on with everybody; only what was computed and could not be booked fails its
  // requests. A device that picks tokens itself is given the step behind this one, too, before this one's tokens are
  // known here; where that cannot be launched, the next call says so.
  std::span<const Event> step() {
    events_.clear();
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
    const auto begin = Clock::now();
    const bool launched_before = launched_;
    if (!launched_before && !launch(begin)) {
      retired_.release(device_);
      return hand_out();
    }
    std::swap(step_, next_);
    launched_ = false;
    if (launched_before) step_.forget_gone(queue_, active_);
    if (!step_.picks_ahead) picker_.run(device_, step_, weights_.parts().head, config_, queue_, active_);
    try {
      queue_.commit(step_.plan, cache_.ledger());
      if (step_.picks_ahead) {
        launch_behind();
        picker_.collect(step_, queue_, active_);
      }
      end_step();
    } catch (const std::exception& error) {
      fail_steps(error.what());
      throw;
    } catch (...) {
      fail_steps("failed");
      throw;
    }
    if (active_.size() == 0) {
      launched_ = false;  // for nobody
      failed_ = nullptr;
      retired_.release(device_);
    }
    const auto end = Clock::now();
    stats_.seconds += std::chrono::duration<double>(end - begin).count();
    update_stats();
    const auto began = std::max(step_.begin, std::exchange(last_end_, end));
    if (options_.on_step) options_.on_step({stats_.steps, began, end, step_.report});
    return hand_out();
  }

  // Requests that have not ended.
  int pending() const { return static_cast<int>(active_.size()); }
  bool idle() const { return active_.size() == 0 && active_.events().empty(); }

  // Says that nothing else will be submitted, so that a scheduler that waits for company need not.
  void set_draining(bool draining) { queue_.set_draining(draining); }

  // Tokens as they come: for (auto& token : engine.generate("Once", {.max_new_tokens = 10})) ... Throws Error where the
  // request is refused or fails. Other requests run beside it; their events wait for the next step(). The engine must
  // outlive the range and stay where it is, so a temporary one is refused.
  TokenRange generate(std::string prompt, Options options = {}) & {
    return generate(Request{.prompt = std::move(prompt), .options = std::move(options)});
  }
  TokenRange generate(std::vector<TokenId> input_ids, Options options = {}) & {
    return generate(Request{.input_ids = std::move(input_ids), .options = std::move(options)});
  }
  TokenRange generate(Request request) & {
    detail::require(request.options.n == 1 && request.options.best_of <= 1, "n",
                    "must be 1 here: generate() yields one answer");
    return {*this, submit(std::move(request))};
  }
  template <class E = Engine, class Input = Request>
  TokenRange generate(Input&&, Options = {}) && {
    static_assert(
        detail::kMisused<E>,
        "tenon: generate() reads from the Engine as long as its tokens are read, and a temporary Engine is gone "
        "by then; give it a name first: auto engine = Engine{files}");
    return generate(Request{});
  }

  // Runs all requests together and returns their answers in the order of input; a refused one has reason error. One for
  // whose adapters there is no room waits, with those behind it, for the end of another.
  std::vector<Completion> complete(std::vector<Request> requests) { return BatchRun(*this, std::move(requests)).run(); }
  Completion complete(Request request) {
    std::vector<Request> one;
    one.push_back(std::move(request));
    return std::move(complete(std::move(one)).front());
  }

  const ModelConfig& config() const { return config_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  DeviceP& device() { return device_; }
  std::size_t weight_bytes() const { return weights_.bytes(); }
  CacheStats cache_stats() const { return cache_.stats(); }
  // Bytes of the device's memory: weights, cache, adapters and scratch. 0 on a device that does not count them, as the
  // CPU.
  MemoryUse device_memory() const {
    if constexpr (requires { device_.memory_use(); })
      return device_.memory_use();
    else
      return {};
  }
  const EngineStats& stats() const { return stats_; }

  // Names the numeric class and the weights: engines with equal ones give equal bits. Reads all weights, once.
  std::string fingerprint() const {
    std::uint64_t weights = weights_.hash();
    if constexpr (OnTensorCores<WeightView> || OnTensorCores<HeadView> || OnTensorCores<AttentionP>)
      weights = mix64(weights ^ device_.architecture());
    return fingerprint_of<Model, WeightP, HeadP, typename CacheViewT::Element, AttentionP, DeviceP>(config_, weights);
  }

 private:
  // What TokenRange and BatchRun ask.
  RequestId take(Request request) final { return submit(std::move(request)); }
  bool has_lease(Request& request, bool others_run) final { return take_lease(*this, request, others_run); }
  std::vector<Event>& waiting_events() final { return active_.events(); }
  bool exchange_draining(bool draining) final {
    const bool before = queue_.draining();
    queue_.set_draining(draining);
    return before;
  }
  // A step; a nap where the scheduler waits for company.
  std::span<const Event> step_or_wait() final {
    const std::uint64_t before = stats_.steps;
    const auto events = step();
    if (stats_.steps == before && pending() > 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return events;
  }
  // Ends a request of which nobody wants to hear any more.
  void abandon(RequestId request) final {
    cancel(request);
    std::erase_if(active_.events(), [&](const Event& event) { return event.request == request; });
  }

  // Plans a step into next_, and launches it; false where nobody is to run.
  bool launch(TimePoint now) {
    const Plan& plan = queue_.plan(cache_.ledger(), options_.token_budget, now);
    update_stats();
    if (plan.slices.empty()) return false;
    next_.assemble(plan, queue_, active_, options_.on_step != nullptr, now, batch_);
    step_.point_to_picks(batch_);
    batch_.picks = picker_.picks();
    const int prompt_rows = static_cast<int>(batch_.tokens.size() - batch_.sequences.size());
    if constexpr (requires { device_.begin_step(prompt_rows); })
      device_.begin_step(prompt_rows);
    else
      device_.begin_step();
    retired_.begin_step();
    cache_.copy_forked_blocks(device_);
    next_.hidden = forward<Model, AttentionP>(device_, config_, batch_.view(), weights_.parts(),
                                              cache_.view(device_, batch_.sequences), adapter_policy_, state_);
    next_.picks_ahead =
        options_.run_ahead && picker_.pick_ahead(device_, next_, weights_.parts().head, config_, queue_, active_);
    if constexpr (PicksAhead<DeviceP, HeadView>) {
      // Whoever drops the step waits until it has ended, whatever is to be heard of it.
      if (!next_.picks_ahead) device_.fetch_later(picker_.picks(), 0, next_.picks);
    }
    if constexpr (requires { device_.flush(); }) device_.flush();  // what nobody waited for runs meanwhile
    return true;
  }

  // The step behind step_, whose tokens nobody knows here: they stand in for what the device has picked. What goes
  // wrong waits for the next step, for this one has yet to end.
  void launch_behind() {
    for (const LogitRow& row : step_.rows) {
      if (row.pick) queue_.append(row.seq, kUnknownToken);
    }
    try {
      launched_ = launch(Clock::now());
      stats_.launched_ahead += launched_ ? 1 : 0;
    } catch (...) {
      failed_ = std::current_exception();
    }
  }

  void end_step() {
    for (std::size_t i = 0; i < step_.rows.size(); ++i) {
      const LogitRow& row = step_.rows[i];
      if (row.pick && active_.writes(row.seq)) advance(row.seq, picker_.outcome(i));
    }
    for (const Plan::Slice& slice : step_.plan.slices) {
      if (!active_.writes(slice.seq)) continue;
      const Sequence& s = queue_.sequence(slice.seq);
      const std::string& failure = active_.output(slice.seq).failure();
      const bool whole = !CacheP::keeps_tokens || s.pending() == 0;
      if (!failure.empty())
        fail(slice.seq, Error::Kind::internal, failure);
      else if (s.max_new_tokens == 0 && whole)
        finish(slice.seq, FinishReason::length);
    }
  }

  // The cache holds the step's tokens and their picks are lost: nobody can go on from there. Where the device failed,
  // what others might find in the cache is not to be trusted, either. Who is new in the step behind it is planned
  // again.
  void fail_steps(const char* what) {
    for (const Plan::Slice& slice : step_.plan.slices) {
      if (active_.writes(slice.seq)) fail(slice.seq, Error::Kind::internal, std::string("step: ") + what);
    }
    launched_ = false;
    if constexpr (requires { cache_.ledger().forget_prefixes(); }) {
      if (step_.picks_ahead) cache_.ledger().forget_prefixes();
    }
  }

  // A new token for a sequence: its events, and the end where it is the last.
  void advance(SeqId seq, PickOutcome& outcome) {
    SequenceOutput& output = active_.output(seq);
    if (!output.failure().empty()) return;
    if (!outcome.pick) return fail(seq, outcome.kind, outcome.failure);
    Pick& pick = *outcome.pick;
    if (step_.picks_ahead)
      queue_.learn(seq, pick.token);
    else
      queue_.append(seq, pick.token);
    ++stats_.tokens;
    if (output.options().logits_hash) output.add_to_hash(outcome.row_hash);
    SequenceOutput::Written written;
    try {
      written = output.write(pick.token, config_.eos, queue_.sequence(seq).remaining() == 0);
    } catch (const Error& error) {
      return fail(seq, error.kind(), error.what());
    } catch (const std::exception& error) {
      return fail(seq, Error::Kind::internal, error.what());
    }
    active_.token(seq, pick, std::move(written.text), written.reason.has_value());
    if (written.reason) finish(seq, *written.reason);
  }

  void end(SeqId seq) {
    retired_.add(queue_.sequence(seq).adapters);
    queue_.finish(seq, cache_.ledger());
  }

  void finish(SeqId seq, FinishReason reason, std::string text = {}) {
    active_.finish(seq, reason, std::move(text));
    end(seq);
  }

  void fail(SeqId seq, Error::Kind kind, std::string error) {
    const RequestId request = active_.output(seq).request();
    const std::vector<SeqId> writing = *active_.writing(request);
    active_.fail(request, kind, std::move(error));
    for (const SeqId each : writing) end(each);
  }

  // The one that it brings, or a new one.
  AdapterLease lease_of(const Request& request) {
    if (!request.lease.set) return lease(request.adapters);
    if constexpr (!AdapterP::adds_at_runtime)
      refuse_adapters();
    else if (!adapters_->is_own(request.lease))
      throw Error(Error::Kind::invalid_request, "lease", "is another engine's");
    return request.lease;
  }
  [[noreturn]] static void refuse_adapters() {
    throw Error(Error::Kind::unsupported, "adapter", "this engine adds no adapters while it runs");
  }

  template <class F>
  bool for_all(RequestId request, F&& f) {
    const auto* writing = active_.writing(request);
    if (!writing) return false;
    bool any = false;
    for (const SeqId seq : *writing) any = f(seq) || any;
    return any;
  }

  // Events wait in active_ until a step hands them out: one that throws loses none.
  std::span<const Event> hand_out() {
    events_.swap(active_.events());
    return events_;
  }

  void update_stats() {
    const QueueStats& queue = queue_.stats();
    stats_.steps = queue.steps;
    stats_.sequences = queue.sequences;
    stats_.rows = queue.rows;
    stats_.preemptions = queue.preemptions;
    stats_.prefix_hit_tokens = queue.prefix_hit_tokens;
    stats_.running = queue_.running();
    stats_.waiting = queue_.waiting();
  }

  EngineOptions options_;
  ModelConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  DeviceP device_;
  DecoderWeights<WeightP, HeadP, DeviceP> weights_;
  CacheStore<CacheP, DeviceP> cache_;
  RequestQueue<SchedulerP> queue_;
  Picker<DeviceP, HeadView> picker_;
  DecoderState<Model, DeviceP, WeightView> state_;
  AdapterP adapter_policy_;
  detail::AdaptersOf<AdapterP, DeviceP> adapters_;
  RetiredAdapters<DeviceP> retired_;
  Batch batch_;
  LaunchedStep<DeviceP, HeadView> step_, next_;  // the one at hand, and the one behind it
  bool launched_ = false;                        // next_ is
  std::exception_ptr failed_;                    // why it could not be
  TimePoint last_end_{};                         // of a step
  ActiveRequests active_;
  std::vector<Event> events_;  // handed out by the last step
  RequestId next_request_ = 1;
  EngineStats stats_;
};
}  // namespace tenon
