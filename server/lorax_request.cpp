#include "server/lorax_request.h"

#include <limits>
#include <utility>

#include "server/adapter_name.h"
#include "server/api_error.h"
#include "server/body.h"
#include "server/request_fields.h"
#include "server/response_format.h"

namespace serve {
namespace {

using tenon::Json;

constexpr auto kWeight = [](double x) { return x >= -1000 && x <= 1000; };  // sums of factors stay finite
constexpr auto kPositive = [](double x) { return x > 0; };
constexpr auto kWithinTwo = [](double x) { return x >= -2 && x <= 2; };

std::string inputs_of(const RequestFields& body) {
  auto inputs = body.string("inputs");
  if (!inputs) body.refuse("inputs", "is missing");
  if (inputs->empty()) body.refuse("inputs", "cannot be empty");
  return std::move(*inputs);
}

// A weighted sum is what the engine makes of several adapters; what the other strategies drop or elect it does not do.
std::vector<tenon::AdapterUse> merged(const RequestFields& fields) {
  const RequestFields f = *fields.object("merged_adapters");
  const std::string strategy = f.string("merge_strategy").value_or("linear");
  if (strategy != "linear") {
    throw ApiError(ApiError::Kind::invalid,
                   "`merged_adapters` with `merge_strategy=" + shown(strategy) + "` is not supported, only linear",
                   "merged_adapters");
  }
  const std::vector<std::string> ids = f.strings("ids");
  if (ids.empty()) f.refuse("ids", "must name at least one adapter");
  const Json* const weights = f.list("weights");
  if (!weights || weights->size() != ids.size()) f.refuse("weights", "must hold one weight for each of `ids`");
  std::vector<tenon::AdapterUse> uses;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    check_adapter_name(ids[i], "merged_adapters.ids");
    uses.push_back({ids[i], f.check_number("weights", (*weights)[i], kWeight, "must hold numbers from -1000 to 1000")});
  }
  return uses;
}

std::vector<tenon::AdapterUse> adapters_of(const RequestFields& f, std::string_view base_model) {
  const auto id = adapter_id_of(f, base_model);
  if (f.has("merged_adapters")) {
    if (id) {
      throw ApiError(ApiError::Kind::invalid, "at most one of `adapter_id` or `adapters` may be provided",
                     "adapter_id");
    }
    return merged(f);
  }
  if (id) return {tenon::AdapterUse{*id}};
  return {};
}

void read_sampling(const RequestFields& f, GenerateRequest& out) {
  tenon::Options& o = out.options;
  o.temperature = f.number(
      "temperature", 1, [](double x) { return x >= 0; }, "must be non-negative");
  o.top_k =
      static_cast<int>(f.integer("top_k", 1, std::numeric_limits<int>::max(), "must be strictly positive").value_or(0));
  o.top_p = f.number(
      "top_p", 1, [](double x) { return x > 0 && x <= 1; }, "must be > 0.0 and <= 1.0");
  o.typical_p = f.number(
      "typical_p", 1, [](double x) { return x > 0 && x < 1; }, "must be > 0.0 and < 1.0");
  o.repetition_penalty = f.number("repetition_penalty", 1, kPositive, "must be strictly positive");
  o.frequency_penalty = f.number("frequency_penalty", 0, kWithinTwo, "must be >= -2.0 and <= 2.0");
  o.presence_penalty = f.number("presence_penalty", 0, kWithinTwo, "must be >= -2.0 and <= 2.0");
  const bool shaped = o.temperature != 1 || o.top_k > 0 || o.top_p < 1 || o.typical_p < 1;
  out.sampling = (f.boolean("do_sample", false) || shaped) && o.temperature > 0;
  if (!out.sampling) o.temperature = 0;
  if (const auto seed = f.seed("seed", /*negative=*/false)) {
    o.seed = *seed;
    out.seed_given = true;
  }
  o.ignore_eos = f.boolean("ignore_eos_token", false);
}

void read_best_of(const RequestFields& f, const Limits& limits, GenerateRequest& out) {
  const std::string needed = "must be > 0 and <= " + std::to_string(limits.max_best_of);
  out.best_of = static_cast<int>(f.integer("best_of", 1, limits.max_best_of, needed).value_or(1));
  if (out.best_of == 1) return;
  if (!out.sampling) f.refuse("best_of", "> 1 needs sampling: set `do_sample`");
  if (out.seed_given) {
    throw ApiError(ApiError::Kind::invalid, "`seed` must not be set when `best_of` > 1", "seed");
  }
  if (out.stream) f.refuse("best_of", "> 1 is not supported when streaming tokens");
}

void read_details(const RequestFields& f, const Limits& limits, GenerateRequest& out) {
  out.details = f.boolean("details", false);
  out.decoder_input_details = f.boolean("decoder_input_details", false);
  out.return_full_text = f.boolean("return_full_text", false);
  if (out.decoder_input_details && out.stream) {
    f.refuse("decoder_input_details", "== true is not supported when streaming tokens");
  }
  const std::string needed = "must be > 0 and <= " + std::to_string(limits.max_alternatives);
  out.alternatives =
      static_cast<int>(f.integer("return_k_alternatives", 1, limits.max_alternatives, needed).value_or(0));
  if (out.details || out.decoder_input_details || out.stream) out.options.top_logprobs = out.alternatives;
  if (out.decoder_input_details) out.options.prompt_logprobs = 0;
}

void read_lengths(const RequestFields& f, const Limits& limits, GenerateRequest& out) {
  using Integer = std::numeric_limits<std::int64_t>;
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  if (const auto length = f.integer("max_new_tokens", Integer::min(), most, "must be an integer of 32 bits")) {
    if (*length < 1) f.refuse("max_new_tokens", "must be strictly positive");
    out.max_new_tokens = static_cast<std::uint32_t>(*length);
  }
  const std::string needed = "must be > 0 and <= " + std::to_string(limits.max_input_tokens);
  if (const auto truncate = f.integer("truncate", 1, limits.max_input_tokens, needed))
    out.truncate = static_cast<int>(*truncate);
}

}  // namespace

GenerateRequest parse_generate(std::string_view text, const Limits& limits, std::string_view base_model,
                               Streaming streaming) {
  const Body body = parse_body(text);
  const RequestFields top(body.json);
  GenerateRequest out;
  out.inputs = inputs_of(top);
  out.stream = streaming == Streaming::as_asked ? top.boolean("stream", false) : streaming == Streaming::always;
  const Json* const given = top.find("parameters");
  if (given && !given->is_object()) top.refuse_type("parameters", "an object", *given);
  const Json none = Json::object();
  const RequestFields parameters(given ? *given : none);  // whose names LoRAX's messages do not prefix
  // Of text-generation-inference, of old LoRAX, and of the other routes.
  parameters.refuse_unsupported({"grammar", "top_n_tokens", "schema", "json_schema", "guided_json", "guided_regex", "min_p", "logit_bias",
                                 "min_new_tokens"});
  out.adapters = adapters_of(parameters, base_model);
  read_sampling(parameters, out);
  read_best_of(parameters, limits, out);
  read_details(parameters, limits, out);
  read_lengths(parameters, limits, out);
  out.stop = parameters.strings("stop");
  check_stop(out.stop, limits);
  out.schema = schema_of(body, Dialect::lorax);
  return out;
}

TokenizeRequest parse_tokenize(std::string_view text) {
  const Body body = parse_body(text);
  const RequestFields fields(body.json);
  return {.inputs = inputs_of(fields), .add_special_tokens = fields.boolean("add_special_tokens", true)};
}

}  // namespace serve
