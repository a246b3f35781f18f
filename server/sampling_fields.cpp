#include "server/sampling_fields.h"

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "server/adapter_name.h"
#include "server/api_error.h"
#include "server/response_format.h"
#include "server/text.h"

namespace serve {
namespace {

using tenon::Json;


void read_model(const RequestFields& f, std::string_view base_model, SamplingRequest& out) {
  out.model = f.string("model").value_or("");
  const auto id = adapter_id_of(f, base_model);
  const bool base = names_base(out.model, base_model);
  if (id && !base) f.refuse("adapter_id", "is given beside an adapter as `model`; keep one of them");
  if (!id && base) return;
  if (!id) check_adapter_name(out.model, "model");
  out.adapter_field = id ? "adapter_id" : "model";
  out.adapters = {tenon::AdapterUse{id.value_or(out.model)}};
}

// {"5": -1.5}
std::vector<std::pair<tenon::TokenId, float>> logit_bias(const RequestFields& f) {
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

std::vector<std::string> stop_of(const RequestFields& f, const Limits& limits) {
  std::vector<std::string> stop;
  const Json* const value = f.find("stop");
  if (!value) return stop;
  if (value->is_string())
    stop.push_back(value->get<std::string>());
  else if (value->is_array())
    stop = f.strings("stop");
  else
    f.refuse_type("stop", "a string or a list of strings", *value);
  check_stop(stop, limits);
  return stop;
}

tenon::Options options_of(const RequestFields& f, const Limits& limits) {
  constexpr auto within_two = [](double x) { return x >= -2 && x <= 2; };
  tenon::Options o;
  o.temperature = f.number(
      "temperature", 1, [](double x) { return x >= 0 && x <= 2; }, "must be a number from 0 to 2");
  o.top_p = f.number(
      "top_p", 1, [](double x) { return x > 0 && x <= 1; }, "must be above 0 and at most 1");
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
  o.logit_bias = logit_bias(f);
  const bool ignore_eos = f.boolean("ignore_eos", false);
  o.ignore_eos = f.boolean("ignore_eos_token", false) || ignore_eos;
  o.min_new_tokens = f.integer_or("min_tokens", 0, 0);
  o.n = f.integer_or("n", 1, 1, limits.max_n);
  o.stop = stop_of(f, limits);
  return o;
}

void read_streaming(const RequestFields& f, SamplingRequest& out) {
  out.stream = f.boolean("stream", false);
  const auto options = f.object("stream_options");
  if (!options) return;
  if (!out.stream) f.refuse("stream_options", "is only allowed when `stream` is true");
  out.include_usage = options->boolean("include_usage", false);
}

}  // namespace

void read_sampling_request(const Body& body, const RequestFields& f, const Limits& limits, std::string_view base_model,
                           SamplingRequest& out) {
  f.refuse_unsupported({"merged_adapters", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "grammar",
                        "json_schema", "use_beam_search", "stop_token_ids", "include_stop_str_in_output", "bad_words",
                        "allowed_token_ids", "prompt_logprobs", "truncate_prompt_tokens", "logits_processors", "prompt_embeds",
                        "structural_tag", "documents", "chat_template", "chat_template_kwargs", "continue_final_message"});
  for (const char* const key : {"add_generation_prompt", "skip_special_tokens"}) f.refuse_unless(key, true);
  f.refuse_unless("length_penalty", 1);
  read_model(f, base_model, out);
  out.options = options_of(f, limits);
  if (const auto seed = f.seed("seed", /*negative=*/true)) {
    out.options.seed = *seed;
    out.seed_given = true;
  }
  read_streaming(f, out);
  out.schema = schema_of(body, Dialect::openai);
}

void check_min_tokens(const RequestFields& f, const SamplingRequest& request) {
  const int least = request.options.min_new_tokens;
  if (least == 0) return;
  if (!request.options.stop.empty()) f.refuse("min_tokens", "cannot be combined with `stop`");
  if (request.schema) f.refuse("min_tokens", "cannot be combined with `response_format`");
  if (least > request.max_tokens.value_or(kMaxInt)) {
    f.refuse("min_tokens", "must be at most `" + request.length_field + "`");
  }
}

}  // namespace serve
