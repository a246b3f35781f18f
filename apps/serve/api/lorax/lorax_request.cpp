#include "serve/api/lorax/lorax_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/api/body.h"
#include "serve/api/generation_defaults.h"
#include "serve/api/openai/chat_fields.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/request_fields.h"
#include "serve/api/requested_adapters.h"
#include "serve/api/response_format.h"
#include "serve/api/sampling_fields.h"
#include "tenon/io/fields.h"

namespace serve {
namespace {

using tenon::Json;

constexpr auto kPositive = [](double x) { return x > 0; };
constexpr auto kWithinTwo = [](double x) { return x >= -2 && x <= 2; };

std::string inputs_of(const RequestFields& body) {
  auto inputs = body.string("inputs");
  if (!inputs) body.refuse("inputs", "is missing");
  if (inputs->empty()) body.refuse("inputs", "cannot be empty");
  return std::move(*inputs);
}

void read_sampling(const RequestFields& f, const RequestLimits& limits, GenerateRequest& out) {
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
  o.min_p = f.number(
      "min_p", 0, [](double x) { return x >= 0 && x <= 1; }, "must be a number from 0 to 1");
  o.logit_bias = logit_bias_of(f);
  const bool shaped = o.temperature != 1 || o.top_k > 0 || o.top_p < 1 || o.typical_p < 1 || o.min_p > 0;
  out.sampling = (f.boolean("do_sample", false) || shaped) && o.temperature > 0;
  if (limits.generation) {
    take_generation_defaults(f, limits, o);
    out.sampling = o.temperature > 0;
  }
  if (!out.sampling) o.temperature = 0;
  if (const auto seed = f.seed("seed", /*negative=*/false)) {
    o.seed = *seed;
    out.seed_given = true;
  }
  o.ignore_eos = f.boolean("ignore_eos_token", false);
  o.stop_ids = stop_token_ids_of(f);
  o.skip_special_tokens = f.boolean("skip_special_tokens", true);
  o.priority = f.integer_or("priority", 0, std::numeric_limits<int>::min());
  o.cache_salt = f.string("cache_salt").value_or("");
}

void read_best_of(const RequestFields& f, const RequestLimits& limits, GenerateRequest& out) {
  const std::string needed = "must be > 0 and <= " + std::to_string(limits.max_best_of);
  out.best_of = static_cast<int>(f.integer("best_of", 1, limits.max_best_of, needed).value_or(1));
  if (out.best_of == 1) return;
  if (!out.sampling) f.refuse("best_of", "> 1 needs sampling: set `do_sample`");
  if (out.seed_given) {
    throw ApiError(ApiError::Kind::invalid, "`seed` must not be set when `best_of` > 1", "seed");
  }
  if (out.stream) f.refuse("best_of", "> 1 is not supported when streaming tokens");
}

void read_details(const RequestFields& f, const RequestLimits& limits, GenerateRequest& out) {
  out.details = f.boolean("details", false);
  out.decoder_input_details = f.boolean("decoder_input_details", false);
  out.return_full_text = f.boolean("return_full_text", false);
  if (out.decoder_input_details && out.stream) {
    f.refuse("decoder_input_details", "== true is not supported when streaming tokens");
  }
  const std::string needed = "must be > 0 and <= " + std::to_string(limits.max_alternatives);
  out.alternatives =
      static_cast<int>(f.integer("return_k_alternatives", 1, limits.max_alternatives, needed).value_or(0));
  out.top_tokens = static_cast<int>(f.integer("top_n_tokens", 0, limits.max_alternatives,
                                              "must be >= 0 and <= " + std::to_string(limits.max_alternatives))
                                        .value_or(0));
  out.options.receipt = f.boolean("receipt", false);
  if (out.options.receipt && out.stream)
    f.refuse("receipt", "is not supported when streaming tokens; use /v1/completions");
  if (out.details || out.decoder_input_details || out.stream)
    out.options.top_logprobs = std::max(out.alternatives, out.top_tokens);
  if (out.decoder_input_details) out.options.prompt_logprobs = 0;
}

void read_lengths(const RequestFields& f, const RequestLimits& limits, GenerateRequest& out) {
  using Integer = std::numeric_limits<std::int64_t>;
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  const std::string name = f.name_of("max_new_tokens");
  const bool endless = name != "max_new_tokens";  // -1: what is left, as in llama.cpp and LM Studio
  const auto length = f.integer("max_new_tokens", Integer::min(), most, "must be an integer of 32 bits");
  out.endless = endless && length == -1;
  if (length && !out.endless) {
    if (*length < 1) f.refuse("max_new_tokens", "must be strictly positive");
    out.max_new_tokens = static_cast<std::uint32_t>(*length);
  }
  const std::string needed = "must be > 0 and <= " + std::to_string(limits.max_input_tokens);
  if (const auto truncate = f.integer("truncate", 1, limits.max_input_tokens, needed))
    out.truncate = static_cast<int>(*truncate);
}

void read_least(const RequestFields& f, GenerateRequest& out) {
  const int least = out.options.min_new_tokens = f.integer_or("min_new_tokens", 0, 0);
  if (least == 0) return;
  if (out.form) f.refuse("min_new_tokens", "cannot be combined with `" + out.form->field + "`");
  if (out.max_new_tokens && static_cast<std::uint32_t>(least) > *out.max_new_tokens) {
    f.refuse("min_new_tokens", "must be at most `" + f.name_of("max_new_tokens") + "`");
  }
}

// The text under `inputs`, vLLM's `prompt` or llama.cpp's `content`, each with the answer of its own server.
void read_text_to_tokenize(const RequestFields& f, TokenizeRequest& out) {
  const bool vllm = f.has("prompt"), llama_cpp = f.has("content");
  if (vllm + llama_cpp + f.has("inputs") > 1)
    f.refuse(vllm ? "prompt" : "content",
             std::string("does not go with `") + (f.has("inputs") ? "inputs" : "content") + "`; keep one of them");
  if (!vllm && !llama_cpp) {
    out.inputs = inputs_of(f);
    return;
  }
  out.inputs = *f.string(vllm ? "prompt" : "content");
  out.shape = vllm ? TokenShape::vllm : TokenShape::llama_cpp;
  if (llama_cpp) out.add_special_tokens = f.boolean("add_special_tokens", false);
  const char* const own = vllm ? "return_token_strs" : "with_pieces";
  const char* const other = vllm ? "with_pieces" : "return_token_strs";
  if (f.boolean(other, false)) f.refuse(other, std::string("does not go with `") + (vllm ? "prompt`" : "content`"));
  out.with_pieces = f.boolean(own, false);
}

// LoRAX: with apply_chat_template, `inputs` is a text that holds a list of messages as JSON.
tenon::OrderedJson messages_in(const std::string& inputs, const RequestFields& top, UnknownFields& unknown) {
  const std::string needed = "must hold a list of messages as JSON, with `apply_chat_template`: ";
  tenon::OrderedJson list;
  try {
    list = tenon::parse_json<tenon::OrderedJson>(
        inputs, "", {.depth = 64, .values = 400'000, .refusal = tenon::Error::Kind::invalid_request});
  } catch (const tenon::Error& error) {
    top.refuse("inputs", needed + error.what());
  }
  if (!list.is_array()) top.refuse("inputs", needed + "is " + tenon::Fields::describe(Json(list)));
  const Json body = {{"inputs", Json(list)}};
  return messages_of(RequestFields(body), "inputs", list, unknown);
}

}  // namespace

GenerateRequest parse_generate(std::string_view text, const RequestContext& context, Streaming streaming) {
  const RequestLimits& limits = context.limits;
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields top(body.json, kGenerate, unknown);
  GenerateRequest out;
  out.inputs = inputs_of(top);
  const bool streams = top.boolean("stream", false);
  if (streams && streaming == Streaming::never)
    top.refuse("stream", "true is for POST /; this route answers whole, and /generate_stream streams");
  out.stream = streaming == Streaming::as_asked ? streams : streaming == Streaming::always;
  out.resumable = top.boolean("resumable", false);
  if (out.resumable && !out.stream) top.refuse("resumable", "is for streams: those of /generate_stream and POST /");
  out.prediction = prediction_of(top, unknown);
  top.object("options", kHubOptions, unknown);
  const Json* const given = top.find("parameters");
  if (given && !given->is_object()) top.refuse_type("parameters", "an object", *given);
  const Json none = Json::object();
  const RequestFields parameters(given ? *given : none, kParameters,
                                 unknown);  // whose names LoRAX's messages do not prefix
  NamedAdapters named = named_adapters({&top, &parameters}, context, unknown);
  out.adapters = std::move(named.uses);
  out.adapter_field = std::move(named.field);
  read_sampling(parameters, limits, out);
  read_best_of(parameters, limits, out);
  read_details(parameters, limits, out);
  read_lengths(parameters, limits, out);
  out.stop = parameters.strings("stop");
  check_stop(out.stop, limits, parameters.name_of("stop"));
  if (out.options.receipt && !out.stop.empty())
    parameters.refuse("receipt", "does not go with `" + parameters.name_of("stop") + "` here; use /v1/completions");
  out.form = form_of(body, parameters, /*in_parameters=*/true, unknown);
  read_least(parameters, out);
  out.parse_special = parameters.boolean("parse_special", context.parse_special);
  out.add_special_tokens = parameters.boolean("add_special_tokens", true);
  if (parameters.boolean("apply_chat_template", false)) {
    out.messages = messages_in(out.inputs, top, unknown);
    if (!out.add_special_tokens)
      parameters.refuse("add_special_tokens",
                        "has no effect beside `apply_chat_template`: the chat template writes them");
    if (parameters.has("parse_special") && out.parse_special) {
      parameters.refuse("parse_special",
                        "has no effect beside `apply_chat_template`: contents of messages are always text");
    }
  }
  out.ignored = std::move(unknown.ignored);
  return out;
}

TokenizeRequest parse_tokenize(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields fields(body.json, kTokenize, unknown);
  TokenizeRequest out{.inputs = {},
                      .add_special_tokens = fields.boolean("add_special_tokens", true),
                      .parse_special = fields.boolean("parse_special", context.parse_special)};
  if (fields.has("messages")) {
    for (const char* const other : {"inputs", "prompt", "content"})
      if (fields.has(other)) fields.refuse("messages", std::string("does not go with `") + other + "`");
    for (const char* const name : {"add_special_tokens", "parse_special"})
      if (fields.has(name)) fields.refuse(name, "has no effect beside `messages`: the chat template decides");
    for (const char* const name : {"with_pieces", "return_token_strs"})
      if (fields.boolean(name, false)) fields.refuse(name, "has no effect beside `messages`: the answer has the texts");
    out.conversation = conversation_of(body, fields, unknown, &out.reasoning);
  } else {
    for (const char* const name :
         {"tools", "documents", "chat_template_kwargs", "add_generation_prompt", "continue_final_message",
          "reasoning_effort", "reasoning", "thinking", "think", "enable_thinking"})
      if (const Json* const value = fields.find(name); value && *value != false && !asks_nothing(*value))
        fields.refuse(name, "goes with `messages`");
    read_text_to_tokenize(fields, out);
  }
  for (const char* const pieces : {"with_pieces", "return_token_strs"}) fields.boolean(pieces, true);  // refuses others
  out.ignored = std::move(unknown.ignored);
  return out;
}

DetokenizeRequest parse_detokenize(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields fields(body.json, kDetokenize, unknown);
  const Json* const list = fields.list("tokens");
  if (!list) fields.refuse("tokens", "is missing");
  DetokenizeRequest out;
  for (const Json& each : *list) {
    const auto id = fields.check_integer("tokens", each, 0, std::numeric_limits<int>::max(), "must hold ids of tokens");
    out.tokens.push_back(static_cast<tenon::TokenId>(id));
  }
  out.ignored = std::move(unknown.ignored);
  return out;
}

}  // namespace serve
