#include "serve/api/openai/openai_request.h"

#include <algorithm>
#include <array>
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

// What a completion may ask elsewhere, and here may not.
void check_best_of(const RequestFields& f, int n) {
  const std::string needed = "must be absent or equal to `n`, which is " + std::to_string(n);
  f.integer("best_of", n, n, needed);
}

// "messages[3].content"
std::string content_of(const RequestFields& message, const std::string& role, const std::string& name,
                       UnknownFields& unknown) {
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
    const std::string path = name + "." + at("content", i);
    const RequestFields any((*value)[i], path);  // the type decides first, so that an image is refused as one
    const std::string type = any.string("type").value_or("");
    if (type != "text") any.refuse("type", "\"" + shown(type) + "\" is not supported, only \"text\"");
    const RequestFields part((*value)[i], kPart, unknown, path);
    const auto text = part.string("text");
    if (!text) part.refuse("text", "is missing");
    content += *text;
  }
  return content;
}

ChatMessage message_of(const Json& value, const std::string& name, UnknownFields& unknown) {
  constexpr std::array<std::string_view, 5> roles{"system", "developer", "user", "assistant", "tool"};
  const RequestFields message(value, kMessage, unknown, name);
  const auto role = message.string("role");
  if (!role) message.refuse("role", "is missing");
  if (std::find(roles.begin(), roles.end(), *role) == roles.end()) {
    message.refuse("role", "must be system, developer, user, assistant or tool, is \"" + shown(*role) + "\"");
  }
  return {
      .role = *role, .content = content_of(message, *role, name, unknown), .name = message.string("name").value_or("")};
}

void read_chat_logprobs(const RequestFields& f, ChatRequest& out) {
  out.logprobs = f.boolean("logprobs", false);
  out.top_logprobs = f.integer_or("top_logprobs", 0, 0, 20);
  if (out.top_logprobs > 0 && !out.logprobs) f.refuse("top_logprobs", "requires `logprobs` to be true");
  if (out.logprobs) out.options.top_logprobs = out.top_logprobs;
}

}  // namespace

std::vector<ChatMessage> messages_of(const RequestFields& f, const std::string& key, UnknownFields& unknown) {
  const Json* const list = f.list(key);
  if (!list) f.refuse(key, "is missing");
  if (list->empty()) f.refuse(key, "must not be empty");
  if (list->size() > kMostMessages) f.refuse(key, "must hold at most " + std::to_string(kMostMessages));
  std::vector<ChatMessage> messages;
  for (const Json& each : *list) messages.push_back(message_of(each, at(key.c_str(), messages.size()), unknown));
  return messages;
}

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
  const int n = out.options.n;
  if (out.prompts.size() * static_cast<std::size_t>(n) > kMostChoicesOfABody) {
    f.refuse("n", "times the number of prompts must be at most " + std::to_string(kMostChoicesOfABody) + ", is " +
                      std::to_string(out.prompts.size() * static_cast<std::size_t>(n)));
  }
  check_best_of(f, n);
  read_max_tokens(f, out, out.echo);
  if (!f.has("max_tokens")) out.max_tokens = 16;
  check_min_tokens(f, out);
  const Json* const logprobs = f.find("logprobs");
  if (logprobs && *logprobs != false) out.logprobs = f.integer_or("logprobs", 0, 0, 5);
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
  out.messages = messages_of(f, "messages", unknown);
  out.prompt_field = "messages";
  read_max_tokens(f, out, false);
  check_min_tokens(f, out);
  read_chat_logprobs(f, out);
  out.ignored = std::move(unknown.ignored);
  return out;
}

}  // namespace serve
