#include "batch_line.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "conversation/answer_message.h"
#include "conversation/listed_tokens.h"
#include "sampling.h"
#include "tenon/core/error.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/unicode.h"

namespace program {
namespace {

using tenon::Error;
using tenon::OrderedJson;

// Fields that are called the same in a request of `tenon run`, and mean the same.
constexpr std::array kSame{"temperature",
                           "top_p",
                           "min_p",
                           "typical_p",
                           "top_k",
                           "repetition_penalty",
                           "presence_penalty",
                           "frequency_penalty",
                           "logit_bias",
                           "seed",
                           "n",
                           "priority",
                           "ignore_eos",
                           "stop_ids",
                           "regex",
                           "grammar",
                           "choice",
                           "adapter",
                           "cache_salt",
                           "skip_special_tokens"};
constexpr std::array kSameInChats{"documents", "chat_template_kwargs", "add_generation_prompt",
                                  "continue_final_message"};
constexpr std::array kSameInCompletions{"best_of", "parse_special"};
// Fields that change no answer.
constexpr std::array kInert{
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "stream_options"};

// A view of the body that remembers which members were read.
class BatchBody {
 public:
  explicit BatchBody(const OrderedJson& body) : body_(body) {}

  // Null: absent or null.
  const OrderedJson* find(const std::string& key) {
    known_.push_back(key);
    const auto found = body_.find(key);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] static void refuse(const std::string& key, const std::string& what,
                                  Error::Kind kind = Error::Kind::invalid_request) {
    throw Error(kind, "body." + key, what);
  }
  std::string text(const std::string& key) {
    const OrderedJson* const value = find(key);
    if (value && !value->is_string()) refuse(key, "must be a string");
    return value ? value->get<std::string>() : std::string();
  }
  bool flag(const std::string& key) {
    const OrderedJson* const value = find(key);
    if (value && !value->is_boolean()) refuse(key, "must be true or false");
    return value && value->get<bool>();
  }
  template <class Names>
  void copy(const Names& names, OrderedJson& request) {
    for (const char* name : names)
      if (const OrderedJson* const value = find(name)) request[name] = *value;
  }
  void refuse_others() const {
    for (const auto& [key, value] : body_.items())
      if (!value.is_null() && std::find(known_.begin(), known_.end(), key) == known_.end())
        refuse(tenon::printable(key, 60), "is not a field that batches take");
  }

 private:
  const OrderedJson& body_;
  std::vector<std::string> known_;
};

// The content of a message as text: templates of text models take no parts.
OrderedJson content_of(const OrderedJson& content, const std::string& at) {
  if (content.is_null()) return "";
  if (!content.is_array()) return content;
  std::string text;
  for (const OrderedJson& part : content) {
    if (!part.is_object() || part.value("type", OrderedJson()) != "text" || !part.contains("text") ||
        !part["text"].is_string())
      BatchBody::refuse(at + ".content", "must be a text, or parts of the type text");
    text += part["text"].get<std::string>();
  }
  return text;
}

// Messages as templates expect them: contents are texts, and arguments of calls are objects.
OrderedJson messages_of(const OrderedJson& list) {
  if (!list.is_array()) BatchBody::refuse("messages", "must be a list");
  OrderedJson out = list;
  for (std::size_t i = 0; i < out.size(); ++i) {
    OrderedJson& message = out[i];
    if (!message.is_object()) continue;  // refused with the request
    if (message.contains("content"))
      message["content"] = content_of(message["content"], "messages[" + std::to_string(i) + "]");
  }
  return out;
}

void read_stop(BatchBody& body, OrderedJson& request) {
  const OrderedJson* const stop = body.find("stop");
  if (!stop) return;
  request["stop"] = stop->is_string() ? OrderedJson::array({*stop}) : *stop;
}

// response_format: text, json_object, or json_schema.
void read_format(BatchBody& body, OrderedJson& request) {
  const OrderedJson* const format = body.find("response_format");
  if (!format) return;
  const OrderedJson type = format->is_object() ? format->value("type", OrderedJson()) : OrderedJson();
  if (type == "text") return;
  if (type == "json_object") {
    request["schema"] = {{"type", "object"}};
  } else if (type == "json_schema") {
    const OrderedJson named = format->value("json_schema", OrderedJson());
    if (!named.is_object() || !named.contains("schema"))
      BatchBody::refuse("response_format.json_schema", "must be an object with `schema`");
    request["schema"] = named["schema"];
  } else {
    BatchBody::refuse("response_format.type", "must be text, json_object or json_schema");
  }
}

FunctionTool function_of(const OrderedJson& tool, const std::string& at) {
  const OrderedJson type = tool.is_object() ? tool.value("type", OrderedJson("function")) : OrderedJson();
  const OrderedJson function = type == "function" ? tool.value("function", OrderedJson()) : OrderedJson();
  if (!function.is_object()) BatchBody::refuse(at, "must be an object with `function`");
  const OrderedJson name = function.value("name", OrderedJson());
  if (!name.is_string() || !is_function_name(name.get_ref<const std::string&>()))
    BatchBody::refuse(at + ".function.name", kFunctionName);
  const OrderedJson parameters = function.value("parameters", OrderedJson());
  if (!parameters.is_null() && !parameters.is_object())
    BatchBody::refuse(at + ".function.parameters", "must be an object");
  const OrderedJson strict = function.value("strict", OrderedJson(false));
  if (!strict.is_boolean() && !strict.is_null()) BatchBody::refuse(at + ".function.strict", "must be true or false");
  return {.name = name.get<std::string>(),
          .parameters = parameters.empty() ? kNoArguments : parameters.dump(),
          .strict = strict == true};
}

ToolChoice read_tools(BatchBody& body, OrderedJson& request) {
  ToolChoice out;
  const OrderedJson* const parallel = body.find("parallel_tool_calls");
  if (parallel && !parallel->is_boolean()) BatchBody::refuse("parallel_tool_calls", "must be true or false");
  out.parallel = !parallel || *parallel == true;
  if (const OrderedJson* const tools = body.find("tools")) {
    if (!tools->is_array() || tools->size() > kMostTools)
      BatchBody::refuse("tools", "must be a list of at most " + std::to_string(kMostTools));
    std::set<std::string> names;
    for (std::size_t i = 0; i < tools->size(); ++i) {
      out.functions.push_back(function_of((*tools)[i], "tools[" + std::to_string(i) + "]"));
      if (!names.insert(out.functions.back().name).second)
        BatchBody::refuse("tools", "has two functions of the name " + out.functions.back().name);
    }
    request["tools"] = *tools;
  }
  const OrderedJson* const choice = body.find("tool_choice");
  const OrderedJson function = choice && choice->is_object() ? choice->value("function", OrderedJson()) : OrderedJson();
  const OrderedJson name = function.is_object() ? function.value("name", OrderedJson()) : OrderedJson();
  const bool known = choice && choice->is_object() ? name.is_string() && out.choose_function(name.get<std::string>())
                                                   : out.choose(!choice               ? ""
                                                                : choice->is_string() ? choice->get<std::string>()
                                                                                      : "?");
  if (!known) BatchBody::refuse("tool_choice", "must be none, auto, required or a function, and needs it in `tools`");
  if (out.kind == ToolChoice::Kind::none) request.erase("tools");
  for (const char* const form : {"schema", "regex", "grammar", "choice"})
    if (out.is_forced()) request.erase(form);  // the answer is calls alone, so no text needs a form
  return out;
}

void read_chat(BatchBody& body, BatchLine& batch, OrderedJson& request) {
  const OrderedJson* const messages = body.find("messages");
  if (!messages) BatchBody::refuse("messages", "is missing");
  request["messages"] = messages_of(*messages);
  batch.tools = read_tools(body, request);
  if (!request.contains("skip_special_tokens")) request["skip_special_tokens"] = true;
  body.copy(kSameInChats, request);
  const bool logprobs = body.flag("logprobs");
  const OrderedJson* const top = body.find("top_logprobs");
  if (top && !logprobs) BatchBody::refuse("top_logprobs", "requires logprobs to be true");
  if (logprobs) request["top_logprobs"] = top ? *top : OrderedJson(0);
  batch.logprobs = logprobs;
}

void read_completion(BatchBody& body, BatchLine& batch, OrderedJson& request) {
  const OrderedJson* prompt = body.find("prompt");
  if (!prompt) BatchBody::refuse("prompt", "is missing");
  // A list of one prompt is that prompt; a list of numbers is its tokens.
  if (prompt->is_array() && prompt->size() == 1 && !prompt->front().is_number()) prompt = &prompt->front();
  if (!prompt->is_string() && !(prompt->is_array() && !prompt->empty() && prompt->front().is_number()))
    BatchBody::refuse("prompt", "must be a text or a list of tokens; a batch has one prompt a line");
  request[prompt->is_string() ? "prompt" : "input_ids"] = *prompt;
  request["parse_special"] = true;  // as HTTP's raw prompts
  body.copy(kSameInCompletions, request);
  if (!request.contains("skip_special_tokens")) request["skip_special_tokens"] = true;
  if (body.flag("echo")) BatchBody::refuse("echo", "is not supported in a batch", Error::Kind::unsupported);
  if (const OrderedJson* const logprobs = body.find("logprobs")) {
    request["top_logprobs"] = *logprobs;
    batch.logprobs = true;
  }
}

OrderedJson bytes_of(std::string_view text) {
  OrderedJson bytes = OrderedJson::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

OrderedJson chat_token(tenon::TokenLogprob token, const tenon::Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.bytes(token.id);
  return {
      {"token", tenon::sanitize_utf8(bytes)}, {"logprob", finite_logprob(token.logprob)}, {"bytes", bytes_of(bytes)}};
}

OrderedJson chat_logprobs(const tenon::Choice& choice, const tenon::Tokenizer& tokenizer) {
  OrderedJson content = OrderedJson::array();
  for (std::size_t i = 0; i < choice.logprobs.size(); ++i) {
    OrderedJson token = chat_token({choice.ids[i], choice.logprobs[i]}, tokenizer);
    token["top_logprobs"] = OrderedJson::array();
    for (const tenon::TokenLogprob& each : choice.top_logprobs[i])
      token["top_logprobs"].push_back(chat_token(each, tokenizer));
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

OrderedJson completion_logprobs(const tenon::Choice& choice, const tenon::Tokenizer& tokenizer) {
  OrderedJson out = {{"tokens", OrderedJson::array()},
                     {"token_logprobs", OrderedJson::array()},
                     {"top_logprobs", OrderedJson::array()},
                     {"text_offset", OrderedJson::array()}};
  std::size_t offset = 0;  // characters
  for (std::size_t i = 0; i < choice.logprobs.size(); ++i) {
    const std::string text = tenon::sanitize_utf8(tokenizer.bytes(choice.ids[i]));
    out["tokens"].push_back(text);
    out["token_logprobs"].push_back(finite_logprob(choice.logprobs[i]));
    out["top_logprobs"].push_back(top_by_text(tokenizer, {choice.ids[i], choice.logprobs[i]}, choice.top_logprobs[i]));
    out["text_offset"].push_back(offset);
    offset +=
        static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  }
  return out;
}

// The message of a chat's answer. Ids of calls count through the file, since equal files have equal answers: 9 digits,
// which Mistral's templates demand.
AnswerMessage message_of(const BatchLine& batch, const tenon::Choice& choice, std::size_t index, const char*& reason) {
  if (!batch.style) return {.content = choice.text};
  std::int64_t next =
      (std::int64_t{batch.number} * tenon::kMostChoices + static_cast<std::int64_t>(index)) * kMostCalls;
  AnswerMessage message;
  AnswerReader reader(*batch.style);
  for (const bool ends : {false, true}) {
    for (const AnswerPart& part : ends ? reader.finish() : reader.push(choice.text))
      message.add(part, [&] {
        const std::string digits = std::to_string(1'000'000'000 + next++ % 1'000'000'000).substr(1);
        return batch.style->tools->short_ids ? digits : "call_" + digits;
      });
  }
  if (reader.has_whole_calls() && choice.reason == tenon::FinishReason::stop) reason = "tool_calls";
  return message;
}

std::string line_of(const BatchLine& batch, int status, OrderedJson body) {
  const std::string number = std::to_string(batch.number);
  const OrderedJson line = {
      {"id", "batch_req_" + number},
      {"custom_id", batch.custom_id},
      {"response", {{"status_code", status}, {"request_id", "req_" + number}, {"body", std::move(body)}}},
      {"error", nullptr}};
  return line.dump(-1, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace

bool is_batch_line(const tenon::Json& line) { return line.is_object() && line.contains("custom_id"); }

void read_batch_line(const OrderedJson& line, int number, BatchLine& batch, OrderedJson& request) {
  const auto refuse = [](const char* where, const char* what) {
    throw Error(Error::Kind::invalid_request, where, what);
  };
  batch.number = number;
  if (!line["custom_id"].is_string()) refuse("custom_id", "must be a string");
  batch.custom_id = line["custom_id"].get<std::string>();
  for (const auto& [key, value] : line.items())
    if (key != "custom_id" && key != "method" && key != "url" && key != "body")
      refuse(tenon::printable(key, 60).c_str(), "is not a field of a batch's line");
  if (line.value("method", OrderedJson()) != "POST") refuse("method", "must be POST");
  const OrderedJson url = line.value("url", OrderedJson());
  if (url != "/v1/chat/completions" && url != "/v1/completions")
    refuse("url", "must be /v1/chat/completions or /v1/completions");
  batch.chat = url == "/v1/chat/completions";
  if (!line.contains("body") || !line["body"].is_object()) refuse("body", "must be an object");

  BatchBody body(line["body"]);
  request = {{"temperature", 1}};
  body.copy(kSame, request);
  if (const auto top_k = request.find("top_k"); top_k != request.end() && *top_k == -1) *top_k = 0;  // vLLM's word
  batch.model = body.text("model");
  for (const char* name : kInert) body.find(name);
  if (body.flag("stream")) BatchBody::refuse("stream", "must be false in a batch", Error::Kind::unsupported);
  read_stop(body, request);
  read_format(body, request);
  const OrderedJson* const length = body.find("max_completion_tokens");
  const OrderedJson* const older = body.find("max_tokens");
  if (length && older && *length != *older) BatchBody::refuse("max_tokens", "differs from max_completion_tokens");
  batch.length_given = length || older;
  if (batch.length_given) request["max_new_tokens"] = length ? *length : *older;
  batch.chat ? read_chat(body, batch, request) : read_completion(body, batch, request);
  body.refuse_others();
}

OrderedJson batch_choice(const BatchLine& batch, const tenon::Choice& choice, std::size_t index,
                         const tenon::Tokenizer& tokenizer) {
  OrderedJson out = {{"index", index}};
  const char* reason = choice.reason == tenon::FinishReason::length ? "length" : "stop";
  if (batch.chat)
    out["message"] = message_of(batch, choice, index, reason).json();
  else
    out["text"] = choice.text;
  out["logprobs"] = nullptr;
  if (batch.logprobs)
    out["logprobs"] = batch.chat ? chat_logprobs(choice, tokenizer) : completion_logprobs(choice, tokenizer);
  out["finish_reason"] = reason;
  return out;
}

std::string batch_answer(const BatchLine& batch, const tenon::Completion& completion, std::size_t prompt_tokens,
                         const tenon::Tokenizer& tokenizer, const std::string& model, std::int64_t created) {
  OrderedJson choices = OrderedJson::array({batch_choice(batch, completion, 0, tokenizer)});
  std::size_t written = completion.ids.size();
  for (const tenon::Choice& other : completion.others) {
    choices.push_back(batch_choice(batch, other, choices.size(), tokenizer));
    written += other.ids.size();
  }
  OrderedJson body = {
      {"id", (batch.chat ? "chatcmpl-" : "cmpl-") + std::to_string(batch.number)},
      {"object", batch.chat ? "chat.completion" : "text_completion"},
      {"created", created},
      {"model", batch.model.empty() ? model : batch.model},
      {"choices", std::move(choices)},
      {"usage",
       {{"prompt_tokens", prompt_tokens}, {"completion_tokens", written}, {"total_tokens", prompt_tokens + written}}}};
  return line_of(batch, 200, std::move(body));
}

std::string batch_error(const BatchLine& batch, std::string_view error, int status) {
  const char* const type = status < 500 ? "invalid_request_error" : "server_error";
  return line_of(batch, status,
                 {{"error", {{"message", std::string(error)}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}});
}

}  // namespace program
