// The engine: policies composed at compile time, requests in, events out.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/adapter/no_adapter.h"
#include "tenon/cache/paged.h"
#include "tenon/cache/store.h"
#include "tenon/core/axes.h"
#include "tenon/core/request.h"
#include "tenon/engine/admission.h"
#include "tenon/engine/completion.h"
#include "tenon/engine/stats.h"
#include "tenon/engine/stream.h"
#include "tenon/model/decoder.h"
#include "tenon/model/load.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/all.h"
#include "tenon/sample/sampler.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/queue.h"
#include "tenon/weights/float32.h"

namespace tenon {

struct EngineOptions {
  int token_budget = 512;   // rows of a step, and so the longest chunk of a prompt
  int batch = 32;           // sequences that the default cache has room for
  int cache_tokens = 0;     // of all sequences; 0: batch x the model's positions, at most what 2 GiB holds
  int threads = 0;          // 0: all cores
};

template <class Model, class... Choices>
class Engine {
  static_assert(ModelTraits<Model>,
                "tenon: Engine<Model, ...> needs a model first, such as Gpt2; see docs/policies.md#model");
  static_assert(sizeof(detail::CheckChoices<Choices...>) > 0 && ((sizeof(Choices) > 0) && ...));

 public:
  using SchedulerP = detail::policy_of<scheduler_axis, Scheduler<ContinuousPolicy>, Choices...>;
  using CacheP = detail::policy_of<cache_axis, Cache<PagedKV>, Choices...>;
  using WeightP = detail::policy_of<weights_axis, Weights<Float32>, Choices...>;
  using HeadP = detail::policy_of<head_axis, Head<WeightP>, Choices...>;
  using AdapterP = detail::policy_of<adapter_axis, Adapter<NoAdapter>, Choices...>;
  using AttentionP = detail::policy_of<attention_axis, Attention<FlashAttention>, Choices...>;
  using DeviceP = detail::policy_of<device_axis, Device<Cpu>, Choices...>;
  using WeightView = typename WeightP::View;
  using HeadView = typename HeadP::View;
  using CacheViewT = typename CacheP::View;
  static_assert(!AdapterP::adds_at_runtime,
                "tenon: this version adds no adapters while it runs; use Adapter<NoAdapter>; see docs/policies.md#adapter");
  static_assert(RunsTransformer<DeviceP, WeightView, HeadView, CacheViewT, AttentionP>,
                "tenon: this Device lacks an op for this Weights, Head, Cache and Attention; include its ops (cpu: "
                "tenon/tenon.h), or overload attention(Device&, YourTag, args); see docs/policies.md#device");

  // Reads the weights; the files may be used for other engines, too. Errors name file and field.
  explicit Engine(const ModelFiles& files, EngineOptions options = {}) : Engine(files, SchedulerP{}, options) {}
  Engine(const ModelFiles& files, SchedulerP scheduler, EngineOptions options = {})
      : config_(configure(files)),
        options_(checked(options)),
        tokenizer_(files.tokenizer),
        device_(make_device(options)),
        weights_(load_weights(files)),
        cache_(device_, config_.kv(), cache_tokens()),
        queue_(std::move(scheduler), CacheP::keeps_tokens),
        samplers_(static_cast<std::size_t>(device_.threads())) {}

  // Takes a request, or refuses it with an Error that names the field. Its events come from step().
  RequestId submit(Request request) {
    validate(request.options);
    auto tokens = prompt_tokens(request, tokenizer_.get());
    check_against_model(request.options, tokens, config_, tokenizer_ != nullptr);
    const RequestId id = next_request_++;
    const SeqId seq = queue_.add({.request = id,
                                  .tokens = std::move(tokens),
                                  .max_new_tokens = request.options.max_new_tokens,
                                  .arrival = Clock::now(),
                                  .priority = request.options.priority},
                                 cache_.ledger());
    streams_.try_emplace(seq, id, std::move(request.options), tokenizer_.get());
    sequences_.emplace(id, seq);
    return id;
  }

  // Ends a request; false if it has ended already. Its last event is FinishReason::cancelled.
  bool cancel(RequestId request) {
    const auto found = sequences_.find(request);
    if (found == sequences_.end()) return false;
    Stream& stream = streams_.at(found->second);
    deferred_.push_back(stream.finished(FinishReason::cancelled, stream.text().finish()));
    end(found->second);
    return true;
  }

  // One step of whatever the scheduler picks: at most token_budget rows. The events are valid until the next call. Nothing
  // is done, and nothing returned, while the scheduler waits for company (StaticPolicy) or there is no work.
  std::span<const Event> step() {
    events_.clear();
    events_.swap(deferred_);
    const auto begin = Clock::now();
    const Plan& plan = queue_.plan(cache_.ledger(), options_.token_budget, begin);
    stats_.running = queue_.running();
    stats_.waiting = queue_.waiting();
    stats_.preemptions = queue_.stats().preemptions;
    if (plan.slices.empty()) return events_;
    assemble(plan);
    const auto hidden = forward<Model, AttentionP>(device_, config_, batch_.view(), weights_.parts(),
                                                   cache_.view(batch_.sequences), activations_, last_rows_);
    pick(hidden);
    commit(plan);
    stats_.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    ++stats_.steps;
    stats_.rows += static_cast<std::uint64_t>(plan.rows);
    return events_;
  }

  // Requests that have not ended.
  int pending() const { return static_cast<int>(sequences_.size()); }
  bool idle() const { return sequences_.empty() && deferred_.empty(); }

  // Says that nothing else will be submitted, so that a scheduler that waits for company need not.
  void set_draining(bool draining) { queue_.set_draining(draining); }

  // Tokens as they come: for (auto& token : engine.generate("Once", {.max_new_tokens = 10})) ... Throws Error where the
  // request is refused or fails. Other requests run beside it; their events wait for the next step().
  Generation<Engine> generate(std::string prompt, Options options = {}) {
    return {*this, submit({.prompt = std::move(prompt), .options = std::move(options)})};
  }
  Generation<Engine> generate(Request request) { return {*this, submit(std::move(request))}; }
  Generation<Engine> generate(std::vector<TokenId> input_ids, Options options = {}) {
    return {*this, submit({.input_ids = std::move(input_ids), .options = std::move(options)})};
  }

  // Runs all requests together and returns their answers in the order of input; a refused one has reason error.
  std::vector<Completion> complete(std::vector<Request> requests) {
    std::vector<Completion> answers(requests.size());
    std::unordered_map<RequestId, std::size_t> open;
    std::vector<bool> with_logprobs;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      with_logprobs.push_back(requests[i].options.top_logprobs >= 0);
      try {
        open.emplace(submit(std::move(requests[i])), i);
      } catch (const Error& error) {
        answers[i].error = error.what();
      }
    }
    // The caller waits here, so nobody else can come.
    const bool draining = queue_.draining();
    queue_.set_draining(true);
    while (!open.empty()) {
      const std::span<const Event> events = step_or_wait();
      for (const Event& event : events) {
        const auto found = open.find(event.request);
        if (found == open.end()) deferred_.push_back(event);
        else if (answers[found->second].add(event, with_logprobs[found->second])) open.erase(found);
      }
    }
    queue_.set_draining(draining);
    return answers;
  }
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
  const EngineStats& stats() const { return stats_; }

 private:
  friend class Generation<Engine>;

  // A row of logits and what is to be done with it.
  struct LogitRow {
    SeqId seq;
    int position;
    bool pick;
  };
  struct Outcome {
    std::optional<Pick> pick;
    std::string failure;
  };

  static constexpr int kHeadRows = 128;  // rows of logits in memory at once

  static ModelConfig configure(const ModelFiles& files) {
    if (files.random) return *files.random;
    if (!files.config || !files.tensors) {
      throw Error(Error::Kind::invalid_request, "model", "no files: make them by load_checkpoint or random_checkpoint");
    }
    return Model::configure(*files.config);
  }

  static EngineOptions checked(EngineOptions o) {
    detail::require(o.token_budget >= 1, "token_budget", "must be 1 or more");
    detail::require(o.batch >= 1, "batch", "must be 1 or more");
    detail::require(o.cache_tokens >= 0, "cache_tokens", "must be 0 (default) or more");
    detail::require(o.threads >= 0, "threads", "must be 0 (all cores) or more");
    return o;
  }

  static DeviceP make_device(const EngineOptions& options) {
    if constexpr (std::is_same_v<DeviceP, Cpu>) return Cpu(CpuOptions{.threads = options.threads});
    else return DeviceP{};
  }

  auto load_weights(const ModelFiles& files) {
    // Each layer has a dozen tensors: a count of layers from a hostile file is refused before anything grows with it.
    if (!files.random && static_cast<std::size_t>(config_.layers) > files.tensors->tensors().size()) {
      throw Error(Error::Kind::invalid_file, "config.json: n_layer",
                  std::to_string(config_.layers) + " layers, but the checkpoint has only " +
                      std::to_string(files.tensors->tensors().size()) + " tensors");
    }
    const TensorSource source(files, Model::name_prefix);
    DecoderWeights<WeightP, HeadP, DeviceP> weights(device_, device_.pool(), Model::tensors(config_), config_.tied_head, source);
    if (!files.random) files.tensors->verify_unchanged();
    return weights;
  }

  int cache_tokens() const {
    if (options_.cache_tokens > 0) return options_.cache_tokens;
    const KvShape kv = config_.kv();
    const std::size_t per_token =
        kv.tile_elements() / kTilePositions * static_cast<std::size_t>(kv.layers) * static_cast<std::size_t>(kv.heads) * sizeof(float);
    const std::size_t fits = (std::size_t{2} << 30) / std::max<std::size_t>(per_token, 1);
    const auto wanted = static_cast<std::size_t>(options_.batch) * static_cast<std::size_t>(kv.positions);
    return static_cast<int>(std::max(std::min({wanted, fits, std::size_t{1} << 30}), static_cast<std::size_t>(kv.positions)));
  }

  void assemble(const Plan& plan) {
    batch_.clear();
    logit_rows_.clear();
    for (const Plan::Slice& slice : plan.slices) {
      const Sequence& s = queue_.sequence(slice.seq);
      const Stream& stream = streams_.at(slice.seq);
      const int first_row = static_cast<int>(batch_.tokens.size());
      batch_.sequences.push_back({slice.seq, first_row, slice.tokens, s.cached, static_cast<int>(batch_.sequences.size())});
      for (int position = s.cached; position < s.cached + slice.tokens; ++position) {
        const bool picks = position + 1 == s.known() && s.remaining() > 0;
        if (picks || stream.wants_logits(position, s.prompt_tokens)) {
          batch_.logit_rows.push_back(static_cast<int>(batch_.tokens.size()));
          logit_rows_.push_back({slice.seq, position, picks});
        }
        batch_.tokens.push_back(s.tokens[static_cast<std::size_t>(position)]);
        batch_.positions.push_back(position);
      }
    }
  }

  // Logits, a block of rows at a time, and from them scores and the next tokens.
  void pick(MatrixView<const float> hidden) {
    outcomes_.assign(logit_rows_.size(), {});
    const int rows = static_cast<int>(logit_rows_.size());
    for (int first = 0; first < rows; first += kHeadRows) {
      const int count = std::min(kHeadRows, rows - first);
      const std::size_t bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(config_.vocab) * sizeof(float);
      if (bytes > logits_.bytes()) logits_ = device_.allocate(bytes);
      const MatrixView<float> logits{reinterpret_cast<float*>(logits_.data()), count, config_.vocab, config_.vocab};
      head(device_, HeadArgs<HeadView>{hidden.rows_from(first, count), weights_.parts().head, logits});
      for (int i = 0; i < count; ++i) {
        const LogitRow& row = logit_rows_[index(first + i)];
        streams_.at(row.seq).score(row.position, prompt_of(queue_.sequence(row.seq)), values(logits, i));
      }
      std::atomic<int> next{0};
      device_.pool().run([&](int thread) {
        for (int i; (i = next.fetch_add(1)) < count;) {
          const LogitRow& row = logit_rows_[index(first + i)];
          if (row.pick) outcomes_[index(first + i)] = sample(samplers_[index(thread)], row, values(logits, i));
        }
      });
    }
  }

  Outcome sample(Sampler& sampler, const LogitRow& row, std::span<const float> logits) const {
    const Sequence& s = queue_.sequence(row.seq);
    try {
      return {sampler.sample({.logits = logits,
                              .prompt = prompt_of(s),
                              .generated = std::span(s.tokens).subspan(index(s.prompt_tokens)),
                              .options = streams_.at(row.seq).options(),
                              .position = row.position + 1}),
              {}};
    } catch (const std::exception& error) {
      return {std::nullopt, error.what()};
    }
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static std::span<const TokenId> prompt_of(const Sequence& s) { return std::span(s.tokens).first(index(s.prompt_tokens)); }
  static std::span<const float> values(MatrixView<const float> m, int row) { return {m.row(row), index(m.cols)}; }

  void commit(const Plan& plan) {
    queue_.commit(plan, cache_.ledger());
    for (std::size_t i = 0; i < logit_rows_.size(); ++i) {
      if (logit_rows_[i].pick) advance(logit_rows_[i].seq, outcomes_[i]);
    }
    for (const Plan::Slice& slice : plan.slices) {
      const auto found = streams_.find(slice.seq);
      if (found == streams_.end()) continue;
      const Sequence& s = queue_.sequence(slice.seq);
      const bool whole = !CacheP::keeps_tokens || s.pending() == 0;
      if (!found->second.failure().empty()) fail(slice.seq, found->second.failure());
      else if (s.max_new_tokens == 0 && whole) finish(slice.seq, FinishReason::length);
    }
  }

  // A new token for a sequence: its events, and the end where it is the last.
  void advance(SeqId seq, Outcome& outcome) {
    Stream& stream = streams_.at(seq);
    if (!stream.failure().empty()) return;
    if (!outcome.pick) return fail(seq, outcome.failure);
    Pick& pick = *outcome.pick;
    queue_.append(seq, pick.token);
    ++stats_.tokens;
    const bool ends = ends_answer(stream.options(), pick.token);
    std::string text = ends ? std::string{} : stream.text().push(pick.token);
    std::optional<FinishReason> reason;
    if (ends || stream.text().stopped()) reason = FinishReason::stop;
    else if (queue_.sequence(seq).remaining() == 0) reason = FinishReason::length;
    if (reason) text += stream.text().finish();
    if (stream.text().stopped()) reason = FinishReason::stop;
    events_.push_back({.kind = Event::Kind::token,
                       .request = stream.request(),
                       .token = pick.token,
                       .text = std::move(text),
                       .logprob = pick.logprob,
                       .top_logprobs = std::move(pick.top)});
    if (reason) finish(seq, *reason);
  }

  bool ends_answer(const Options& options, TokenId token) const {
    const auto holds = [&](const std::vector<TokenId>& ids) { return std::find(ids.begin(), ids.end(), token) != ids.end(); };
    return holds(options.stop_ids) || (!options.ignore_eos && holds(config_.eos));
  }

  void finish(SeqId seq, FinishReason reason) {
    events_.push_back(streams_.at(seq).finished(reason));
    end(seq);
  }

  void fail(SeqId seq, const std::string& error) {
    events_.push_back({.kind = Event::Kind::error,
                       .request = streams_.at(seq).request(),
                       .reason = FinishReason::error,
                       .error = error});
    end(seq);
  }

  void end(SeqId seq) {
    queue_.finish(seq, cache_.ledger());
    const auto found = streams_.find(seq);
    sequences_.erase(found->second.request());
    streams_.erase(found);
  }

  // A step; a nap where the scheduler waits for company.
  std::span<const Event> step_or_wait() {
    const std::uint64_t before = stats_.steps;
    const auto events = step();
    if (stats_.steps == before && !sequences_.empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return events;
  }

  // For Generation: the next event of one request; everybody else's wait for the next step().
  Event next_event(RequestId request) {
    for (;;) {
      const auto kept = std::find_if(deferred_.begin(), deferred_.end(), [&](const Event& e) { return e.request == request; });
      if (kept != deferred_.end()) {
        Event event = std::move(*kept);
        deferred_.erase(kept);
        return event;
      }
      std::optional<Event> own;
      for (const Event& event : step_or_wait()) {
        if (event.request == request && !own) own = event;
        else deferred_.push_back(event);
      }
      if (own) return *std::move(own);
    }
  }

  // Ends a request of which nobody wants to hear any more.
  void abandon(RequestId request) {
    cancel(request);
    std::erase_if(deferred_, [&](const Event& event) { return event.request == request; });
  }

  ModelConfig config_;
  EngineOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  DeviceP device_;
  DecoderWeights<WeightP, HeadP, DeviceP> weights_;
  CacheStore<CacheP, DeviceP> cache_;
  RequestQueue<SchedulerP> queue_;
  std::vector<Sampler> samplers_;  // one a thread
  Activations<DeviceP> activations_;
  LastRows last_rows_;
  typename DeviceP::Memory logits_;

  Batch batch_;
  std::vector<LogitRow> logit_rows_;
  std::vector<Outcome> outcomes_;
  std::unordered_map<SeqId, Stream> streams_;
  std::unordered_map<RequestId, SeqId> sequences_;
  std::vector<Event> events_, deferred_;
  RequestId next_request_ = 1;
  EngineStats stats_;
};
}  // namespace tenon
