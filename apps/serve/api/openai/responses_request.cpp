#include "serve/api/openai/responses_request.h"

#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/body.h"
#include "serve/api/field_names.h"
#include "serve/api/request_fields.h"
#include "serve/text.h"

namespace serve {
namespace {

using tenon::Json;
using tenon::OrderedJson;

std::string item_path(const std::string& list, std::size_t index) { return list + "[" + std::to_string(index) + "]"; }

// Turns a Responses body into one of chat completions. Refusals name the fields of Responses.
class ChatOfResponses {
 public:
  ChatOfResponses(const Body& body, UnknownFields& unknown)
      : fields_(body.json), ordered_(body.ordered()), unknown_(unknown) {}

  // What an error of the chat's parser says, in the names of Responses.
  FieldNames names() const {
    FieldNames names = names_;
    const Json* const tools = fields_.find("tools");
    for (std::size_t i = 0; tools && i < tools->size(); ++i)
      names.emplace_back(item_path("tools", i) + ".function", item_path("tools", i));
    for (std::size_t i = 0; i < origins_.size(); ++i) names.emplace_back(item_path("messages", i), origins_[i]);
    for (const auto& [chats, own] :
         {std::pair("messages", "input"), std::pair("tool_choice.allowed_tools", "tool_choice"),
          std::pair("response_format", "text.format"), std::pair("json_schema.schema", "schema")})
      names.emplace_back(chats, own);
    return names;
  }

  OrderedJson convert() {
    OrderedJson chat = OrderedJson::object();
    for (const auto& [key, value] : ordered_.items())
      if (!find_field(key, kResponses)) chat[key] = value;
    refuse_kept_state();
    if (fields_.has("max_output_tokens")) fields_.integer("max_output_tokens", 1, kMaxInt);
    read_input();
    chat["messages"] = std::move(messages_);
    const auto take = [&](const char* name, OrderedJson value) {
      if (!value.is_null()) chat[name] = std::move(value);
    };
    take("tools", tools());
    take("tool_choice", tool_choice());
    take("response_format", format());
    return chat;
  }

 private:
  void refuse_kept_state() {
    Json members = Json::object();
    for (const auto& [key, value] : ordered_.items())
      if (find_field(key, kResponses)) members[key] = Json(value);
    const RequestFields own(members, kResponses, unknown_);  // refuses by the table
    const std::string truncation = own.string("truncation").value_or("disabled");
    if (truncation != "disabled")
      own.refuse("truncation", "must be \"disabled\": a prompt that is too long is refused");
    for (const std::string& each : own.strings("include")) {
      if (each == "reasoning.encrypted_content") continue;  // the answer has the reasoning as text
      own.refuse("include", "\"" + shown(each) + "\" is not supported" +
                                (each == "message.output_text.logprobs" ? "; use /v1/chat/completions" : ""));
    }
  }

  OrderedJson written(const char* key) const {
    const auto found = ordered_.find(key);
    return found == ordered_.end() ? OrderedJson(nullptr) : *found;
  }

  void read_input() {
    if (const auto instructions = fields_.string("instructions"); instructions && !instructions->empty())
      add_message({{"role", "system"}, {"content", *instructions}}, "instructions");
    const Json* const input = fields_.find("input");
    if (!input) fields_.refuse("input", "is missing");
    if (input->is_string()) {
      add_message({{"role", "user"}, {"content", input->get<std::string>()}}, "input");
      return;
    }
    if (!input->is_array() || input->empty())
      fields_.refuse_type("input", "a text or a list that is not empty", *input);
    for (std::size_t i = 0; i < input->size(); ++i) add_item((*input)[i], item_path("input", i));
    refuse_left_reasoning();
  }

  // `origin`: what the client calls it.
  void add_message(OrderedJson message, const std::string& origin) {
    messages_.push_back(std::move(message));
    origins_.push_back(origin);
  }

  // OpenAI refuses it, too. A template would show it with a turn to which it does not belong.
  void refuse_left_reasoning() const {
    if (reasoning_.empty()) return;
    throw ApiError(ApiError::Kind::invalid,
                   "`" + reasoning_path_ + "` is reasoning that no message or call of the assistant follows",
                   reasoning_path_);
  }

  // Reasoning goes with the assistant's message that follows it.
  void attach_reasoning(OrderedJson& message) {
    if (!reasoning_.empty())
      message["reasoning_content"] = message.value("reasoning_content", "") + std::exchange(reasoning_, {});
  }

  // What has a meaning in items of another type alone is refused where it asks for anything.
  static void refuse_foreign(const RequestFields& item, std::string_view type) {
    struct Member {
      const char* name;
      std::string_view types;
    };
    for (const auto& [name, types] :
         {Member{"role", "message"}, Member{"content", "message reasoning"}, Member{"name", "function_call"},
          Member{"arguments", "function_call"}, Member{"output", "function_call_output"},
          Member{"call_id", "function_call function_call_output"}}) {
      const bool owns = (" " + std::string(types) + " ").find(" " + std::string(type) + " ") != std::string::npos;
      const Json* const value = item.find(name);
      if (!owns && value && *value != false && !asks_nothing(*value))
        item.refuse(name, "has no meaning in an item of type \"" + std::string(type) + "\"");
    }
  }

  void add_item(const Json& value, const std::string& path) {
    const RequestFields any(value, path);  // the type decides first
    const std::string type = any.string("type").value_or("message");
    if (type != "message" && type != "function_call" && type != "function_call_output" && type != "reasoning")
      any.refuse("type", "\"" + shown(type) + "\" is not supported");
    const RequestFields item(value, kInputItem, unknown_, path);
    refuse_foreign(item, type);
    if (type == "reasoning") return add_reasoning(item, path);
    if (type == "function_call") return add_call(item, path);
    if (type == "function_call_output") {
      refuse_left_reasoning();
      return add_message({{"role", "tool"},
                          {"tool_call_id", item.string("call_id").value_or("")},
                          {"content", text_of(item, "output", path)}},
                         path);
    }
    const auto role = item.string("role");
    if (!role) item.refuse("role", "is missing");
    OrderedJson message = {{"role", *role}, {"content", text_of(item, "content", path)}};
    if (*role == "assistant")
      attach_reasoning(message);
    else
      refuse_left_reasoning();
    add_message(std::move(message), path);
  }

  void add_reasoning(const RequestFields& item, const std::string& path) {
    if (item.list("content") && !item.list("content")->empty()) reasoning_ += text_of(item, "content", path);
    reasoning_path_ = path;
  }

  // Calls belong to the assistant's message before them, if there is one.
  void add_call(const RequestFields& item, const std::string& path) {
    const auto name = item.string("name");
    if (!name) item.refuse("name", "is missing");
    OrderedJson call = {
        {"id", item.string("call_id").value_or("")},
        {"type", "function"},
        {"function", OrderedJson{{"name", *name}, {"arguments", item.string("arguments").value_or("{}")}}}};
    if (messages_.empty() || messages_.back()["role"] != "assistant")
      add_message({{"role", "assistant"}, {"content", ""}}, path);
    attach_reasoning(messages_.back());
    OrderedJson& calls = messages_.back()["tool_calls"];
    const std::string chats = item_path("messages", messages_.size() - 1) + ".tool_calls";
    for (const char* const inner : {".function", ""}) names_.emplace_back(item_path(chats, calls.size()) + inner, path);
    calls.push_back(std::move(call));
  }

  // A text, or the texts of a list of parts.
  std::string text_of(const RequestFields& item, const char* key, const std::string& path) {
    const Json* const value = item.find(key);
    if (!value) item.refuse(key, "is missing");
    if (value->is_string()) return value->get<std::string>();
    if (!value->is_array()) item.refuse_type(key, "a text or a list of parts", *value);
    std::string text;
    for (std::size_t i = 0; i < value->size(); ++i) {
      const std::string here = item_path(path + "." + key, i);
      const RequestFields any((*value)[i], here);
      const std::string type = any.string("type").value_or("");
      if (type != "input_text" && type != "output_text" && type != "text" && type != "reasoning_text")
        any.refuse("type", "\"" + shown(type) + "\" is not supported, only texts");
      const RequestFields part((*value)[i], kInputPart, unknown_, here);
      const auto piece = part.string("text");
      if (!piece) part.refuse("text", "is missing");
      text += *piece;
    }
    return text;
  }

  // Functions stand in their tool here, not below `function`.
  OrderedJson tools() {
    const Json* const list = fields_.list("tools");
    if (!list) return nullptr;
    OrderedJson out = OrderedJson::array();
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string path = item_path("tools", i);
      const RequestFields any((*list)[i], path);
      const std::string type = any.string("type").value_or("");
      if (type != "function") any.refuse("type", "\"" + shown(type) + "\" is not supported, only \"function\"");
      OrderedJson function = written("tools")[i];
      function.erase("type");
      out.push_back({{"type", "function"}, {"function", std::move(function)}});
    }
    return out;
  }

  OrderedJson tool_choice() {
    const Json* const choice = fields_.find("tool_choice");
    if (!choice || !choice->is_object()) return written("tool_choice");
    const RequestFields f(*choice, "tool_choice");
    if (f.string("type").value_or("") == "allowed_tools") return allowed_tools(*choice);
    Json named = *choice;
    named.erase("type");
    RequestFields(named, kChosenFunction, unknown_, "tool_choice");  // refuses members that nobody knows
    if (f.string("type").value_or("") != "function" || !f.string("name"))
      fields_.refuse("tool_choice", "must be a word, name a function, or have `type` \"allowed_tools\"");
    return {{"type", "function"}, {"function", OrderedJson{{"name", *f.string("name")}}}};
  }

  // {"type": "allowed_tools", "mode", "tools": [{"type": "function", "name"}]}
  OrderedJson allowed_tools(const Json& choice) {
    Json members = choice;
    members.erase("type");
    const RequestFields allowed(members, kAllowedTools, unknown_, "tool_choice");
    const Json* const list = allowed.list("tools");
    if (!list || list->empty()) allowed.refuse("tools", "must list at least one function");
    OrderedJson tools = OrderedJson::array();
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string path = item_path("tool_choice.tools", i);
      const RequestFields any((*list)[i], path);
      const std::string type = any.string("type").value_or("");
      if (type != "function") any.refuse("type", "\"" + shown(type) + "\" is not supported, only \"function\"");
      Json named = (*list)[i];
      named.erase("type");
      const RequestFields tool(named, kChosenFunction, unknown_, path);
      const auto name = tool.string("name");
      if (!name) tool.refuse("name", "is missing");
      tools.push_back({{"type", "function"}, {"function", OrderedJson{{"name", *name}}}});
    }
    OrderedJson out = {{"tools", std::move(tools)}};
    if (const Json* const mode = allowed.find("mode")) out["mode"] = OrderedJson(*mode);
    return {{"type", "allowed_tools"}, {"allowed_tools", std::move(out)}};
  }

  // text: {"format": {"type": "json_schema", "name", "schema", "strict"}}
  OrderedJson format() {
    const auto text = fields_.object("text", kResponsesText, unknown_);
    if (!text || !text->has("format")) return nullptr;
    OrderedJson format = written("text")["format"];
    if (!format.is_object() || format.value("type", OrderedJson()) != "json_schema") return format;
    OrderedJson schema = OrderedJson::object();
    for (const auto& [key, value] : format.items())
      if (key != "type") schema[key] = value;
    return {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
  }

  const RequestFields fields_;
  const OrderedJson ordered_;
  UnknownFields& unknown_;
  OrderedJson messages_ = OrderedJson::array();
  std::vector<std::string> origins_;  // of each message: what the client calls it
  FieldNames names_;                  // of the calls of messages
  std::string reasoning_;             // of the next message of the assistant
  std::string reasoning_path_;
};

}  // namespace

ResponsesRequest parse_responses(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  ChatOfResponses conversion(body, unknown);
  const std::string converted = conversion.convert().dump();
  ResponsesRequest out;
  try {
    out.chat = parse_chat(converted, context);
  } catch (const ApiError& error) {
    throw renamed(error, conversion.names());
  }
  out.chat.prompt_field = "input";
  if (out.chat.form) out.chat.form->field = renamed_path(out.chat.form->field, {{"response_format", "text.format"}});
  for (std::string& each : unknown.ignored) out.chat.ignored.push_back(std::move(each));
  const OrderedJson ordered = body.ordered();
  for (const auto& [key, member] :
       {std::pair("instructions", &out.instructions), std::pair("tools", &out.tools),
        std::pair("tool_choice", &out.tool_choice), std::pair("text", &out.text), std::pair("metadata", &out.metadata),
        std::pair("max_output_tokens", &out.max_output_tokens), std::pair("temperature", &out.temperature),
        std::pair("top_p", &out.top_p), std::pair("reasoning", &out.reasoning)})
    if (ordered.contains(key)) *member = ordered[key];
  return out;
}

}  // namespace serve
