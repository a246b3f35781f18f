#include "serve/api/resume/resume.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/body.h"
#include "serve/api/resume/resumable_writer.h"
#include "serve/api/resume/stream_id.h"
#include "serve/text.h"
#include "tenon/version.h"

namespace serve {
namespace {

constexpr const char* kResumeHeader = "Last-Event-ID";

// The form of the events that the writers make of tokens. Raise it with any change of what they send: a continuation
// by another form would not be the rest of the same stream.
constexpr int kEventForm = 2;

// Values one after the other, so that two lists that differ give texts that differ.
class Listing {
 public:
  Listing& add(const std::string& text) {
    text_ += with_length(text);
    return *this;
  }
  template <class Number>
  requires std::is_arithmetic_v<Number> Listing& add(Number number) {
    if constexpr (std::is_floating_point_v<Number>)
      text_ += std::to_string(std::bit_cast<std::uint32_t>(number)) + ";";
    else
      text_ += std::to_string(number) + ";";
    return *this;
  }
  template <class Each>
  Listing& add(const std::vector<Each>& list) {
    add(list.size());
    for (const Each& each : list) add(each);
    return *this;
  }
  template <class A, class B>
  Listing& add(const std::pair<A, B>& pair) {
    return add(pair.first).add(pair.second);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// A prediction decides speed alone, and differs by what the client has received.
std::string without_prediction(std::string_view text) {
  tenon::OrderedJson body = parse_body(text).ordered();
  body.erase("prediction");
  return one_line(body);
}

// The request as the client wrote it, and what this server's settings and the time of day make of it.
std::string description_of(const HttpRequest& request, const Asked& asked, const Model& model) {
  const tenon::Request& made = asked.requests.front();
  const tenon::Options& o = made.options;
  Listing all;
  all.add(request.route).add(without_prediction(request.body)).add(model.name()).add(made.input_ids);
  all.add(o.max_new_tokens).add(o.min_new_tokens).add(o.temperature).add(o.top_k).add(o.top_p).add(o.min_p);
  all.add(o.typical_p).add(o.repetition_penalty).add(o.presence_penalty).add(o.frequency_penalty);
  all.add(o.logit_bias).add(o.stop).add(o.include_stop).add(o.skip_special_tokens).add(o.stop_ids).add(o.ignore_eos);
  all.add(o.top_logprobs).add(o.prompt_logprobs).add(o.finish_within_budget).add(o.seed).add(o.receipt);
  all.add(asked.reading);
  if (o.receipt)
    all.add(asked.receipt_key ? asked.receipt_key->id() : std::string());  // its signature is in the stream
  return all.take();
}

std::string engine_of(const Model& model, std::string_view version = tenon::kVersion) {
  return Listing().add(model.fingerprint()).add(std::string(version)).add(kEventForm).take();
}

std::string listed_digests(const std::vector<std::string>& digests) {
  return digests.empty() ? std::string() : Listing().add(digests).take();
}

// The digests of the request's adapters, in their order. Its lease holds them.
std::string digests_of(const tenon::Request& request) {
  const std::vector<std::string>& digests = request.lease.digests;
  const bool whole = digests.size() == request.adapters.size() &&
                     std::none_of(digests.begin(), digests.end(), [](const std::string& each) { return each.empty(); });
  if (!whole) throw ApiError(ApiError::Kind::engine, "an adapter of a resumable stream has no digest");
  return listed_digests(digests);
}

// Checks an id of a stream that was handed over, and takes the stream. A server of another version may have written the
// id. False where another client has taken the stream meanwhile.
bool take_parked(const std::shared_ptr<ParkedStream>& parked, const SentStreamId& after, const StreamPlace& begin,
                 StreamScope scope, const Model& model, Serving& serving) {
  std::optional<ApiError> refusal;
  for (const std::string& version : parked->stream.versions) {
    scope.engine = engine_of(model, version);
    StreamSeal seal(serving.resume_key, scope, begin);
    try {
      seal.check_tags(after, seconds_now());
      seal.bind_adapters(listed_digests(parked->stream.progress.digests));
      seal.check_contents(after);
      return serving.handover.claim(parked);
    } catch (const ApiError& error) {
      refusal = error;
    }
  }
  if (refusal) throw *refusal;
  return false;
}

// The stream's data for a hand-over, all but its progress.
HandedStream handed_stream(const HttpRequest& request, const Asked& asked, const StreamPlace& begin,
                           const Caller& caller, const Model& model) {
  HandedStream stream{.begin = begin,
                      .route = request.route,
                      .body = request.body,
                      .receipt = asked.requests.front().options.receipt,
                      .owner = caller.tenant ? caller.tenant->name() : std::string(),
                      .client = caller.client,
                      .fingerprint = model.fingerprint(),
                      .event_form = kEventForm,
                      .versions = {std::string(tenon::kVersion)}};
  if (asked.parked)
    for (const std::string& version : asked.parked->stream.versions)
      if (version != tenon::kVersion) stream.versions.push_back(version);
  return stream;
}

}  // namespace

void check_engine(const HandedStream& stream, const Model& model) {
  if (stream.fingerprint == model.fingerprint() && stream.event_form == kEventForm) return;
  throw ApiError(ApiError::Kind::other_engine,
                 "it is of another engine, whose model or formats differ, or its events have another form");
}

AnswerIdentity identity_of(const HttpRequest& request, const std::string& prefix) {
  AnswerIdentity fresh{.id = prefix + random_id(), .created = seconds_now(), .seed = random_bits()};
  const std::string sent = request.header(kResumeHeader);
  if (sent.empty()) return fresh;
  try {
    SentStreamId after = parse_stream_id(sent);
    return {
        .id = after.place.answer, .created = after.place.created, .seed = after.place.seed, .after = std::move(after)};
  } catch (const ApiError& error) {  // other programs have headers of this name, too
    fresh.refusal = error;
    return fresh;
  }
}

void make_resumable(Asked& asked, const AnswerIdentity& identity, const HttpRequest& request, const Caller& caller,
                    Model& model, Serving& serving) {
  if (!asked.resumable) {
    if (!identity.after) return;
    throw ApiError(ApiError::Kind::malformed,
                   "`Last-Event-ID` continues a stream whose body says `resumable`: true; this body does not",
                   kResumeHeader);
  }
  if (serving.resume_key.empty()) {
    throw ApiError(ApiError::Kind::invalid,
                   "`resumable` needs a key that all replicas share: start the server with --resume-key-file FILE",
                   "resumable");
  }
  if (identity.refusal) throw *identity.refusal;
  const std::int64_t lifetime =
      std::chrono::duration_cast<std::chrono::seconds>(model.settings().resume_timeout).count();
  StreamPlace begin{.seed = asked.requests.front().options.seed,
                    .created = identity.created,
                    .expires = identity.created + lifetime,
                    .answer = identity.id};
  if (identity.after) {
    begin = identity.after->place;
    begin.events = 0;
  }
  const StreamScope scope{.request = description_of(request, asked, model),
                          .owner = caller.tenant ? caller.tenant->name() : std::string(),
                          .engine = engine_of(model)};
  StreamSeal seal(serving.resume_key, scope, begin);
  if (identity.after) {
    seal.check_key(*identity.after);  // before a file is read, and a stream started
    asked.is_continued = true;
    auto parked = serving.handover.find(serving, model, identity.after->place.answer);
    if (parked && take_parked(parked, *identity.after, begin, scope, model, serving)) asked.parked = std::move(parked);
  }
  const bool is_checked = asked.parked != nullptr;
  if (identity.after && !is_checked) seal.check_tags(*identity.after, seconds_now());
  // Scores of a prompt come with the first token that is computed here, so the events before it cannot be repeated.
  const bool scores_prompt = asked.requests.front().options.prompt_logprobs >= 0;
  if (serving.handover.is_on() && !scores_prompt) asked.handed = handed_stream(request, asked, begin, caller, model);
  auto writer = std::make_unique<ResumableWriter>(std::move(asked.writer), std::move(seal), std::move(begin),
                                                  identity.after, is_checked);
  if (is_checked)
    writer->bind_adapters(listed_digests(asked.parked->stream.progress.digests));
  else
    asked.on_lease = [writer = writer.get()](const tenon::Request& leased) {
      writer->bind_adapters(digests_of(leased));
    };
  asked.writer = std::move(writer);
}

}  // namespace serve
