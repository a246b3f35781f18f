#include "serve/api/exchange.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "serve/api/handle.h"
#include "serve/api/trace_context.h"

namespace serve {
namespace {

using namespace std::chrono_literals;
using tenon::Clock;
using tenon::Event;
using tenon::TimePoint;

constexpr auto kLook = 50ms;         // so often somebody looks whether the client is still there
constexpr std::size_t kAtOnce = 32;  // events that an answer sent whole is woken for
constexpr auto kHeartbeat = 15s;     // a stream that has nothing to say says so
constexpr int kClientClosed = 499;   // nginx's, for the log

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }
// Of two moments that both were; else 0.
double between(TimePoint from, TimePoint to) {
  return from == TimePoint{} || to == TimePoint{} ? 0 : std::max(0.0, seconds(to - from));
}

// The same for all streams, so that the engine's threads are disturbed once for all of them.
TimePoint tick_after(TimePoint moment, Clock::duration interval) {
  if (interval == Clock::duration::zero()) return moment;
  return TimePoint((moment.time_since_epoch() / interval + 1) * interval);
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

Exchange::Exchange(Serving& serving, const HttpRequest& request, std::string id)
    : serving_(serving),
      route_(request.route),
      id_(std::move(id)),
      trace_(trace_context(request)),
      peer_(request.peer) {
  times_.arrived = request.arrival;
}

Model& Exchange::enter(Caller caller) {
  serving_.metrics.request_begins();
  entered_ = true;
  caller_ = std::move(caller);
  model_ = &serving_.taking_model();
  ticket_.emplace(enter_as(serving_, caller_));
  return *model_;
}

void Exchange::tell_rates(HttpResponse& response) const {
  if (caller_.tenant) caller_.tenant->tell(response, Clock::now());
}

Exchange::~Exchange() {
  if (running_) serving_.handover.leave(running_);
  try {
    if (asked_.parked && !answer_) serving_.handover.give_back(std::move(asked_.parked));
    const Usage usage = asked_.writer ? asked_.writer->usage() : Usage{};
    settle_tokens(usage);
    if (entered_) count(usage);
    log(usage);
  } catch (...) {  // no memory: this line is lost, and nothing else
  }
}

void Exchange::count(const Usage& usage) const {
  Metrics& metrics = serving_.metrics;
  const std::string key = caller_.tenant ? caller_.tenant->name() : "";
  if (error_ && error_->kind == ApiError::Kind::rate_limited) metrics.rate_limited(key);
  if (dropped_) return metrics.request_failed(FailureKind::dropped);
  if (reason_ == tenon::FinishReason::moved) return;  // the one who goes on counts it
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

void Exchange::serve(Asked asked, HttpResponse& response) {
  asked_ = std::move(asked);
  fetch_adapters(response);
  take_work();
  submit(response);
  if (asked_.stream) return answer_stream(response);
  answer_whole(response);
}

// Before anything is taken for the request: a command may run for minutes.
void Exchange::fetch_adapters(HttpResponse& response) {
  AdapterNames& names = model_->adapters();
  if (!names.fetches()) return;
  for (const tenon::Request& request : asked_.requests) {
    for (const tenon::AdapterUse& use : request.adapters) {
      if (!names.is_known(use.name) && !caller_.tenant)
        throw ApiError(ApiError::Kind::unauthorized, "a valid API key is needed for an adapter that is to be fetched");
      try {
        names.fetch(use.name, [this] { return !peer_->gone(); });
      } catch (const FetchError&) {
        if (peer_->gone()) drop(response);
        throw;
      }
    }
  }
}

// Sequences are numbered, so that the first of each request may go before the later ones of others.
void Exchange::take_work() {
  Work work;
  for (tenon::Request& request : asked_.requests) {
    tenon::Options& o = request.options;
    o.client = caller_.client;
    o.ordinal = work.sequences;
    const int sequences = std::max(o.n, o.best_of);
    work.sequences += sequences;
    work.tokens +=
        static_cast<std::int64_t>(sequences) * (static_cast<std::int64_t>(request.input_ids.size()) + o.max_new_tokens);
  }
  if (!ticket_->take(work))
    throw ApiError(ApiError::Kind::overloaded,
                   "as many sequences and tokens are being computed as the server, or this key, may have at once");
  if (!caller_.tenant) return;
  try {
    caller_.tenant->take_tokens(work.tokens, Clock::now());
  } catch (const ApiError&) {
    caller_.tenant->give_back_request();
    throw;
  }
  tokens_taken_ = work.tokens;
}

// The longest answers were taken; what was computed is paid.
void Exchange::settle_tokens(const Usage& usage) {
  if (!caller_.tenant || tokens_taken_ == 0) return;
  const std::int64_t used = std::int64_t{usage.prompt_tokens} + usage.generated_tokens;
  caller_.tenant->settle_tokens(std::exchange(tokens_taken_, 0), used);
}

void Exchange::submit(HttpResponse& response) {
  const Settings& settings = model_->settings();
  if (asked_.parked) {
    answer_.emplace(std::move(asked_.parked->answer));
    return follow();
  }
  refuse_another_wait(settings);
  answer_.emplace(model_->service());
  try {
    for (tenon::Request& request : asked_.requests) {
      tenon::SubmitOptions options{.timeout = settings.request_timeout,
                                   .adapter_wait = settings.adapter_wait,
                                   .wanted = [this] { return !peer_->gone(); }};
      if (asked_.on_lease) lease_adapters(request, options);
      answer_->submit(std::move(request), std::move(options));
    }
  } catch (const tenon::Error& error) {
    if (error.kind() != tenon::Error::Kind::overloaded || error.where() != "adapter") throw;
    if (peer_->gone()) drop(response);
    throw ApiError(ApiError::Kind::overloaded,
                   "all places for adapters are in use, and stayed so as long as a request waits");
  }
  follow();
}

// The answer is being computed.
void Exchange::follow() {
  if (asked_.handed) running_ = serving_.handover.enter(std::move(*asked_.handed), answer_->id());
  asked_.requests.clear();
  times_.submitted = Clock::now();
}

// As Service::submit does it. The lease holds the contents that the names stand for now, whatever is loaded or removed
// under the names later.
void Exchange::lease_adapters(tenon::Request& request, tenon::SubmitOptions& options) {
  if (options.timeout > Clock::duration::zero()) options.deadline = tenon::detail::after(options.timeout);
  const TimePoint until = std::min(options.deadline, tenon::detail::after(options.adapter_wait));
  if (!request.adapters.empty()) request.lease = model_->lease(request.adapters, {until, options.wanted});
  asked_.on_lease(request);
}

// Those that wait for an adapter hold places, of which others shall find some.
void Exchange::refuse_another_wait(const Settings& settings) const {
  if (asked_.adapter.empty() || model_->adapter_stats().waiting < std::max(1, settings.max_concurrent_requests / 2))
    return;
  throw ApiError(ApiError::Kind::overloaded, "too many requests wait for their adapters already");
}

// False where nothing came in time, or nothing else will. ApiError where the answer fails.
bool Exchange::take(Clock::duration patience, Answer::Wish wish) {
  auto event = answer_->next_for(patience, wish);
  if (!event) return false;
  if (event->receipt && asked_.receipt_key)
    event->receipt = std::make_shared<const tenon::Receipt>(asked_.receipt_key->sign(*event->receipt));
  note(*event);
  if (event->kind == Event::Kind::finished && event->reason == tenon::FinishReason::moved && running_) {
    serving_.handover.wait_settled(*running_);
    if (!running_->has_sent) throw ApiError(ApiError::Kind::unavailable, "the server is going down");
  }
  asked_.writer->take(*event);
  if (asked_.writer->complete() && !answer_->ended()) answer_->cancel();
  return true;
}

void Exchange::note(const Event& event) {
  const TimePoint now = event.came == TimePoint{} ? Clock::now() : event.came;
  if (event.kind == Event::Kind::finished) {
    if (times_.started == TimePoint{} || event.started < times_.started) times_.started = event.started;
    if (event.reason != tenon::FinishReason::cancelled) reason_ = event.reason;
    if (times_.first == TimePoint{}) times_.last = now;  // an answer without tokens
  }
  if (event.kind != Event::Kind::token || asked_.writer->complete()) return;
  if (times_.first == TimePoint{})
    times_.first = now;
  else
    serving_.metrics.token_gap(seconds(now - times_.last));
  times_.last = now;
}

// Asked now and then, however fast tokens come.
bool Exchange::client_has_left() {
  const TimePoint now = Clock::now();
  if (now - looked_ < kLook) return false;
  looked_ = now;
  return peer_->gone();
}

// What is answered now reaches nobody, or a client that has closed its half and would take it for an answer.
void Exchange::drop(HttpResponse& response) {
  dropped_ = true;
  if (answer_) answer_->cancel();
  response.close = true;
  throw ApiError(ApiError::Kind::incomplete, "the client has left");
}

void Exchange::answer_whole(HttpResponse& response) {
  while (!asked_.writer->complete()) {
    take(kLook, {.events = kAtOnce});
    if (client_has_left()) drop(response);
  }
  settle();
  settle_tokens(asked_.writer->usage());
  add_headers(response, true);
  response.set_content(asked_.writer->whole(), "application/json");
}

void Exchange::answer_stream(HttpResponse& response) {
  while (times_.first == TimePoint{} && !answer_->ended() && Clock::now() - times_.submitted < kHeartbeat) {
    take(kLook);
    if (client_has_left()) drop(response);
  }
  add_headers(response, false);
  written_ = Clock::now();
  response.set_header("Cache-Control", "no-cache");
  response.set_header("X-Accel-Buffering", "no");
  response.set_stream("text/event-stream",
                      [self = shared_from_this()](HttpSink& sink) { return self->write_more(sink); });
}

// What is there goes out in one piece. An answer that fails now can only say so in the stream.
bool Exchange::write_more(HttpSink& sink) {
  std::string text;
  bool over = false;
  try {
    text = next_text();
    over = asked_.writer->complete();
    if (over) text += asked_.writer->end_of_stream();
  } catch (...) {
    const ApiError error = api_error(std::current_exception(), dialect_of(route_));
    if (reason_ != tenon::FinishReason::moved) failed(error);
    answer_->cancel();
    text = asked_.writer->streamed() + asked_.writer->failure(error);
    over = true;
  }
  if (running_ && !text.empty()) running_->has_sent = true;
  const TimePoint now = Clock::now();
  if (text.empty() && now - written_ > kHeartbeat) text = ":\n\n";
  if (!text.empty()) written_ = now;
  if ((!text.empty() && !sink.write(text)) || (!over && client_has_left())) {
    dropped_ = true;
    answer_->cancel();
    return false;
  }
  if (over) {
    sink.done();
    settle();
  }
  return true;
}

// Tokens that come sooner than the interval share a write. So do those that a continuation leaves out, though they are
// not written: each wake takes time from the engine's threads.
std::string Exchange::next_text() {
  bool took = asked_.writer->has_streamed() ||
              take(kLook, {.not_before = tick_after(sent_, model_->settings().stream_interval)});
  while (take({})) took = true;
  if (took) sent_ = Clock::now();
  return asked_.writer->streamed();
}

// A writer may have all it wants before the engine has ended; when it does, within a step, it tells how long the
// request waited.
void Exchange::settle() noexcept {
  try {
    while (!error_ && !answer_->ended()) take(kLook);
  } catch (...) {  // the client has all of it
  }
  if (reason_ == tenon::FinishReason::error) reason_ = tenon::FinishReason::stop;  // that was a stop string
}

// LoRAX's, in milliseconds.
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
