// The engine: policies composed at compile time, requests in, events out.
#pragma once
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
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
#include "tenon/draft/no_draft.h"
#include "tenon/draft/suffix_draft.h"
#include "tenon/engine/active_requests.h"
#include "tenon/engine/completion.h"
#include "tenon/engine/drafter.h"
#include "tenon/engine/failure.h"
#include "tenon/engine/fingerprint.h"
#include "tenon/engine/instances.h"
#include "tenon/engine/make.h"
#include "tenon/engine/open_sequences.h"
#include "tenon/engine/options.h"
#include "tenon/engine/picker.h"
#include "tenon/engine/pool_rows.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/engine/run_ahead.h"
#include "tenon/engine/stats.h"
#include "tenon/model/decoder.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/all.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/queue.h"
#include "tenon/weights/float32.h"

namespace tenon {

/// A model, its weights and its cache, and the requests that run in it. One thread at a time calls it; prepare() and
/// lease() may be called from any thread. It moves; a moved-from one may only be destroyed or assigned to.
template <class Model, class... Choices>
class Engine : private detail::SteppedEngine {
  static_assert(ModelTraits<Model>,
                "tenon: Engine<Model, ...> needs a model first, such as Gpt2: a type with configure, name_prefix, "
                "model_type, norm, positions, mlp and tensors; see docs/policies.md#model");
  static_assert(sizeof(detail::CheckChoices<Choices...>) > 0 && ((sizeof(Choices) > 0) && ...));

 public:
  using SchedulerP = detail::policy_of<scheduler_axis, Scheduler<ContinuousPolicy>, Choices...>;
  using CacheP = detail::policy_of<cache_axis, Cache<PagedKV>, Choices...>;
  using WeightP = detail::policy_of<weights_axis, Weights<Float32>, Choices...>;
  using HeadP = detail::policy_of<head_axis, Head<WeightP>, Choices...>;
  using AdapterP = detail::policy_of<adapter_axis, Adapter<SegmentedLoRA>, Choices...>;
  using DraftP = detail::policy_of<draft_axis, Draft<SuffixDraft>, Choices...>;
  using AttentionP = detail::policy_of<attention_axis, Attention<FlashAttention>, Choices...>;
  using DeviceP = detail::policy_of<device_axis, Device<Cpu>, Choices...>;
  using WeightView = typename WeightP::View;
  using HeadView = typename HeadP::View;
  using CacheViewT = typename CacheP::View;
  static_assert(!AdapterP::adds_at_runtime || AddsLowRank<DeviceP>,
                "tenon: this Device lacks the op low_rank; use Adapter<NoAdapter>; see docs/policies.md#adapter");
  static_assert(!PicksAhead<DeviceP, HeadView> || RunsAsynchronously<DeviceP>,
                "tenon: this Device picks ahead and does not say runs_asynchronously = true, without which the engine "
                "drops what a running step still reads; see docs/policies.md#device");
  static_assert(RunsTransformer<DeviceP, WeightView, HeadView, CacheViewT, AttentionP>,
                "tenon: this Device lacks an op for this Weights, Head, Cache and Attention; include its ops (cpu: "
                "tenon/tenon.h), or overload attention(Device&, YourTag, args); see docs/policies.md#device");

  /// Reads the weights. The files may be used for other engines, too. Errors name file and field.
  explicit Engine(const ModelFiles& files, EngineOptions options = {}) : Engine(files, SchedulerP{}, options) {}
  /// Likewise, with a scheduler that has values.
  // A template, so that braces that could mean both, as in Engine{files, {.token_budget = 24}}, mean EngineOptions.
  template <class = void>
  Engine(const ModelFiles& files, SchedulerP scheduler, EngineOptions options = {})
      : Engine(files, std::move(scheduler), AttentionP{}, options) {}
  /// Likewise, with an attention policy that has values, such as a soft cap.
  template <std::same_as<AttentionP> A>
  Engine(const ModelFiles& files, const A& attention, EngineOptions options = {})
      : Engine(files, SchedulerP{}, attention, options) {}
  template <std::same_as<AttentionP> A>
  Engine(const ModelFiles& files, SchedulerP scheduler, const A& attention, EngineOptions options = {})
      : options_(checked(options)),
        config_(with_positions(configure(files, family_for<Model>(files)), options_.positions)),
        tokenizer_(files.tokenizer),
        device_(detail::make_device<DeviceP>(options)),
        weights_(detail::make_weights<Model, AttentionP, WeightP, HeadP, AdapterP>(device_, options_, files)),
        cache_(make_cache<CacheP>(device_, options_, config_)),
        capacity_(std::make_shared<const int>(cache_.ledger().capacity_tokens())),
        open_(std::make_unique<RequestQueue<SchedulerP>>(std::move(scheduler), cache_.keeps_tokens()),
              kDrafts && LearnsTexts<DraftP> && options_.draft_tokens > 0, RunsAsynchronously<DeviceP>),
        picker_(device_.threads(), weights_.parts().head_bias, config_.logit_soft_cap),
        head_(detail::make_classifier(device_, config_, weights_.parts().score)),
        state_(config_),
        attention_(attention),
        adapters_(detail::make_adapters<Model, AdapterP, DeviceP>(options_, config_, files, weights_.parts())) {
    open_.queue().set_prefix_reuse(options_.prefix_reuse);
    open_.queue().set_window(config_.window);
    if (config_.rotary.scaling == RotaryScaling::longrope)
      open_.queue().set_recompute_after(config_.rotary.trained_positions);
  }

  Engine(Engine&&) = default;
  Engine& operator=(Engine&&) = default;
  Engine(const Engine&) = delete;
  // The copy of an engine that is not const. A deleted function cannot give its reason before C++26.
  template <std::same_as<Engine> E>
  Engine(E&) : Engine(ModelFiles{}) {
    static_assert(detail::kMisused<E>,
                  "tenon: an Engine is not copied, as it owns its weights and threads; pass it by reference, or make "
                  "another one from the same ModelFiles");
  }

  /// Checks a request and reads its prompt; from any thread. Error with the field's name where it can never be
  /// answered.
  PreparedRequest prepare(Request request) const {
    return tenon::prepare(std::move(request), {config_, tokenizer_.get(), *capacity_, capacity_});
  }

  /// Takes a request; its events come from step(). Adapters without a lease are read here, unless they are resident.
  /// Errors: invalid_request, `request`, if another engine prepared it; of an adapter.
  RequestId enqueue(PreparedRequest request) {
    detail::require(request.is_for(capacity_), "request", "was prepared by another engine; prepare it with this one");
    request.set_lease(lease_of(request));
    request.set_head(head_);
    if (request.options().receipt) request.begin_receipt(full_fingerprint());
    if (request.begun()) request.check_begun(full_fingerprint());
    const RequestId id = next_request_++;
    open_.open(id, request, tokenizer_.get(), config_.eos, cache_.ledger());
    return id;
  }
  /// prepare(), then enqueue().
  RequestId submit(Request request) { return enqueue(prepare(std::move(request))); }

  /// Loads the adapters that a request names and holds them, for Request::lease. From any thread, while another one
  /// steps; `patience` says how long it waits for room (AdapterStore::lease).
  AdapterLease lease(std::span<const AdapterUse> uses, [[maybe_unused]] Patience patience = {}) {
    if constexpr (AdapterP::adds_at_runtime) return adapters_->lease(uses, std::move(patience));
    if (!uses.empty()) refuse_adapters();
    return {};
  }
  /// The resident adapters; from any thread.
  auto& adapters() requires(AdapterP::adds_at_runtime) { return *adapters_; }
  /// How the rows of the next steps are grouped by adapter. Change it between steps.
  AdapterP& adapter_policy() { return adapter_policy_; }
  /// The policy that guesses tokens (EngineOptions::draft_tokens). Change it between steps.
  DraftP& draft_policy() { return draft_policy_; }

  /// Ends a request; false if it has ended already. Its tokens so far stand; its last event says `reason`.
  bool cancel(RequestId request, FinishReason reason = FinishReason::cancelled) {
    return open_.cancel(request, reason, cache_.ledger());
  }

  /// Pauses a request: it gives its cache back and is not scheduled, and keeps its place in line. resume() goes on with
  /// the same tokens. False if it has ended, or is paused (or not) already.
  bool hold(RequestId request) { return open_.hold(request, cache_.ledger()); }
  bool resume(RequestId request) { return open_.resume(request); }

  /// A running request as data, with which another engine goes on: submit(request_of(snapshot)). Here it goes on, too;
  /// cancel it with FinishReason::moved. Error unsupported, with the field's name, where it holds code: a logits
  /// processor, or a constraint without its source.
  Snapshot snapshot(RequestId request) const { return open_.snapshot(request, full_fingerprint()); }
  /// The progress of a running request, for Request::begun of the same request.
  AnswerProgress progress(RequestId request) const { return open_.progress(request, full_fingerprint()); }

  /// Runs one step of at most token_budget rows. The events are valid until the next call. It does nothing and returns
  /// none where no request is open, or the scheduler waits for more of them (StaticPolicy).
  ///
  /// A step that throws fails the requests whose tokens it lost; the next call goes on with the others. Devices that
  /// pick tokens themselves get the next step launched before this step's tokens reach the host (EngineOptions::
  /// run_ahead); what such a launch throws, the next call throws.
  std::span<const Event> step() {
    events_.clear();
    const TimePoint begin = Clock::now();
    if (!ahead_.take_launched(open_.queue(), open_.active())) {
      if (!launch(begin)) return rest();
      ahead_.advance();
    }
    pick(ahead_.current());
    commit(ahead_.current());
    if constexpr (LearnsTexts<DraftP>) Drafter::learn(draft_policy_, open_.take_ended());
    report(ahead_.current(), begin);
    return hand_out();
  }

  /// Requests that have not ended.
  int pending() const { return static_cast<int>(open_.active().size()); }
  /// No request is open, and every event has been handed out.
  bool idle() const { return pending() == 0 && open_.active().events().empty(); }

  /// true: no more requests come, so that a scheduler that waits for them (StaticPolicy) stops waiting.
  void set_draining(bool draining) { open_.queue().set_draining(draining); }

  using SteppedEngine::classify;
  using SteppedEngine::complete;
  using SteppedEngine::embed;
  using SteppedEngine::generate;

  const ModelConfig& config() const { return config_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  DeviceP& device() { return device_; }
  std::size_t weight_bytes() const { return weights_.bytes(); }
  CacheStats cache_stats() const { return cache_.stats(); }
  /// Bytes of the device's memory: weights, cache, adapters and scratch. 0 on a device that does not count, as the CPU.
  MemoryUse device_memory() const {
    if constexpr (CountsMemory<DeviceP>)
      return device_.memory_use();
    else
      return {};
  }
  const EngineStats& stats() const { return stats_; }

  /// The canonical name of the numeric class (numeric_class_of).
  std::string numeric_class() const {
    const auto with = [&]<class Element>(std::type_identity<Element>) {
      return numeric_class_of<Model, WeightP, HeadP, Element, AttentionP, DeviceP>(config_, attention_);
    };
    std::string name;
    if constexpr (ChoosesElement<CacheViewT>)
      name = with_kv_type(cache_.shape().element, with);
    else
      name = with(std::type_identity<typename CacheViewT::Element>());
    if constexpr (OnTensorCores<WeightView> || OnTensorCores<HeadView> || OnTensorCores<AttentionP>) {
      static_assert(NamesArchitecture<DeviceP>,
                    "tenon: this Device lacks architecture(), which formats and attentions on tensor cores need; see "
                    "docs/policies.md#device");
      name += ", architecture " + std::to_string(device_.architecture());
    }
    return name;
  }
  /// 64 hexadecimal digits for numeric class, configuration, tokenizer and weights: engines with equal ones give equal
  /// bits. The first call reads all weights, on the thread that steps.
  const std::string& full_fingerprint() const {
    if (fingerprint_.empty())
      fingerprint_ = fingerprint_of(numeric_class(), config_, tokenizer_.get(), weights_.hash(options_.threads));
    return fingerprint_;
  }
  std::string fingerprint() const { return short_fingerprint(full_fingerprint()); }  ///< "fp_" and 16 of the digits

 private:
  // ---- for generate() and complete()
  RequestId take(Request request) final { return submit(std::move(request)); }
  bool has_lease(Request& request, bool others_run) final { return take_lease(*this, request, others_run); }
  bool exchange_draining(bool draining) final {
    const bool before = open_.queue().draining();
    open_.queue().set_draining(draining);
    return before;
  }
  std::span<const Event> step_or_wait() final {
    const std::uint64_t before = stats_.steps;
    const auto events = step();
    if (stats_.steps == before && pending() > 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return events;
  }
  void abandon(RequestId request) final {
    cancel(request);
    std::erase_if(waiting_events(), [&](const Event& event) { return event.request == request; });
  }

  // ---- the parts of a step

  using Step = LaunchedStep<DeviceP, HeadView>;
  // Guesses are verified on the host, which must know a step's tokens before it plans the next one.
  static constexpr bool kDrafts = !std::is_same_v<DraftP, NoDraft> && !PicksAhead<DeviceP, HeadView>;

  // Plans the next step, assembles its batch and starts its forward pass; false where no sequence is to run.
  bool launch(TimePoint now) {
    const Plan& plan = open_.queue().plan(cache_.ledger(), options_.token_budget, now);
    update_stats();
    if (plan.slices.empty()) return false;
    draft(plan);
    assemble(plan, ahead_.next(), now);
    forward_pass(ahead_.next());
    return true;
  }

  // Adds guesses to the plan that the queue has just made.
  void draft([[maybe_unused]] const Plan& plan) {
    if constexpr (kDrafts)
      stats_.drafted +=
          drafter_.extend([this](const DraftState& text, DraftWriter& out) { draft_policy_.draft(text, out); },
                          open_.queue(), plan, cache_.ledger(), open_.active(),
                          {options_.draft_tokens, options_.draft_gain, options_.token_budget, config_.vocab});
  }

  void assemble(const Plan& plan, Step& step, TimePoint now) {
    step.assemble(plan, open_.queue(), open_.active(), options_.on_step != nullptr, now, batch_);
    ahead_.current().point_to_picks(batch_);
    batch_.picks = picker_.picks();
  }

  // On a device that picks tokens itself, it picks them, too.
  void forward_pass(Step& step) {
    const int prompt_rows = static_cast<int>(batch_.tokens.size() - batch_.sequences.size());
    if constexpr (CountsPromptRows<DeviceP>)
      device_.begin_step(prompt_rows);
    else
      device_.begin_step();
    open_.retired().begin_step();
    cache_.copy_forked_blocks(device_);
    step.hidden = forward(device_, config_, batch_.view(), weights_.parts(), cache_.view(device_, batch_.sequences),
                          adapter_policy_, attention_, state_);
    step.picks_ahead = options_.run_ahead &&
                       picker_.pick_ahead(device_, step, weights_.parts().head, config_, open_.queue(), open_.active());
    if constexpr (PicksAhead<DeviceP, HeadView>) {
      // Waiting for these picks waits for the whole step, even where it has no pick to fetch.
      if (!step.picks_ahead) device_.fetch_later(picker_.picks(), 0, step.picks);
    }
    if constexpr (Flushes<DeviceP>) device_.flush();
  }

  void pick(Step& step) {
    if (step.picks_ahead) return;
    pick_round(step, 0);
    pool_rows(device_, step, config_.logit_scale, open_.active());
  }

  void pick_round(Step& step, int round) {
    picker_.run(device_, step, round, weights_.parts().head, config_, open_.queue(), open_.active());
  }

  // Books the step: its rows are in the cache, its picks are appended, and requests that end leave.
  void commit(Step& step) {
    try {
      open_.queue().commit(step.plan, cache_.ledger());
      if (step.picks_ahead) {
        if (ahead_.launch(open_.queue(), [&] { return launch(Clock::now()); })) ++stats_.launched_ahead;
        picker_.collect(step, open_.queue(), open_.active());
      }
      open_.append_picks(step, 0, picker_.outcomes(), config_.eos, cache_.ledger());
      for (int round = 1; round < step.rounds; ++round) {
        pick_round(step, round);
        open_.append_picks(step, round, picker_.outcomes(), config_.eos, cache_.ledger());
      }
      open_.end_scored(step, cache_.ledger());
    } catch (const std::exception& error) {
      fail_step(step, error.what());
      throw;
    } catch (...) {
      fail_step(step, "failed");
      throw;
    }
    if (pending() > 0) return;
    ahead_.reset();
    open_.retired().release(device_);
  }

  // Where the device failed, prefixes in the cache are not trusted either. Sequences that a launched step admitted are
  // planned again.
  void fail_step(const Step& step, const char* what) {
    open_.fail_step(step, what, cache_.ledger());
    ahead_.drop();
    if (step.picks_ahead) LedgerRef(cache_.ledger()).forget_prefixes();
  }

  // ---- adapters

  // The lease that the request brings, or a new one.
  AdapterLease lease_of(const PreparedRequest& request) {
    if (!request.lease().set) return lease(request.adapters());
    if constexpr (!AdapterP::adds_at_runtime)
      refuse_adapters();
    else if (!adapters_->is_own(request.lease()))
      throw Error(Error::Kind::invalid_request, "lease", "is another engine's");
    return request.lease();
  }
  [[noreturn]] static void refuse_adapters() {
    throw Error(Error::Kind::unsupported, "adapter", "this engine adds no adapters while it runs");
  }

  // ---- events and numbers

  // Events wait there until a step hands them out, so that a step that throws loses none.
  std::vector<Event>& waiting_events() final { return open_.active().events(); }

  std::span<const Event> hand_out() {
    events_.swap(waiting_events());
    return events_;
  }

  // Nothing is to run.
  std::span<const Event> rest() {
    open_.retired().release(device_);
    return hand_out();
  }

  void report(const Step& step, TimePoint begin) {
    const auto end = Clock::now();
    const double seconds = std::chrono::duration<double>(end - begin).count();
    stats_.seconds += seconds;
    update_stats();
    if (kDrafts) drafter_.measure(step.plan, step.guessed, seconds);
    const auto began = std::max(step.begin, std::exchange(last_end_, end));
    if (!options_.on_step) return;
    const auto failure = detail::attempt([&] { options_.on_step({stats_.steps, began, end, step.report}); });
    if (!failure) return;
    ++stats_.observer_failures;
    stats_.last_observer_failure = failure->what;
  }

  void update_stats() {
    const QueueStats& queue = open_.queue().stats();
    stats_.steps = queue.steps;
    stats_.sequences = queue.sequences;
    stats_.rows = queue.rows;
    stats_.preemptions = queue.preemptions;
    stats_.prefix_hit_tokens = queue.prefix_hit_tokens;
    stats_.tokens = open_.tokens();
    stats_.accepted = open_.accepted();
    stats_.running = open_.queue().running();
    stats_.waiting = open_.queue().waiting();
  }

  EngineOptions options_;
  ModelConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  DeviceP device_;
  DecoderWeights<WeightP, HeadP, DeviceP> weights_;
  CacheStore<CacheP, DeviceP> cache_;
  // Tokens that one sequence can hold: prepare() may not read the ledger while a step changes it. The address
  // identifies this engine in its PreparedRequests.
  std::shared_ptr<const int> capacity_;
  OpenSequences open_;
  Picker<DeviceP, HeadView> picker_;
  std::shared_ptr<const ClassifierHead> head_;  // null: the checkpoint has none
  DecoderState<DeviceP, WeightView> state_;
  AttentionP attention_;
  AdapterP adapter_policy_;
  DraftP draft_policy_;
  Drafter drafter_;
  detail::AdaptersOf<AdapterP, DeviceP> adapters_;
  Batch batch_;
  RunAhead<DeviceP, HeadView> ahead_;
  TimePoint last_end_{};       // of a step
  std::vector<Event> events_;  // handed out by the last step
  RequestId next_request_ = 1;
  EngineStats stats_;
  mutable std::string fingerprint_;  // empty: not asked for yet
};
}  // namespace tenon
