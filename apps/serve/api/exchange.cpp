#include "serve/api/exchange.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "serve/api/handle.h"
#include "serve/api/trace_context.h"
#include "tenon/constrain/constraints.h"
#include "tenon/io/json.h"

namespace serve {
namespace {

using namespace std::chrono_literals;
using tenon::Clock;
using tenon::Event;
using tenon::TimePoint;

constexpr auto kLook = 50ms;                 // so often somebody looks whether the client is still there
constexpr std::size_t kAtOnce = 32;          // events that an answer sent whole is woken for
constexpr auto kHeartbeat = 15s;             // a stream that has nothing to say says so
constexpr std::size_t kWarningBytes = 1000;  // clients and proxies take headers of some KiB

// The same for all streams, so that the engine's threads are disturbed once for all of them.
TimePoint tick_after(TimePoint moment, Clock::duration interval) {
  if (interval == Clock::duration::zero()) return moment;
  return TimePoint((moment.time_since_epoch() / interval + 1) * interval);
}

// A JSON list in ASCII of what the answer's form does not enforce; empty: all of it is enforced. Long warnings are cut,
// and the last one says how many are left out. Prompts of one request share a form.
std::string warnings_of(const std::vector<tenon::Request>& requests) {
  const auto* const form =
      requests.empty() ? nullptr
                       : dynamic_cast<const tenon::constrain::CompiledConstraint*>(requests.front().constraint.get());
  if (form == nullptr) return {};
  const auto text = [](const tenon::Json& json) {
    return json.dump(-1, ' ', true, tenon::Json::error_handler_t::replace);
  };
  const std::vector<std::string> warnings = form->warnings();
  tenon::Json list = tenon::Json::array();
  std::size_t bytes = 0;
  for (const std::string& warning : warnings) {
    const std::string cut = shown(warning, kWarningBytes / 8);
    bytes += text(cut).size();
    if (bytes > kWarningBytes) break;
    list.push_back(cut);
  }
  if (list.size() < warnings.size()) list.push_back("and " + std::to_string(warnings.size() - list.size()) + " more");
  return list.empty() ? "" : text(list);
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
  const bool is_handed_over = running_ && serving_.handover.leave(running_);
  try {
    if (asked_.parked && !answer_)
      serving_.handover.give_back(asked_.parked);
    else if (can_come_again() && !is_handed_over)
      serving_.handover.put_back(model_->service(), asked_.parked->stream, answer_->id());
    const Usage usage = asked_.writer ? asked_.writer->usage() : Usage{};
    settle_tokens(usage);
    if (entered_) count(usage);
    log(usage);
  } catch (...) {  // no memory: this line is lost, and nothing else
  }
}

void Exchange::serve(Asked asked, HttpResponse& response) {
  asked_ = std::move(asked);
  if (asked_.requests.empty() && !asked_.parked) return answer_at_once(response);
  asked_.warnings = warnings_of(asked_.requests);
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
  if (!ticket_->take(work)) {
    ApiError error(ApiError::Kind::overloaded,
                   "as many sequences and tokens are being computed as the server, or this key, may have at once");
    error.retry_after = serving_.admission.retry_after();
    throw error;
  }
  if (!caller_.tenant) return;
  try {
    caller_.tenant->take_tokens(work.tokens, Clock::now());
  } catch (const ApiError&) {
    caller_.tenant->give_back_request();
    throw;
  }
  tokens_taken_ = work.tokens;
}

// The longest answers were taken; what was computed is paid. Tokens that were handed over are paid where they were
// computed.
void Exchange::settle_tokens(const Usage& usage) {
  if (!caller_.tenant || tokens_taken_ == 0) return;
  const auto handed = asked_.parked ? static_cast<int>(asked_.parked->stream.progress.choices.front().ids.size()) : 0;
  const std::int64_t used = std::int64_t{usage.prompt_tokens} + std::max(0, usage.generated_tokens - handed);
  caller_.tenant->settle_tokens(std::exchange(tokens_taken_, 0), used);
}

void Exchange::submit(HttpResponse& response) {
  const Settings& settings = model_->settings();
  if (asked_.parked) {
    follow(asked_.parked->answer.id());  // first: it may refuse, and then the stream is given back
    answer_.emplace(std::move(asked_.parked->answer));
    return;
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
  follow(answer_->id());
}

// The answer is being computed.
void Exchange::follow(tenon::RequestId request) {
  if (asked_.handed) running_ = serving_.handover.enter(std::move(*asked_.handed), request, asked_.is_continued);
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

// Says what became of a stream that was taken out of the engine. In a stream that was handed over the writer says so.
void Exchange::check_moved() {
  const bool is_streaming = written_ != TimePoint{};
  const auto kind = is_streaming ? ApiError::Kind::incomplete : ApiError::Kind::unavailable;
  if (serving_.handover.wait_settled(*running_)) {
    if (is_streaming) return;
    throw ApiError(kind, "the stream was handed over to another server: continue it by its Last-Event-ID");
  }
  reason_ = tenon::FinishReason::error;
  if (running_->has_sent)
    throw ApiError(kind,
                   "the server is going down, and has not handed the stream over: a server that continues it by "
                   "its Last-Event-ID computes it again");
  asked_.writer->streamed();  // the client has no event yet, and asks again
  throw ApiError(ApiError::Kind::unavailable, "the server is going down");
}

// False where nothing came in time, or nothing else will. ApiError where the answer fails.
bool Exchange::take(Clock::duration patience, Answer::Wish wish) {
  auto event = answer_->next_for(patience, wish);
  if (!event) return false;
  if (event->receipt && asked_.receipt_key)
    event->receipt = std::make_shared<const tenon::Receipt>(asked_.receipt_key->sign(*event->receipt));
  note(*event);
  if (event->kind == Event::Kind::finished && event->reason == tenon::FinishReason::moved && running_) check_moved();
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
    serving_.metrics.token_gap(std::chrono::duration<double>(now - times_.last).count());
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
  if (answer_) cancel();
  response.close = true;
  throw ApiError(ApiError::Kind::incomplete, "the client has left");
}

// A stream that was taken up, and of which the client has nothing new: it waits for the client again.
bool Exchange::can_come_again() const { return asked_.parked && answer_ && !has_written_ && (dropped_ || !error_); }

// One that waits for its client again goes on until it is written.
void Exchange::cancel() {
  if (!can_come_again()) answer_->cancel();
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

// There is nothing to compute.
void Exchange::answer_at_once(HttpResponse& response) {
  reason_ = tenon::FinishReason::stop;
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
  response.set_stream(asked_.writer->stream_type(),
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
  const bool has_text = !text.empty();
  if (running_ && has_text) running_->has_sent = true;
  const TimePoint now = Clock::now();
  if (text.empty() && now - written_ > kHeartbeat) text = asked_.writer->heartbeat();
  if (!text.empty()) written_ = now;
  if ((!text.empty() && !sink.write(text)) || (!over && client_has_left())) {
    dropped_ = true;
    cancel();
    return false;
  }
  has_written_ = has_written_ || has_text || over;
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

}  // namespace serve
