#include "serve/api/resume/resume.h"

#include <bit>
#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/body.h"
#include "serve/api/resume/resumable_writer.h"
#include "serve/text.h"

namespace serve {
namespace {

constexpr const char* kResumeHeader = "Last-Event-ID";

std::int64_t seconds_now() { return static_cast<std::int64_t>(seconds_since_1970()); }

// Values one after the other, so that two lists that differ give texts that differ.
class Listing {
 public:
  Listing& add(const std::string& text) {
    text_ += std::to_string(text.size()) + ":" + text;
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
std::string description_of(const HttpRequest& request, const tenon::Request& made, const Model& model) {
  const tenon::Options& o = made.options;
  Listing all;
  all.add(request.route).add(without_prediction(request.body)).add(model.name()).add(made.input_ids);
  all.add(o.max_new_tokens).add(o.min_new_tokens).add(o.temperature).add(o.top_k).add(o.top_p).add(o.min_p);
  all.add(o.typical_p).add(o.repetition_penalty).add(o.presence_penalty).add(o.frequency_penalty);
  all.add(o.logit_bias).add(o.stop).add(o.include_stop).add(o.skip_special_tokens).add(o.stop_ids).add(o.ignore_eos);
  all.add(o.top_logprobs).add(o.finish_within_budget);
  return all.take();
}

// The contents that the names stand for now.
std::string digests_of(Model& model, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  Listing all;
  const std::vector<tenon::AdapterInfo> resident = model.resident();
  for (const std::string& name : names)
    for (const tenon::AdapterInfo& each : resident)
      if (each.name == name) all.add(name).add(each.digest);
  return all.take();
}

}  // namespace

AnswerIdentity identity_of(const HttpRequest& request, const std::string& prefix) {
  const std::string sent = request.header(kResumeHeader);
  if (sent.empty())
    return {.id = prefix.empty() ? prefix : prefix + random_id(), .created = seconds_now(), .seed = random_bits()};
  SentStreamId after = parse_stream_id(sent);
  return {
      .id = after.place.answer, .created = after.place.created, .seed = after.place.seed, .after = std::move(after)};
}

void make_resumable(Asked& asked, const AnswerIdentity& identity, const HttpRequest& request, const std::string& owner,
                    Model& model, const std::string& key) {
  if (!asked.resumable) {
    if (!identity.after) return;
    throw ApiError(ApiError::Kind::malformed,
                   "`Last-Event-ID` continues a stream whose body says `resumable`: true; this body does not",
                   kResumeHeader);
  }
  if (key.empty()) {
    throw ApiError(ApiError::Kind::invalid,
                   "`resumable` needs a key that all replicas share: start the server with --resume-key-file FILE",
                   "resumable");
  }
  const tenon::Request& made = asked.requests.front();
  StreamSeal seal(key,
                  {.request = description_of(request, made, model), .owner = owner, .engine = model.fingerprint()});
  if (identity.after) seal.check(*identity.after, seconds_now());
  const std::int64_t lifetime =
      std::chrono::duration_cast<std::chrono::seconds>(model.settings().resume_timeout).count();
  const StreamPlace begin{.seed = made.options.seed,
                          .created = identity.created,
                          .expires = identity.after ? identity.after->place.expires : identity.created + lifetime,
                          .answer = identity.id};
  std::vector<std::string> adapters;
  for (const tenon::AdapterUse& use : made.adapters) adapters.push_back(use.name);
  asked.writer = std::make_unique<ResumableWriter>(
      std::move(asked.writer), std::move(seal),
      ResumableWriter::Terms{.place = begin, .after = identity.after, .adapters = [&model, adapters] {
                               return digests_of(model, adapters);
                             }});
}

}  // namespace serve
