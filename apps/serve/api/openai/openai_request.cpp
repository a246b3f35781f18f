#include "serve/api/openai/openai_request.h"

#include <algorithm>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/api/body.h"
#include "serve/api/request_fields.h"
#include "serve/api/sampling_fields.h"
#include "serve/text.h"

namespace serve {
namespace {

using tenon::Json;
using Prompt = CompletionRequest::Prompt;

constexpr const char* kPromptForms = "a string, a list of strings, a list of token ids or a list of such lists";

std::string at(const char* list, std::size_t index) {
  return std::string(list).append("[").append(std::to_string(index)).append("]");
}

std::vector<tenon::TokenId> token_ids(const RequestFields& f, const std::string& name, const Json& list) {
  if (list.empty()) f.refuse(name, "must hold at least one token");
  std::vector<tenon::TokenId> ids;
  ids.reserve(list.size());
  for (const Json& each : list) {
    ids.push_back(
        static_cast<tenon::TokenId>(f.check_integer(name, each, 0, kMaxInt, "must hold ids of tokens, of at least 0")));
  }
  return ids;
}

Prompt prompt_of(const RequestFields& f, const std::string& name, const Json& value) {
  if (value.is_array()) return token_ids(f, name, value);
  if (!value.is_string()) f.refuse_type("prompt", kPromptForms, value);
  std::string text = value.get<std::string>();
  if (text.empty()) f.refuse(name, "must not be empty");
  return text;
}

std::vector<Prompt> prompts_of(const RequestFields& f) {
  const Json* const value = f.find("prompt");
  if (!value) f.refuse("prompt", "is missing");
  if (!value->is_array()) return {prompt_of(f, "prompt", *value)};
  if (value->empty()) f.refuse("prompt", "must not be empty");
  if (value->front().is_number()) return {token_ids(f, "prompt", *value)};
  if (value->size() > kMostChoicesOfABody) {
    f.refuse("prompt", "must hold at most " + std::to_string(kMostChoicesOfABody) + " prompts, holds " +
                           std::to_string(value->size()));
  }
  std::vector<Prompt> prompts;
  for (const Json& each : *value) {
    if (each.type() != value->front().type())
      f.refuse("prompt", std::string("must be ") + kPromptForms + ", not a mixture");
    prompts.push_back(prompt_of(f, at("prompt", prompts.size()), each));
  }
  return prompts;
}

// Values that chats take and completions refuse: an empty nucleus, and a length of -1 by other names than llama.cpp's.
void refuse_values_of_chats(const RequestFields& f) {
  if (const Json* const top_p = f.find("top_p"); top_p && *top_p == 0)
    f.refuse("top_p", "must be above 0 and at most 1");
  const std::string length = f.name_of("max_tokens");
  if (length != "n_predict" && length != "num_predict" && f.has("max_tokens") && *f.find("max_tokens") < 0)
    f.refuse_type("max_tokens", "an integer of at least 0", *f.find("max_tokens"));
}

// What a completion may ask elsewhere, and here may not.
void check_best_of(const RequestFields& f, int n) {
  const std::string needed = "must be absent or equal to `n`, which is " + std::to_string(n);
  f.integer("best_of", n, n, needed);
}

void read_chat_logprobs(const RequestFields& f, ChatRequest& out) {
  out.logprobs = f.boolean("logprobs", false);
  out.top_logprobs = f.integer_or("top_logprobs", 0, 0, 20);
  if (out.top_logprobs > 0 && !out.logprobs) f.refuse("top_logprobs", "requires `logprobs` to be true");
  if (out.logprobs) out.options.top_logprobs = out.top_logprobs;
}

// llama.cpp's word, and those of SGLang and vLLM.
void read_reasoning(const RequestFields& f, ChatRequest& out) {
  const std::string format = f.string("reasoning_format").value_or("auto");
  if (format != "auto" && format != "none" && format != "deepseek")
    f.refuse("reasoning_format", "must be \"auto\", \"deepseek\" or \"none\"");
  out.tells_reasoning = format != "none" && f.boolean("separate_reasoning", true);
  out.shows_reasoning = f.boolean("include_reasoning", !out.reasoning.omits_text);
}

}  // namespace

CompletionRequest parse_completion(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields f(body.json, kCompletions, unknown);
  CompletionRequest out;
  out.echo = f.boolean("echo", false);
  read_sampling_request(body, f, context, unknown, out);
  out.parse_special = f.boolean("parse_special", context.parse_special);
  out.add_special_tokens = f.boolean("add_special_tokens", true);
  out.prompts = prompts_of(f);
  if (out.resumable && out.prompts.size() > 1)
    f.refuse("resumable", "is for streams of one answer: `prompt` must be one text, or one list of token ids");
  const int n = out.options.n;
  if (out.prompts.size() * static_cast<std::size_t>(n) > kMostChoicesOfABody) {
    f.refuse("n", "times the number of prompts must be at most " + std::to_string(kMostChoicesOfABody) + ", is " +
                      std::to_string(out.prompts.size() * static_cast<std::size_t>(n)));
  }
  check_best_of(f, n);
  out.prediction = prediction_of(f, unknown);
  refuse_values_of_chats(f);
  read_max_tokens(f, out, out.echo);
  if (!f.has("max_tokens")) out.max_tokens = 16;
  if (out.truncate_to_fit) out.truncate = longest_prompt(out.max_tokens, context.limits);
  check_min_tokens(f, out);
  const Json* const logprobs = f.find("logprobs");
  if (logprobs && *logprobs != false) out.logprobs = f.integer_or("logprobs", 0, 0, context.limits.max_alternatives);
  if (out.logprobs) out.options.top_logprobs = *out.logprobs;
  if (out.logprobs && out.echo) out.options.prompt_logprobs = std::max(out.options.prompt_logprobs, *out.logprobs);
  out.ignored = std::move(unknown.ignored);
  return out;
}

ChatRequest parse_chat(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  const RequestFields f(body.json, kChat, unknown);
  ChatRequest out;
  read_sampling_request(body, f, context, unknown, out);
  out.conversation = conversation_of(body, f, unknown, &out.reasoning);
  out.tools = tool_choice_of(f, out.conversation, unknown);
  read_reasoning(f, out);
  out.prediction = prediction_of(f, unknown);
  if (out.tools.is_forced()) out.form.reset();  // the answer is calls alone, so no text needs a form
  out.prompt_field = "messages";
  read_max_tokens(f, out, false);
  if (out.truncate_to_fit) out.truncate = longest_prompt(out.max_tokens, context.limits);
  check_min_tokens(f, out);
  read_chat_logprobs(f, out);
  out.ignored = std::move(unknown.ignored);
  return out;
}

}  // namespace serve
