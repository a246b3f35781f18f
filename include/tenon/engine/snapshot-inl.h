#pragma once
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/engine/receipt.h"
#include "tenon/engine/snapshot.h"
#include "tenon/io/fields.h"
#include "tenon/io/hex.h"
#include "tenon/io/json.h"
#include "tenon/version.h"

namespace tenon {

namespace detail {

inline constexpr int kLargestInt = std::numeric_limits<int>::max();
inline constexpr const char* kPoolings[] = {"none", "last", "mean", "classify"};  // in the order of Pooling

// An option that decides no token, and is not in a receipt.
struct OtherInt {
  const char* name;
  int Options::*member;
  int least;
};
struct OtherBool {
  const char* name;
  bool Options::*member;
};
inline constexpr OtherInt kOtherInts[] = {
    {"top_logprobs", &Options::top_logprobs, -1},
    {"prompt_logprobs", &Options::prompt_logprobs, -1},
    {"priority", &Options::priority, -kLargestInt - 1},
    {"client", &Options::client, -kLargestInt - 1},
    {"ordinal", &Options::ordinal, -kLargestInt - 1},
    {"n", &Options::n, 1},
    {"best_of", &Options::best_of, 0},
};
inline constexpr OtherBool kOtherBools[] = {
    {"include_stop", &Options::include_stop},
    {"nll", &Options::nll},
    {"logits_hash", &Options::logits_hash},
    {"receipt", &Options::receipt},
};

// ---- numbers

TENON_INLINE Json bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

TENON_INLINE Json bits_of(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float value : values) list.push_back(bits_of(value));
  return list;
}

TENON_INLINE Json bits_of(const std::vector<TokenLogprob>& values) {
  Json list = Json::array();
  for (const TokenLogprob& each : values) list.push_back({each.id, bits_of(each.logprob)});
  return list;
}

TENON_INLINE std::uint64_t unsigned_of(const Fields& fields, const std::string& key, const Json& value,
                                       std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    fields.refuse(key, "must hold integers from 0 to " + std::to_string(most));
  return value.get<std::uint64_t>();
}

TENON_INLINE float float_of_bits(const Fields& fields, const std::string& key, const Json& value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(unsigned_of(fields, key, value, 0xffffffff)));
}

TENON_INLINE const Json& list_of(const Fields& fields, std::string_view key, const Json& value,
                                 std::optional<std::size_t> size = {}) {
  if (!value.is_array() || (size && value.size() != *size))
    fields.refuse(std::string(key), "must be a list of the right length");
  return value;
}

TENON_INLINE std::vector<float> floats_of_bits(const Fields& fields, const std::string& key, const Json& value) {
  std::vector<float> floats;
  for (const Json& each : list_of(fields, key, value)) floats.push_back(float_of_bits(fields, key, each));
  return floats;
}

TENON_INLINE TokenLogprob logprob_of(const Fields& fields, const std::string& key, const Json& value) {
  list_of(fields, key, value, 2);
  return {fields.check_integer(key, value[0], 0, kLargestInt), float_of_bits(fields, key, value[1])};
}

TENON_INLINE std::vector<TokenLogprob> logprobs_of(const Fields& fields, const std::string& key, const Json& value) {
  std::vector<TokenLogprob> all;
  for (const Json& each : list_of(fields, key, value)) all.push_back(logprob_of(fields, key, each));
  return all;
}

// ---- options

// Milliseconds since 1970; null: never.
TENON_INLINE Json json_of_deadline(TimePoint deadline) {
  if (deadline == TimePoint::max()) return {};
  using std::chrono::milliseconds;
  const auto now = std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  return (now + std::chrono::duration_cast<milliseconds>(deadline - Clock::now())).count();
}

TENON_INLINE TimePoint deadline_from(const Fields& fields, const char* key) {
  const Json& value = fields.value(key);
  if (value.is_null()) return TimePoint::max();
  constexpr std::int64_t kMost = 253'402'300'799'000;  // the year 9999
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kMost)
    fields.refuse(key, "must be milliseconds since 1970, or null");
  using std::chrono::milliseconds;
  const auto now = std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  const milliseconds left = milliseconds(value.get<std::int64_t>()) - now;
  const auto most = std::chrono::duration_cast<milliseconds>(TimePoint::max() - Clock::now());
  return left >= most ? TimePoint::max() : Clock::now() + left;
}

// A bias may be infinite, which JSON has no number for.
TENON_INLINE Json json_of_biases(const Options& o) {
  Json list = Json::array();
  for (const auto& [id, bias] : o.logit_bias) {
    if (std::isfinite(bias))
      list.push_back({id, shortest_double(bias)});
    else
      list.push_back({id, bias > 0 ? "inf" : "-inf"});
  }
  return list;
}

TENON_INLINE std::vector<std::pair<TokenId, float>> biases_from(const Fields& fields, const std::string& key) {
  std::vector<std::pair<TokenId, float>> biases;
  for (const Json& each : list_of(fields, key, fields.value(key))) {
    list_of(fields, key, each, 2);
    const Json& bias = each[1];
    const bool infinite = bias == "inf" || bias == "-inf";
    if (!infinite && !bias.is_number()) fields.refuse(key, "must be a list of pairs of a token and a number");
    const float value = infinite ? (bias == "inf" ? HUGE_VALF : -HUGE_VALF) : bias.get<float>();
    biases.emplace_back(fields.check_integer(key, each[0], 0, kLargestInt), value);
  }
  return biases;
}

TENON_INLINE Json json_of_others(const Options& o) {
  Json json = {{"logit_bias", json_of_biases(o)},
               {"logits_at", o.logits_at},
               {"pooling", kPoolings[static_cast<std::size_t>(o.pooling)]},
               {"tag", o.tag},
               {"deadline", json_of_deadline(o.deadline)},
               {"cache_salt", o.cache_salt}};
  for (const OtherInt& each : kOtherInts) json[each.name] = o.*each.member;
  for (const OtherBool& each : kOtherBools) json[each.name] = o.*each.member;
  return json;
}

TENON_INLINE void take_others(const Fields& fields, Options& o) {
  std::set<std::string_view> known{"logit_bias", "logits_at", "pooling", "tag", "deadline", "cache_salt"};
  for (const OtherInt& each : kOtherInts) {
    known.insert(each.name);
    o.*each.member = fields.integer(each.name, each.least, kLargestInt);
  }
  for (const OtherBool& each : kOtherBools) {
    known.insert(each.name);
    o.*each.member = fields.boolean(each.name);
  }
  refuse_other_fields(fields, std::move(known));
  o.logit_bias = biases_from(fields, "logit_bias");
  o.logits_at = fields.integers("logits_at", 0, kLargestInt);
  const std::string pooling = fields.choice("pooling", {kPoolings[0], kPoolings[1], kPoolings[2], kPoolings[3]});
  for (std::size_t i = 0; i < std::size(kPoolings); ++i)
    if (pooling == kPoolings[i]) o.pooling = static_cast<Pooling>(i);
  o.tag = unsigned_of(fields, "tag", fields.value("tag"));
  o.deadline = deadline_from(fields, "deadline");
  o.cache_salt = fields.string("cache_salt");
}

// ---- progress

TENON_INLINE Json json_of_scores(const Scores& scores) {
  Json logits = Json::array(), prompt = Json::array(), nll;
  for (const auto& [position, row] : scores.logits) logits.push_back({position, bits_of(row)});
  for (const PromptLogprob& each : scores.prompt)
    prompt.push_back({each.token.id, bits_of(each.token.logprob), bits_of(each.top), each.rank});
  if (scores.nll_mean) nll = std::bit_cast<std::uint64_t>(*scores.nll_mean);
  return {{"logits", std::move(logits)}, {"prompt", std::move(prompt)}, {"nll_mean", std::move(nll)}};
}

TENON_INLINE std::shared_ptr<const Scores> scores_from(const Fields& fields) {
  if (fields.value("scores").is_null()) return nullptr;
  const Fields in = fields.object("scores");
  refuse_other_fields(in, {"logits", "prompt", "nll_mean"});
  auto scores = std::make_shared<Scores>();
  for (const Json& each : list_of(in, "logits", in.value("logits"))) {
    list_of(in, "logits", each, 2);
    scores->logits.emplace_back(in.check_integer("logits", each[0], 0, kLargestInt),
                                floats_of_bits(in, "logits", each[1]));
  }
  for (const Json& each : list_of(in, "prompt", in.value("prompt"))) {
    list_of(in, "prompt", each, 4);
    scores->prompt.push_back(
        {{in.check_integer("prompt", each[0], 0, kLargestInt), float_of_bits(in, "prompt", each[1])},
         logprobs_of(in, "prompt", each[2]),
         in.check_integer("prompt", each[3], 1, kLargestInt)});
  }
  const Json& nll = in.value("nll_mean");
  if (!nll.is_null()) scores->nll_mean = std::bit_cast<double>(unsigned_of(in, "nll_mean", nll));
  return scores;
}

TENON_INLINE Json json_of_choice(const ChoiceProgress& choice) {
  Json top = Json::array(), chain = Json::array();
  for (const auto& each : choice.top_logprobs) top.push_back(bits_of(each));
  for (const Sha256::Digest& each : choice.chain) chain.push_back(hex_of(each));
  return {{"ids", choice.ids},
          {"logprobs", bits_of(choice.logprobs)},
          {"top_logprobs", std::move(top)},
          {"logits_hash", choice.logits_hash},
          {"chain", std::move(chain)}};
}

TENON_INLINE ChoiceProgress choice_from(const Fields& fields) {
  refuse_other_fields(fields, {"ids", "logprobs", "top_logprobs", "logits_hash", "chain"});
  ChoiceProgress choice;
  choice.ids = fields.integers("ids", 0, kLargestInt);
  choice.logprobs = floats_of_bits(fields, "logprobs", fields.value("logprobs"));
  for (const Json& each : list_of(fields, "top_logprobs", fields.value("top_logprobs")))
    choice.top_logprobs.push_back(logprobs_of(fields, "top_logprobs", each));
  choice.logits_hash = unsigned_of(fields, "logits_hash", fields.value("logits_hash"));
  for (const std::string& each : fields.strings("chain")) {
    const auto digest = digest_from(each);
    if (!digest) fields.refuse("chain", "must hold digests of 64 lower-case hexadecimal digits");
    choice.chain.push_back(*digest);
  }
  return choice;
}

}  // namespace detail

TENON_INLINE Json to_json(const AnswerProgress& progress) {
  Json choices = Json::array(), scores;
  for (const ChoiceProgress& each : progress.choices) choices.push_back(detail::json_of_choice(each));
  if (progress.scores) scores = detail::json_of_scores(*progress.scores);
  return {{"fingerprint", progress.fingerprint},
          {"digests", progress.digests},
          {"choices", std::move(choices)},
          {"scores", std::move(scores)}};
}

TENON_INLINE AnswerProgress progress_from(const Fields& fields) {
  detail::refuse_other_fields(fields, {"fingerprint", "digests", "choices", "scores"});
  AnswerProgress progress{.fingerprint = fields.string("fingerprint"), .digests = fields.strings("digests")};
  const Json& choices = detail::list_of(fields, "choices", fields.value("choices"));
  for (std::size_t i = 0; i < choices.size(); ++i)
    progress.choices.push_back(detail::choice_from(
        Fields(choices[i], fields.file(), "choices[" + std::to_string(i) + "]", Error::Kind::invalid_request)));
  progress.scores = detail::scores_from(fields);
  return progress;
}

TENON_INLINE Json to_json(const Snapshot& snapshot) {
  const Request& r = snapshot.request;
  Options deciding = r.options;
  deciding.logit_bias.clear();
  Json adapters = Json::array(), constraint;
  for (const AdapterUse& each : r.adapters)
    adapters.push_back({{"name", each.name}, {"weight", detail::shortest_double(each.weight)}});
  if (!r.constraint_source.kind.empty())
    constraint = {{"kind", r.constraint_source.kind}, {"text", r.constraint_source.text}};
  return {{"format", Snapshot::kFormat},
          {"library", kVersion},
          {"prompt_ids", r.input_ids},
          {"prediction", r.prediction},
          {"parameters", detail::json_of_options(deciding)},
          {"others", detail::json_of_others(r.options)},
          {"adapters", std::move(adapters)},
          {"constraint", std::move(constraint)},
          {"progress", to_json(snapshot.progress)}};
}

TENON_INLINE Snapshot snapshot_from(const Json& json) {
  if (!json.is_object()) throw Error(Error::Kind::invalid_request, "snapshot", "must be an object");
  const Fields fields(json, "snapshot", {}, Error::Kind::invalid_request);
  detail::refuse_other_fields(fields, {"format", "library", "prompt_ids", "prediction", "parameters", "others",
                                       "adapters", "constraint", "progress"});
  if (fields.integer("format", 0, detail::kLargestInt) != Snapshot::kFormat)
    fields.refuse("format", "must be " + std::to_string(Snapshot::kFormat) + ", the only one that this version reads");
  fields.string("library");
  Snapshot snapshot;
  Request& r = snapshot.request;
  r.input_ids = fields.integers("prompt_ids", 0, detail::kLargestInt);
  if (r.input_ids.empty()) fields.refuse("prompt_ids", "must hold at least one token");
  r.prediction = fields.integers("prediction", 0, detail::kLargestInt);
  r.options = detail::options_from(fields.object("parameters"));
  detail::take_others(fields.object("others"), r.options);
  const Json& adapters = detail::list_of(fields, "adapters", fields.value("adapters"));
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const Fields each(adapters[i], "snapshot", "adapters[" + std::to_string(i) + "]", Error::Kind::invalid_request);
    detail::refuse_other_fields(each, {"name", "weight"});
    r.adapters.push_back({each.string("name"), detail::float_of(each, "weight")});
  }
  if (!fields.value("constraint").is_null()) {
    const Fields source = fields.object("constraint");
    detail::refuse_other_fields(source, {"kind", "text"});
    r.constraint_source = {source.string("kind"), source.string("text")};
    if (r.constraint_source.kind.empty()) source.refuse("kind", "must not be empty");
  }
  snapshot.progress = progress_from(fields.object("progress"));
  return snapshot;
}

TENON_INLINE Request request_of(const Snapshot& snapshot, const ConstraintMaker& make) {
  Request request = snapshot.request;
  if (!request.constraint_source.kind.empty()) {
    detail::require(make != nullptr, "constraint", "needs a function that makes it from its source");
    request.constraint = make(request.constraint_source);
    detail::require(request.constraint != nullptr, "constraint", "was not made from its source");
  }
  request.begun = std::make_shared<const AnswerProgress>(snapshot.progress);
  return request;
}

}  // namespace tenon
