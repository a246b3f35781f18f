#include "serve/api/sampling_fields.h"

#include <charconv>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/generation_defaults.h"
#include "serve/api/requested_adapters.h"
#include "serve/api/response_format.h"
#include "serve/text.h"

namespace serve {
namespace {

using tenon::Json;

std::vector<std::string> stop_of(const RequestFields& f, const RequestLimits& limits) {
  std::vector<std::string> stop;
  const Json* const value = f.find("stop");
  if (!value) return stop;
  if (value->is_string())
    stop.push_back(value->get<std::string>());
  else if (value->is_array())
    stop = f.strings("stop");
  else
    f.refuse_type("stop", "a string or a list of strings", *value);
  check_stop(stop, limits, f.name_of("stop"));
  return stop;
}

tenon::Options options_of(const RequestFields& f, const RequestLimits& limits) {
  constexpr auto within_two = [](double x) { return x >= -2 && x <= 2; };
  tenon::Options o;
  o.temperature = f.number(
      "temperature", 1, [](double x) { return x >= 0 && x <= 2; }, "must be a number from 0 to 2");
  o.top_p = f.number(
      "top_p", 1, [](double x) { return x >= 0 && x <= 1; }, "must be a number from 0 to 1");
  const int top_k = f.integer_or("top_k", 0, -1);  // -1 is vLLM's word for all
  o.top_k = top_k < 0 ? 0 : top_k;
  o.min_p = f.number(
      "min_p", 0, [](double x) { return x >= 0 && x <= 1; }, "must be a number from 0 to 1");
  o.typical_p = f.number(
      "typical_p", 1, [](double x) { return x > 0 && x <= 1; }, "must be above 0 and at most 1");
  o.repetition_penalty = f.number(
      "repetition_penalty", 1, [](double x) { return x > 0; }, "must be a finite number above 0");
  o.presence_penalty = f.number("presence_penalty", 0, within_two, "must be a number from -2 to 2");
  o.frequency_penalty = f.number("frequency_penalty", 0, within_two, "must be a number from -2 to 2");
  o.logit_bias = logit_bias_of(f);
  o.ignore_eos = f.boolean("ignore_eos", false);
  o.stop_ids = stop_token_ids_of(f);
  o.include_stop = f.boolean("include_stop_str_in_output", false);
  o.skip_special_tokens = f.boolean("skip_special_tokens", true);
  o.priority = f.integer_or("priority", 0, std::numeric_limits<int>::min());
  o.cache_salt = f.string("cache_salt").value_or("");
  o.min_new_tokens = f.integer_or("min_tokens", 0, 0);
  take_generation_defaults(f, limits, o);
  if (o.top_p == 0) {  // the likeliest token alone
    o.top_p = 1;
    o.temperature = 0;
  }
  o.n = f.integer_or("n", 1, 1, limits.max_n);
  o.stop = stop_of(f, limits);
  return o;
}

void read_streaming(const RequestFields& f, UnknownFields& unknown, SamplingRequest& out) {
  out.stream = f.boolean("stream", false);
  out.resumable = f.boolean("resumable", false);
  if (out.resumable && !out.stream) f.refuse("resumable", "is for streams: set `stream` to true");
  if (out.resumable && out.options.n > 1) f.refuse("resumable", "is for streams of one answer: `n` must be 1");
  const auto options = f.object("stream_options", kStreamOptions, unknown);
  if (!options) return;
  if (!out.stream && !asks_nothing(*f.find("stream_options")))
    f.refuse("stream_options", "is only allowed when `stream` is true");
  out.include_usage = options->boolean("include_usage", false);
  out.continuous_usage = options->boolean("continuous_usage_stats", false);
}

// vLLM's answers show the prompt's log-probabilities beside those of the answer.
void read_prompt_details(const RequestFields& f, const RequestLimits& limits, SamplingRequest& out) {
  out.return_token_ids = f.boolean("return_token_ids", false);
  out.options.receipt = f.boolean("receipt", false);
  if (f.has("prompt_logprobs")) out.prompt_logprobs = f.integer_or("prompt_logprobs", 0, 0, limits.max_alternatives);
  if (out.prompt_logprobs && out.stream) f.refuse("prompt_logprobs", "is not supported in a stream");
  out.options.prompt_logprobs = out.prompt_logprobs.value_or(-1);
  const std::string needed = "must be -1, or from 1 to " + std::to_string(limits.max_input_tokens);
  const auto truncate = f.integer("truncate_prompt_tokens", -1, limits.max_input_tokens, needed);
  if (!truncate) return;
  if (*truncate == 0) f.refuse("truncate_prompt_tokens", needed);
  out.truncate_to_fit = *truncate < 0;
  if (*truncate > 0) out.truncate = static_cast<int>(*truncate);
}

}  // namespace

std::vector<std::pair<tenon::TokenId, float>> logit_bias_of(const RequestFields& f) {
  std::vector<std::pair<tenon::TokenId, float>> bias;
  const Json* const value = f.find("logit_bias");
  if (!value) return bias;
  if (!value->is_object()) f.refuse_type("logit_bias", "an object of token ids and numbers", *value);
  constexpr auto within = [](double x) { return x >= -100 && x <= 100; };
  for (const auto& [key, each] : value->items()) {
    tenon::TokenId id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || id < 0 || std::to_string(id) != key) {
      f.refuse("logit_bias", "must have ids of tokens as keys, has \"" + shown(key) + "\"");
    }
    bias.emplace_back(id, f.check_number("logit_bias", each, within, "must hold numbers from -100 to 100"));
  }
  return bias;
}

std::vector<tenon::TokenId> stop_token_ids_of(const RequestFields& f) {
  std::vector<tenon::TokenId> ids;
  const Json* const list = f.list("stop_token_ids");
  if (!list) return ids;
  if (list->size() > kMostStopIds)
    f.refuse("stop_token_ids", "must hold at most " + std::to_string(kMostStopIds) + " ids");
  for (const Json& each : *list) {
    ids.push_back(static_cast<tenon::TokenId>(
        f.check_integer("stop_token_ids", each, 0, kMaxInt, "must hold ids of tokens, of at least 0")));
  }
  return ids;
}

void read_sampling_request(const Body& body, const RequestFields& f, const RequestContext& context,
                           UnknownFields& unknown, SamplingRequest& out) {
  out.model = f.string("model").value_or("");
  NamedAdapters named = named_adapters({&f}, context, unknown);
  out.adapters = std::move(named.uses);
  out.adapter_field = std::move(named.field);
  out.options = options_of(f, context.limits);
  if (const auto seed = f.seed("seed", /*negative=*/true)) {
    out.options.seed = *seed;
    out.seed_given = true;
  }
  read_streaming(f, unknown, out);
  read_prompt_details(f, context.limits, out);
  out.form = form_of(body, f, /*in_parameters=*/false, unknown);
}

void read_max_tokens(const RequestFields& f, SamplingRequest& out, bool none_too) {
  out.length_field = f.name_of("max_tokens");
  const auto length = f.integer("max_tokens", -1, kMaxInt);  // -1: what is left, as in llama.cpp and LM Studio
  if (!length || *length < 0) return;
  if (*length == 0 && !none_too) f.refuse("max_tokens", "must be at least 1; 0 needs `echo` on /v1/completions");
  out.max_tokens = static_cast<int>(*length);
}

void check_min_tokens(const RequestFields& f, const SamplingRequest& request) {
  const int least = request.options.min_new_tokens;
  if (least == 0) return;
  if (request.form) f.refuse("min_tokens", "cannot be combined with `" + request.form->field + "`");
  if (least > request.max_tokens.value_or(kMaxInt)) {
    f.refuse("min_tokens", "must be at most `" + request.length_field + "`");
  }
}

}  // namespace serve
