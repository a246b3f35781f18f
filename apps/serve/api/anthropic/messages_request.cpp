#include "serve/api/anthropic/messages_request.h"

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

std::string block_path(const std::string& list, std::size_t index) { return list + "[" + std::to_string(index) + "]"; }

// Turns a body of Anthropic's into one of chat completions. Refusals name the fields of the former.
class ChatOfMessages {
 public:
  ChatOfMessages(const Body& body, UnknownFields& unknown)
      : fields_(body.json), ordered_(body.ordered()), unknown_(unknown) {}

  // What an error of the chat's parser says, in the names of Anthropic.
  FieldNames names() const {
    FieldNames names = names_;
    const Json* const tools = fields_.find("tools");
    for (std::size_t i = 0; tools && i < tools->size(); ++i) {
      const std::string path = block_path("tools", i);
      names.emplace_back(path + ".function.parameters", path + ".input_schema");
      names.emplace_back(path + ".function", path);
    }
    for (std::size_t i = 0; i < origins_.size(); ++i) names.emplace_back(block_path("messages", i), origins_[i]);
    return names;
  }

  OrderedJson convert(bool writes) {
    OrderedJson chat = OrderedJson::object();
    Json members = Json::object();
    for (const auto& [key, value] : ordered_.items()) {
      if (find_field(key, kMessages))
        members[key] = Json(value);
      else
        chat[key] = value;
    }
    RequestFields(members, kMessages, unknown_);  // refuses by the table
    if (writes && !fields_.has("max_tokens")) fields_.refuse("max_tokens", "is missing");
    if (fields_.has("max_tokens")) fields_.integer("max_tokens", 1, kMaxInt);
    if (fields_.has("system")) push({{"role", "system"}, {"content", text_of(fields_, "system", "system")}}, "system");
    const Json* const list = fields_.list("messages");
    if (!list || list->empty()) fields_.refuse("messages", "must be a list that is not empty");
    for (std::size_t i = 0; i < list->size(); ++i)
      add_message((*list)[i], ordered_["messages"][i], block_path("messages", i));
    // The API says that an answer goes on from a last message of the assistant.
    const OrderedJson& last = messages_.back();
    if (last["role"] == "assistant" && !last.contains("tool_calls") && !chat.contains("continue_final_message") &&
        !chat.contains("add_generation_prompt")) {
      chat["continue_final_message"] = true;
      chat["add_generation_prompt"] = false;
    }
    chat["messages"] = std::move(messages_);
    if (const Json* const stops = fields_.find("stop_sequences")) {
      if (fields_.has("stop")) fields_.refuse("stop_sequences", "stands beside stop; keep one of them");
      chat["stop_sequences"] = OrderedJson(*stops);
    }
    read_tools(chat);
    return chat;
  }

 private:
  // `origin`: what the client calls the message.
  void push(OrderedJson message, const std::string& origin) {
    messages_.push_back(std::move(message));
    origins_.push_back(origin);
  }

  // What has a meaning in blocks of another type alone is refused where it asks for anything.
  static void refuse_foreign_members(const RequestFields& block, std::string_view type) {
    struct Member {
      const char* name;
      std::string_view type;
    };
    for (const auto& [name, owner] :
         {Member{"text", "text"}, Member{"id", "tool_use"}, Member{"name", "tool_use"}, Member{"input", "tool_use"},
          Member{"tool_use_id", "tool_result"}, Member{"is_error", "tool_result"}, Member{"content", "tool_result"},
          Member{"thinking", "thinking"}}) {
      const Json* const value = block.find(name);
      if (owner != type && value && *value != false && !asks_nothing(*value))
        block.refuse(name, "has no meaning in a block of type \"" + std::string(type) + "\"");
    }
  }

  // A text, or the texts of a list of blocks.
  std::string text_of(const RequestFields& in, const char* key, const std::string& path) {
    const Json* const value = in.find(key);
    if (!value) return {};
    if (value->is_string()) return value->get<std::string>();
    if (!value->is_array()) in.refuse_type(key, "a text or a list of blocks", *value);
    std::string text;
    for (std::size_t i = 0; i < value->size(); ++i) text += block_text((*value)[i], block_path(path, i));
    return text;
  }

  std::string block_text(const Json& value, const std::string& path) {
    const RequestFields any(value, path);
    const std::string type = any.string("type").value_or("");
    if (type != "text") any.refuse("type", "\"" + shown(type) + "\" is not supported here, only \"text\"");
    const RequestFields block(value, kBlock, unknown_, path);
    refuse_foreign_members(block, type);
    const auto text = block.string("text");
    if (!text) block.refuse("text", "is missing");
    return *text;
  }

  // Results of calls are messages of their own, in front of the user's text.
  void add_message(const Json& value, const OrderedJson& ordered, const std::string& path) {
    const RequestFields message(value, kTurn, unknown_, path);
    const std::string role = message.string("role").value_or("");
    if (role != "user" && role != "assistant") message.refuse("role", "must be \"user\" or \"assistant\"");
    const Json* const content = message.find("content");
    if (!content) message.refuse("content", "is missing");
    OrderedJson out = {{"role", role}, {"content", ""}};
    if (content->is_string()) {
      out["content"] = content->get<std::string>();
      return push(std::move(out), path);
    }
    if (!content->is_array() || content->empty())
      message.refuse_type("content", "a text or a list of blocks", *content);
    std::string text;
    bool results = false;
    for (std::size_t i = 0; i < content->size(); ++i) {
      const std::string here = block_path(path + ".content", i);
      const Json& block = (*content)[i];
      const std::string type = RequestFields(block, here).string("type").value_or("");
      if (type == "tool_result" && role == "user") {
        add_result(block, here);
        results = true;
      } else if (type == "tool_use" && role == "assistant") {
        const std::string chats = block_path("messages", messages_.size()) + ".tool_calls";
        const std::string call = block_path(chats, out["tool_calls"].size());
        names_.emplace_back(call + ".function.arguments", here + ".input");
        names_.emplace_back(call + ".function", here);
        names_.emplace_back(call, here);
        out["tool_calls"].push_back(call_of(block, ordered["content"][i], here));
      } else if (type == "thinking" && role == "assistant") {
        const RequestFields thought(block, kBlock, unknown_, here);
        refuse_foreign_members(thought, type);
        out["reasoning_content"] = out.value("reasoning_content", "") + thought.string("thinking").value_or("");
      } else {
        text += block_text(block, here);
      }
    }
    out["content"] = text;
    if (!results || !text.empty()) push(std::move(out), path);
  }

  void add_result(const Json& value, const std::string& path) {
    const RequestFields block(value, kBlock, unknown_, path);
    refuse_foreign_members(block, "tool_result");
    const std::string before = block.boolean("is_error", false) ? "Error: " : "";
    push({{"role", "tool"},
          {"tool_call_id", block.string("tool_use_id").value_or("")},
          {"content", before + text_of(block, "content", path + ".content")}},
         path);
  }

  OrderedJson call_of(const Json& value, const OrderedJson& ordered, const std::string& path) {
    const RequestFields block(value, kBlock, unknown_, path);
    refuse_foreign_members(block, "tool_use");
    const auto name = block.string("name");
    if (!name) block.refuse("name", "is missing");
    const Json* const input = block.find("input");
    if (input && !input->is_object()) block.refuse_type("input", "an object", *input);
    return {{"id", block.string("id").value_or("")},
            {"type", "function"},
            {"function", OrderedJson{{"name", *name}, {"arguments", input ? ordered["input"].dump() : "{}"}}}};
  }

  void read_tools(OrderedJson& chat) {
    if (const Json* const list = fields_.list("tools")) {
      OrderedJson& tools = chat["tools"] = OrderedJson::array();
      for (std::size_t i = 0; i < list->size(); ++i) {
        const std::string path = block_path("tools", i);
        const RequestFields any((*list)[i], path);
        const std::string type = any.string("type").value_or("custom");
        if (type != "custom") any.refuse("type", "\"" + shown(type) + "\" is not supported, only \"custom\"");
        const RequestFields tool((*list)[i], kInputTool, unknown_, path);
        OrderedJson function = {{"name", tool.string("name").value_or("")}};
        if (const auto description = tool.string("description")) function["description"] = *description;
        if (tool.has("input_schema")) function["parameters"] = ordered_["tools"][i]["input_schema"];
        if (tool.has("strict")) function["strict"] = tool.boolean("strict", false);
        tools.push_back({{"type", "function"}, {"function", std::move(function)}});
      }
    }
    const auto choice = fields_.object("tool_choice", kInputChoice, unknown_);
    if (!choice) return;
    const std::string type = choice->string("type").value_or("");
    const std::string name = choice->string("name").value_or("");
    if (type != "tool" && !name.empty())
      choice->refuse("name", "has no meaning with `type` \"" + shown(type) + "\"; it goes with \"tool\"");
    if (type == "tool")
      chat["tool_choice"] = {{"type", "function"}, {"function", OrderedJson{{"name", name}}}};
    else if (type == "auto" || type == "none" || type == "any")
      chat["tool_choice"] = type == "any" ? "required" : type;
    else
      choice->refuse("type", "must be \"auto\", \"any\", \"tool\" or \"none\"");
    if (choice->boolean("disable_parallel_tool_use", false)) chat["parallel_tool_calls"] = false;
  }

  const RequestFields fields_;
  const OrderedJson ordered_;
  UnknownFields& unknown_;
  OrderedJson messages_ = OrderedJson::array();
  std::vector<std::string> origins_;  // of each message: what the client calls it
  FieldNames names_;                  // of the calls of messages
};

}  // namespace

ChatRequest parse_messages(std::string_view text, const RequestContext& context, bool writes) {
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = context.lenient};
  ChatOfMessages conversion(body, unknown);
  const std::string converted = conversion.convert(writes).dump();
  ChatRequest out;
  try {
    out = parse_chat(converted, context);
  } catch (const ApiError& error) {
    throw renamed(error, conversion.names());
  }
  for (std::string& each : unknown.ignored) out.ignored.push_back(std::move(each));
  return out;
}

}  // namespace serve
