// Reports of an exchange: to the metrics, to the log, and in headers.
#include <algorithm>
#include <chrono>
#include <string>

#include "serve/api/exchange.h"
#include "serve/api/handle.h"

namespace serve {
namespace {

using tenon::Clock;
using tenon::TimePoint;

constexpr int kClientClosed = 499;  // nginx's, for the log

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }
// The seconds between two moments; 0 if one of them has not been.
double between(TimePoint from, TimePoint to) {
  return from == TimePoint{} || to == TimePoint{} ? 0 : std::max(0.0, seconds(to - from));
}

FailureKind failure_of(ApiError::Kind kind) {
  using enum ApiError::Kind;
  switch (kind) {
    case overloaded:
    case rate_limited:
    case unavailable:
      return FailureKind::overloaded;
    case unknown_adapter:
      return FailureKind::download_adapter;
    case adapter_unusable:
      return FailureKind::load_adapter;
    case engine:
      return FailureKind::generation;
    case incomplete:
    case timeout:
      return FailureKind::incomplete;
    default:
      return FailureKind::validation;
  }
}

}  // namespace

void Exchange::count(const Usage& usage) const {
  Metrics& metrics = serving_.metrics;
  const std::string key = caller_.tenant ? caller_.tenant->name() : "";
  if (error_ && error_->kind == ApiError::Kind::rate_limited) metrics.rate_limited(key);
  if (dropped_) return metrics.request_failed(FailureKind::dropped);
  if (reason_ == tenon::FinishReason::moved) return;  // the server that goes on with it counts it
  if (error_) return metrics.request_failed(failure_of(error_->kind));
  const int tokens = usage.generated_tokens;
  metrics.request_finished({.key = key,
                            .adapter = asked_.adapter,
                            .prompt_tokens = usage.prompt_tokens,
                            .generated_tokens = tokens,
                            .max_new_tokens = asked_.max_new_tokens,
                            .reason = reason_,
                            .total = between(times_.arrived, times_.last),
                            .validation = between(times_.arrived, times_.submitted),
                            .queue = between(times_.submitted, times_.started),
                            .inference = between(times_.started, times_.last),
                            .first_token = between(times_.arrived, times_.first),
                            .per_output_token = tokens > 1 ? between(times_.first, times_.last) / (tokens - 1) : 0});
}

void Exchange::log(const Usage& usage) const {
  LogLine line{.id = id_, .method = "POST", .route = route_, .trace = trace_, .adapter = asked_.adapter};
  if (caller_.tenant) line.key = caller_.tenant->name();
  line.ms = seconds(Clock::now() - times_.arrived) * 1000;
  line.status = dropped_ ? kClientClosed : error_ ? status(error_->kind, dialect_of(route_)) : 200;
  if (asked_.writer) {
    line.prompt_tokens = usage.prompt_tokens;
    line.tokens = usage.generated_tokens;
  }
  if (times_.first != TimePoint{}) line.ttft_ms = between(times_.arrived, times_.first) * 1000;
  if (error_)
    line.error = type_of(error_->kind);
  else
    line.reason = dropped_ ? "dropped" : to_string(reason_);
  serving_.log.write(line);
}

// Adds the headers that LoRAX sends. Times are in milliseconds. whole: the answer is complete, so totals are known.
void Exchange::add_headers(HttpResponse& response, bool whole) const {
  const auto number = [&](const char* name, auto value) { response.set_header(name, std::to_string(value)); };
  response.set_header("x-compute-type", model_->settings().model.device);
  response.set_header("x-model-id", model_->name());
  number("x-compute-characters", asked_.characters);
  if (!asked_.adapter.empty()) {
    const std::string source = model_->adapters().source_of(asked_.adapter), prefix = source + ":";
    const bool prefixed = asked_.adapter.starts_with(prefix);
    response.set_header("x-adapter-id", prefixed ? asked_.adapter.substr(prefix.size()) : asked_.adapter);
    response.set_header("x-adapter-source", source);
  }
  if (!asked_.warnings.empty()) response.set_header("x-tenon-warnings", asked_.warnings);
  if (!whole) return;
  const auto time = [&](const char* name, double value) { number(name, static_cast<long long>(value * 1000 + 0.5)); };
  const Usage usage = asked_.writer->usage();
  const double total = between(times_.arrived, Clock::now()), inference = between(times_.started, times_.last);
  time("x-compute-time", total);
  time("x-total-time", total);
  time("x-validation-time", between(times_.arrived, times_.submitted));
  time("x-queue-time", between(times_.submitted, times_.started));
  time("x-inference-time", inference);
  time("x-time-per-token", inference / std::max(1, usage.generated_tokens));
  time("x-time-to-first-token", between(times_.arrived, times_.first));
  time("x-time-per-output-token", between(times_.first, times_.last) / std::max(1, usage.generated_tokens - 1));
  number("x-prompt-tokens", usage.prompt_tokens);
  number("x-generated-tokens", usage.generated_tokens);
  number("x-skipped-tokens", 0);
  number("x-total-tokens", usage.prompt_tokens + usage.generated_tokens);
}

}  // namespace serve
