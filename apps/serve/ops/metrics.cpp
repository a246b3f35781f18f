#include "serve/ops/metrics.h"

#include <algorithm>
#include <set>
#include <utility>

#include "serve/ops/exposition.h"
#include "serve/ops/process_stats.h"
#include "serve/text.h"
#include "tenon/version.h"

namespace serve {
namespace {

constexpr const char* kFailures[kFailureKinds] = {"validation", "overloaded",       "generation",   "incomplete",
                                                  "dropped",    "download_adapter", "load_adapter", "offload_adapter"};
constexpr const char* kBaseModel = "__base_model__";  // no adapter has such a name
constexpr const char* kOther = "other";

void write_process(Exposition& out) {
  const ProcessStats now = process_stats();
  out.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", now.resident_bytes);
  out.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", now.virtual_bytes);
  out.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", now.cpu_seconds);
  out.gauge("process_open_fds", "Number of open file descriptors.", now.open_files);
  out.gauge("process_max_fds", "Maximum number of open file descriptors.", now.most_open_files);
  out.gauge("process_threads", "Number of threads.", now.threads);
  out.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", now.start_seconds);
  out.gauge("tenon_build_info", "Always 1; the version is its label.", 1, {{"version", tenon::kVersion}});
}

void write_adapters(Exposition& out, const tenon::AdapterStats& a) {
  out.gauge("tenon_adapters_resident", "Adapters in memory.", a.resident);
  out.gauge("tenon_adapter_bytes", "Bytes of the factors of adapters in memory.", a.bytes);
  out.gauge("tenon_adapter_requests_waiting", "Requests that wait for room among the adapters.", a.waiting);
  out.counter("tenon_adapter_loads_total", "Adapters that were loaded.", a.loads);
  out.counter("tenon_adapter_evictions_total", "Adapters that made room for others.", a.evictions);
  out.counter("tenon_adapter_failures_total", "Adapters that could not be loaded.", a.failures);
}

void write_service(Exposition& out, const tenon::ServiceStats& s) {
  const auto counter = [&out](const char* name, const char* help, std::uint64_t value) {
    out.counter(name, help, value);
  };
  out.gauge("tenon_requests_open", "Requests accepted by the engine and not ended.", s.open);
  out.gauge("tenon_requests_held", "Requests that wait for their reader to take what there is.", s.held);
  out.gauge("tenon_waiting_prompt_tokens", "Prompt tokens of requests that wait.", s.waiting_tokens);
  out.gauge("tenon_healthy", "1, or 0 after two steps in a row have failed.", s.healthy ? 1 : 0);
  out.gauge("tenon_draining", "1 once nothing new is taken.", s.draining ? 1 : 0);
  out.family("tenon_requests_ended_total", "counter", "Requests by the way they left the engine.");
  for (const auto& [way, count] : {std::pair{"finished", s.finished},
                                   {"cancelled", s.cancelled},
                                   {"expired", s.expired},
                                   {"failed", s.failed},
                                   {"moved", s.moved}})
    out.sample({{"way", way}}, count);
  counter("tenon_requests_refused_total", "Requests refused because of a limit on what is open or waits.", s.refused);
  counter("tenon_requests_invalid_total", "Requests the engine refused for what they ask.", s.invalid);
  counter("tenon_requests_stalled_total", "Requests cancelled because nobody read their answer.", s.stalled);
  counter("tenon_steps_total", "Steps of the engine.", s.engine.steps);
  counter("tenon_steps_failed_total", "Steps of the engine that failed.", s.failed_steps);
  out.counter("tenon_step_seconds_total", "Time in steps of the engine.", s.engine.seconds);
  counter("tenon_rows_total", "Tokens that went through the model, of prompts and answers.", s.engine.rows);
  counter("tenon_tokens_total", "Tokens generated.", s.engine.tokens);
  counter("tenon_preemptions_total", "Sequences that gave way to others and were computed again.",
          s.engine.preemptions);
  counter("tenon_drafted_tokens_total", "Guessed tokens that were verified (--draft).", s.engine.drafted);
  counter("tenon_accepted_tokens_total", "Guessed tokens that were right.", s.engine.accepted);
  counter("tenon_prefix_hit_tokens_total", "Prompt tokens that were found in the cache.", s.engine.prefix_hit_tokens);
  out.gauge("tenon_cache_bytes", "Bytes of the cache of keys and values.", s.cache.bytes);
  out.gauge("tenon_cache_capacity_tokens", "Tokens that the cache holds at most.", s.cache.capacity_tokens);
  out.gauge("tenon_cache_used_tokens", "Tokens of the cache that are not free.", s.cache.used_tokens);
}

}  // namespace

Metrics::Use& Metrics::Use::operator+=(const Use& more) {
  requests += more.requests;
  prompt_tokens += more.prompt_tokens;
  generated_tokens += more.generated_tokens;
  return *this;
}

Load load_of(const tenon::ServiceStats& service, const tenon::AdapterStats& adapters) {
  const double used = service.cache.used_tokens, capacity = std::max(1, service.cache.capacity_tokens);
  return {.running = std::max(0, service.open - service.waiting),
          .waiting = service.waiting + adapters.waiting,
          .cache_used = used / capacity};
}

void Metrics::request_begins() {
  std::lock_guard lock(mutex_);
  ++counts_.begun;
}

void Metrics::request_failed(FailureKind kind) {
  std::lock_guard lock(mutex_);
  ++counts_.failures[static_cast<std::size_t>(kind)];
}

void Metrics::token_gap(double seconds) {
  std::lock_guard lock(mutex_);
  counts_.gap.add(seconds);
}

void Metrics::fields_ignored(std::size_t count) {
  std::lock_guard lock(mutex_);
  counts_.ignored_fields += count;
}

void Metrics::rate_limited(const std::string& key) {
  std::lock_guard lock(mutex_);
  ++counts_.rate_limited[key];
}

void Metrics::request_finished(const Finished& r) {
  const auto prompt = static_cast<std::uint64_t>(std::max(0, r.prompt_tokens));
  const auto generated = static_cast<std::uint64_t>(std::max(0, r.generated_tokens));
  std::lock_guard lock(mutex_);
  Counts& c = counts_;
  ++c.finished[static_cast<std::size_t>(r.reason)];
  c.prompt_tokens += prompt;
  c.generated_tokens += generated;
  c.duration.add(r.total);
  c.validation.add(r.validation);
  c.queue.add(r.queue);
  c.inference.add(r.inference);
  c.per_token.add(generated == 0 ? 0 : r.inference / static_cast<double>(generated));
  c.input_length.add(r.prompt_tokens);
  c.max_new_tokens.add(r.max_new_tokens);
  c.generated_length.add(r.generated_tokens);
  if (generated > 0) c.first_token.add(r.first_token);
  if (r.per_output_token > 0) c.output_token.add(r.per_output_token);
  c.latency.add(r.total);
  c.queue_time.add(r.queue);
  const double first = generated > 0 ? r.first_token : r.total;  // an embedding is all prefill
  c.prefill.add(std::max(0.0, first - r.validation - r.queue));
  c.decode.add(std::max(0.0, r.total - first));

  const std::pair use(r.key, r.adapter);
  const bool counted = c.uses.contains(use) || c.uses.size() < kMostUses;
  (counted ? c.uses[use] : c.others[r.key]) += {1, prompt, generated};
}

Metrics::Counts Metrics::copy(const Snapshot& snapshot) const {
  std::set<std::string> named(snapshot.resident.begin(), snapshot.resident.end());
  named.insert("");
  named.erase(kOther);
  std::lock_guard lock(mutex_);
  std::erase_if(counts_.uses, [&](const auto& each) {
    if (named.contains(each.first.second)) return false;
    counts_.others[each.first.first] += each.second;
    return true;
  });
  return counts_;
}

namespace {

// `c` is a Metrics::Counts, which is private to Metrics.
template <class Counts>
void write_lorax(Exposition& out, const Counts& c, const Snapshot& snapshot) {
  std::uint64_t success = 0;
  for (const std::uint64_t each : c.finished) success += each;
  out.counter("lorax_request_count", "Requests to generate.", c.begun);
  out.counter("lorax_request_success", "Requests that were answered.", success);
  out.family("lorax_request_failure", "counter", "Requests that were not answered in full, by the reason.");
  for (std::size_t i = 0; i < kFailureKinds; ++i) out.sample({{"err", kFailures[i]}}, c.failures[i]);
  out.histogram("lorax_request_duration", "Seconds from arrival to the last token.", c.duration);
  out.histogram("lorax_request_validation_duration", "Seconds of checks and tokenizing.", c.validation);
  out.histogram("lorax_request_queue_duration", "Seconds from submission to the first step.", c.queue);
  out.histogram("lorax_request_inference_duration", "Seconds from the first step to the last token.", c.inference);
  out.histogram("lorax_request_mean_time_per_token_duration", "Seconds of inference a generated token.", c.per_token);
  out.histogram("lorax_request_input_length", "Tokens of a prompt.", c.input_length);
  out.histogram("lorax_request_max_new_tokens", "Tokens that a request allowed.", c.max_new_tokens);
  out.histogram("lorax_request_generated_tokens", "Tokens that a request got.", c.generated_length);
  const tenon::EngineStats& engine = snapshot.service.engine;
  out.sums("lorax_batch_next_size", "Sequences of a step; only sum and count are known.", engine.steps,
           static_cast<double>(engine.sequences));
  out.gauge("lorax_queue_length", "Requests of whose answer nothing has come yet.",
            load_of(snapshot.service, snapshot.adapters).waiting);
}

template <class Counts>
void write_vllm(Exposition& out, const Counts& c, const Snapshot& snapshot) {
  const tenon::ServiceStats& s = snapshot.service;
  const Exposition::Labels model = {{"model_name", snapshot.model}};
  const Load load = load_of(s, snapshot.adapters);
  out.gauge("vllm:num_requests_running", "Requests whose answer has begun.", load.running, model);
  out.gauge("vllm:num_requests_waiting", "Requests of whose answer nothing has come yet.", load.waiting, model);
  out.gauge("vllm:kv_cache_usage_perc", "Part of the cache that is in use, from 0 to 1.", load.cache_used, model);
  out.gauge("vllm:lora_requests_info", "Adapters of requests; the value is the time, in seconds since 1970.",
            seconds_since_1970(),
            {{"max_lora", std::to_string(snapshot.adapter_slots)},
             {"running_lora_adapters", joined(snapshot.running_adapters, ",")},
             {"waiting_lora_adapters", joined(snapshot.waiting_adapters, ",")}});
  out.counter("vllm:prompt_tokens_total", "Prompt tokens of requests that were answered.", c.prompt_tokens, model);
  out.counter("vllm:generation_tokens_total", "Tokens generated for them.", c.generated_tokens, model);
  out.family("vllm:request_success_total", "counter", "Requests that were answered, by the reason of their end.");
  using enum tenon::FinishReason;
  const auto of = [&c](tenon::FinishReason reason) { return c.finished[static_cast<std::size_t>(reason)]; };
  for (const auto& [reason, count] : {std::pair{"stop", of(stop)},
                                      {"length", of(length)},
                                      {"abort", of(cancelled) + of(deadline)},
                                      {"error", of(error)}})
    out.sample({{"finished_reason", reason}, {"model_name", snapshot.model}}, count);
  // Hits are counted at once and prompts at the end: no more hits than queries.
  out.counter("vllm:prefix_cache_queries_total", "Prompt tokens that were looked for in the cache.",
              std::max(c.prompt_tokens, s.engine.prefix_hit_tokens), model);
  out.counter("vllm:prefix_cache_hits_total", "Prompt tokens that were found there.", s.engine.prefix_hit_tokens,
              model);
  out.counter("vllm:num_preemptions_total", "Sequences that gave way to others.", s.engine.preemptions, model);
  out.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", c.first_token, model);
  out.histogram("vllm:inter_token_latency_seconds", "Between two tokens of a stream.", c.gap, model);
  out.histogram("vllm:time_per_output_token_seconds", "Mean of a request's gaps between tokens.", c.output_token,
                model);
  out.histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", c.latency, model);
  out.histogram("vllm:request_queue_time_seconds", "From submission to the first step.", c.queue_time, model);
  out.histogram("vllm:request_prefill_time_seconds", "From the first step to the first token.", c.prefill, model);
  out.histogram("vllm:request_decode_time_seconds", "From the first token to the last.", c.decode, model);
  out.histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", c.input_length, model);
  out.histogram("vllm:request_generation_tokens", "Tokens that a request got.", c.generated_length, model);
}

std::string shown_adapter(const std::string& name) { return name.empty() ? kBaseModel : name; }

template <class Counts>
void write_by_adapter(Exposition& out, const Counts& c) {
  using Use = typename decltype(c.others)::mapped_type;
  std::map<std::string, Use> adapters;
  Use& other = adapters[kOther];
  for (const auto& [use, counts] : c.uses) adapters[shown_adapter(use.second)] += counts;
  for (const auto& [key, counts] : c.others) other += counts;
  const auto family = [&](const char* name, const char* help, auto member) {
    out.family(name, "counter", help);
    for (const auto& [adapter, counts] : adapters) out.sample({{"adapter", adapter}}, counts.*member);
  };
  family("tenon_adapter_requests_total", "Requests that were answered, by adapter.", &Use::requests);
  family("tenon_adapter_prompt_tokens_total", "Their prompt tokens.", &Use::prompt_tokens);
  family("tenon_adapter_generated_tokens_total", "Tokens generated for them.", &Use::generated_tokens);
}

// Nothing where the server has no keys.
template <class Counts>
void write_by_key(Exposition& out, const Counts& c) {
  using Use = typename decltype(c.others)::mapped_type;
  const auto has_key = [](const auto& use) { return !use.first.first.empty(); };
  const bool any = std::any_of(c.uses.begin(), c.uses.end(), has_key) || !c.rate_limited.empty() ||
                   std::any_of(c.others.begin(), c.others.end(), [](const auto& use) { return !use.first.empty(); });
  if (!any) return;
  const auto family = [&](const char* name, const char* help, auto member) {
    out.family(name, "counter", help);
    for (const auto& [use, counts] : c.uses)
      if (!use.first.empty()) out.sample({{"key", use.first}, {"adapter", shown_adapter(use.second)}}, counts.*member);
    for (const auto& [key, counts] : c.others)
      if (!key.empty()) out.sample({{"key", key}, {"adapter", kOther}}, counts.*member);
  };
  family("tenon_key_requests_total", "Requests that were answered, by the name of the key and by adapter.",
         &Use::requests);
  family("tenon_key_prompt_tokens_total", "Their prompt tokens.", &Use::prompt_tokens);
  family("tenon_key_generated_tokens_total", "Tokens generated for them.", &Use::generated_tokens);
  out.family("tenon_key_rate_limited_total", "counter", "Requests refused since a key's minute was used up.");
  for (const auto& [key, count] : c.rate_limited) out.sample({{"key", key}}, count);
}

}  // namespace

std::string Metrics::text(const Snapshot& snapshot) const {
  const Counts c = copy(snapshot);
  Exposition out;
  write_lorax(out, c, snapshot);
  if (snapshot.vllm) write_vllm(out, c, snapshot);
  write_by_adapter(out, c);
  write_by_key(out, c);
  write_adapters(out, snapshot.adapters);
  write_service(out, snapshot.service);
  out.counter("tenon_log_lines_lost_total", "Lines of the log that standard error did not take.",
              snapshot.log_lines_lost);
  out.counter("tenon_ignored_fields_total", "Unknown fields of requests that were left out (--lenient).",
              c.ignored_fields);
  write_process(out);
  return out.take();
}

}  // namespace serve
