#include "server/openai_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/api_error.h"
#include "server/body.h"
#include "server/request_fields.h"
#include "server/sampling_fields.h"
#include "server/text.h"

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

// What a completion may ask elsewhere, and here may not.
void check_suffix_and_best_of(const RequestFields& f, int n) {
  if (const Json* const suffix = f.find("suffix"); suffix && *suffix != "") f.refuse("suffix", "is not supported");
  const std::string needed = "must be absent or equal to `n`, which is " + std::to_string(n);
  f.integer("best_of", n, n, needed);
}

// "messages[3].content"
std::string content_of(const RequestFields& message, const std::string& role, const std::string& name) {
  const Json* const value = message.find("content");
  if (!value) {
    if (role != "assistant") message.refuse("content", "is missing");
    return {};
  }
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) message.refuse_type("content", "a string or a list of parts", *value);
  if (value->empty()) message.refuse("content", "must not be an empty list");
  std::string content;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const RequestFields part((*value)[i], name + "." + at("content", i));
    const std::string type = part.string("type").value_or("");
    if (type != "text") part.refuse("type", "\"" + shown(type) + "\" is not supported, only \"text\"");
    const auto text = part.string("text");
    if (!text) part.refuse("text", "is missing");
    content += *text;
  }
  return content;
}

bool is_given(const RequestFields& f, const char* key) {
  const Json* const value = f.find(key);
  return value && !(value->is_array() && value->empty());
}

ChatMessage message_of(const Json& value, std::size_t index) {
  constexpr std::array<std::string_view, 5> roles{"system", "developer", "user", "assistant", "tool"};
  const std::string name = at("messages", index);
  const RequestFields message(value, name);
  const auto role = message.string("role");
  if (!role) message.refuse("role", "is missing");
  if (std::find(roles.begin(), roles.end(), *role) == roles.end()) {
    message.refuse("role", "must be system, developer, user, assistant or tool, is \"" + shown(*role) + "\"");
  }
  for (const char* const calls : {"tool_calls", "function_call"})
    if (is_given(message, calls)) message.refuse(calls, "is not supported");
  return {.role = *role, .content = content_of(message, *role, name), .name = message.string("name").value_or("")};
}

std::vector<ChatMessage> messages_of(const RequestFields& f) {
  const Json* const list = f.list("messages");
  if (!list) f.refuse("messages", "is missing");
  if (list->empty()) f.refuse("messages", "must not be empty");
  if (list->size() > kMostMessages) f.refuse("messages", "must hold at most " + std::to_string(kMostMessages));
  std::vector<ChatMessage> messages;
  for (const Json& each : *list) messages.push_back(message_of(each, messages.size()));
  return messages;
}

void refuse_tools(const RequestFields& f) {
  for (const char* const key : {"tools", "functions"}) {
    const Json* const list = f.list(key);
    if (list && !list->empty()) f.refuse(key, "is not supported");
  }
  for (const char* const key : {"tool_choice", "function_call"}) {
    const Json* const choice = f.find(key);
    if (choice && *choice != "none" && *choice != "auto")
      f.refuse(key, "is not supported, but for \"none\" and \"auto\"");
  }
}

void read_chat_logprobs(const RequestFields& f, ChatRequest& out) {
  out.logprobs = f.boolean("logprobs", false);
  out.top_logprobs = f.integer_or("top_logprobs", 0, 0, 20);
  if (out.top_logprobs > 0 && !out.logprobs) f.refuse("top_logprobs", "requires `logprobs` to be true");
  if (out.logprobs) out.options.top_logprobs = out.top_logprobs;
}

}  // namespace

CompletionRequest parse_completion(std::string_view text, const Limits& limits, std::string_view base_model) {
  const Body body = parse_body(text);
  const RequestFields f(body.json);
  CompletionRequest out;
  read_sampling_request(body, f, limits, base_model, out);
  f.refuse_unless("add_special_tokens", true);
  out.prompts = prompts_of(f);
  const int n = out.options.n;
  if (out.prompts.size() * static_cast<std::size_t>(n) > kMostChoicesOfABody) {
    f.refuse("n", "times the number of prompts must be at most " + std::to_string(kMostChoicesOfABody) + ", is " +
                      std::to_string(out.prompts.size() * static_cast<std::size_t>(n)));
  }
  check_suffix_and_best_of(f, n);
  out.max_tokens = f.integer_or("max_tokens", 16, 1);
  check_min_tokens(f, out);
  out.echo = f.boolean("echo", false);
  if (f.has("logprobs")) out.logprobs = f.integer_or("logprobs", 0, 0, 5);
  if (out.logprobs) out.options.top_logprobs = *out.logprobs;
  if (out.logprobs && out.echo) out.options.prompt_logprobs = *out.logprobs;
  return out;
}

ChatRequest parse_chat(std::string_view text, const Limits& limits, std::string_view base_model) {
  const Body body = parse_body(text);
  const RequestFields f(body.json);
  ChatRequest out;
  read_sampling_request(body, f, limits, base_model, out);
  f.refuse_unless("add_special_tokens", false);
  out.messages = messages_of(f);
  out.prompt_field = "messages";
  for (const char* const field : {"max_completion_tokens", "max_tokens"}) {
    const auto length = f.integer(field, 1, kMaxInt);
    if (!length || out.max_tokens) continue;
    out.max_tokens = static_cast<int>(*length);
    out.length_field = field;
  }
  check_min_tokens(f, out);
  refuse_tools(f);
  read_chat_logprobs(f, out);
  return out;
}

}  // namespace serve
