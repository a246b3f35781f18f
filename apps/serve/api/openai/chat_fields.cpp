#include "serve/api/openai/chat_fields.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/api/request_limits.h"
#include "serve/api/writer.h"
#include "tenon/core/error.h"
#include "tenon/io/json.h"

namespace serve {
namespace {

using tenon::Json;
using tenon::OrderedJson;

std::string element(const std::string& list, std::size_t index) { return list + "[" + std::to_string(index) + "]"; }

// A text, or a list of parts that are texts.
OrderedJson content_of(const RequestFields& message, const std::string& role, const std::string& path,
                       UnknownFields& unknown) {
  const Json* const value = message.find("content");
  if (!value) {
    if (role != "assistant") message.refuse("content", "is missing");
    return "";
  }
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) message.refuse_type("content", "a string or a list of parts", *value);
  if (value->empty()) message.refuse("content", "must not be an empty list");
  OrderedJson parts = OrderedJson::array();
  for (std::size_t i = 0; i < value->size(); ++i) {
    const std::string here = element(path + ".content", i);
    const RequestFields any((*value)[i], here);  // the type decides first, so that an image is refused as one
    const std::string type = any.string("type").value_or("");
    if (type != "text") any.refuse("type", "\"" + shown(type) + "\" is not supported, only \"text\"");
    const RequestFields part((*value)[i], kPart, unknown, here);
    const auto text = part.string("text");
    if (!text) part.refuse("text", "is missing");
    parts.push_back({{"type", "text"}, {"text", *text}});
  }
  return parts;
}

void need_function_type(const RequestFields& f) {
  const std::string type = f.string("type").value_or("function");
  if (type != "function") f.refuse("type", "\"" + shown(type) + "\" is not supported, only \"function\"");
}

// The calls of an assistant's message. `ordered`: the same, with its keys as written.
OrderedJson calls_of(const Json& list, const OrderedJson& ordered, const std::string& path, UnknownFields& unknown) {
  OrderedJson calls = OrderedJson::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const RequestFields call(list[i], kToolCall, unknown, element(path, i));
    need_function_type(call);
    call.string("id");
    const auto function = call.object("function", kCalledFunction, unknown);
    if (!function) call.refuse("function", "is missing");
    const auto name = function->string("name");
    const auto text = function->string("arguments");
    if (!name) function->refuse("name", "is missing");
    OrderedJson arguments = OrderedJson::object();
    if (text && !text->empty()) {
      try {  // as deep as a body may be: copies of it recurse
        arguments = tenon::parse_json<OrderedJson>(*text, "arguments", {.depth = 64, .values = 400'000});
      } catch (const tenon::Error& error) {
        function->refuse("arguments", "must be a text that holds a JSON object: " + std::string(error.what()));
      }
      if (!arguments.is_object()) function->refuse("arguments", "must be a text that holds a JSON object");
      if (holds_nul(arguments)) function->refuse("arguments", "must not hold a NUL character");
    }
    OrderedJson out = OrderedJson::object();
    for (const auto& [key, value] : ordered[i].items()) {
      if (key == "function")
        out[key] = OrderedJson{{"name", *name}, {"arguments", arguments}};
      else if (key == "id" || key == "type")
        out[key] = value;
    }
    calls.push_back(std::move(out));
  }
  return calls;
}

OrderedJson message_of(const Json& value, const OrderedJson& ordered, const std::string& path, UnknownFields& unknown) {
  constexpr std::array<std::string_view, 5> roles{"system", "developer", "user", "assistant", "tool"};
  const RequestFields message(value, kMessage, unknown, path);
  const auto role = message.string("role");
  if (!role) message.refuse("role", "is missing");
  if (std::find(roles.begin(), roles.end(), *role) == roles.end())
    message.refuse("role", "must be system, developer, user, assistant or tool, is \"" + shown(*role) + "\"");
  const OrderedJson content = content_of(message, *role, path, unknown);
  for (const char* const text : {"name", "tool_call_id", "reasoning_content"}) message.string(text);
  const Json* const calls = message.list("tool_calls");
  if (calls && !calls->empty() && *role != "assistant") message.refuse("tool_calls", "belong to role assistant");
  OrderedJson out = OrderedJson::object();
  for (const auto& [key, each] : ordered.items()) {
    if (each.is_null() && key != "content") continue;
    if (key == message.name_of("reasoning_content"))
      out["reasoning_content"] = each;
    else if (key == "content")
      out[key] = content;
    else if (key == "tool_calls" && !each.empty())
      out[key] = calls_of(*calls, each, path + ".tool_calls", unknown);
    else if (key == "role" || key == "name" || key == "tool_call_id")
      out[key] = each;
  }
  if (!out.contains("content")) out["content"] = content;
  return out;
}

// Whether the schema's `type`, if it has one, allows an object: arguments of a call are one.
bool allows_object(const Json& schema) {
  const auto type = schema.find("type");
  if (type == schema.end()) return true;
  return *type == "object" || (type->is_array() && std::find(type->begin(), type->end(), "object") != type->end());
}

FunctionTool function_of(const Json& tool, const std::string& path, const OrderedJson& ordered,
                         UnknownFields& unknown) {
  const RequestFields any(tool, path);  // the type decides first
  need_function_type(any);
  const RequestFields f(tool, kTool, unknown, path);
  const auto function = f.object("function", kFunction, unknown);
  if (!function) f.refuse("function", "is missing");
  const auto name = function->string("name");
  if (!name) function->refuse("name", "is missing");
  if (!program::is_function_name(*name)) function->refuse("name", program::kFunctionName);
  function->string("description");
  if (const Json* const returned = function->find("return"); returned && !returned->is_object())
    function->refuse_type("return", "an object", *returned);
  const Json* const parameters = function->find("parameters");
  if (parameters && !parameters->is_object()) function->refuse_type("parameters", "an object", *parameters);
  if (parameters && !allows_object(*parameters)) {
    function->refuse("parameters", "must describe an object, as arguments of a call are one; its `type` is " +
                                       shown(parameters->at("type").dump()));
  }
  FunctionTool out{.name = *name, .parameters = program::kNoArguments, .strict = function->boolean("strict", false)};
  if (parameters && !parameters->empty()) out.parameters = ordered["function"]["parameters"].dump();
  if (out.parameters.size() > kMostSchemaBytes)
    function->refuse("parameters", "has more than " + std::to_string(kMostSchemaBytes) + " bytes");
  return out;
}

std::vector<FunctionTool> functions_of(const RequestFields& f, const OrderedJson& ordered, UnknownFields& unknown) {
  std::vector<FunctionTool> functions;
  const Json* const list = f.list("tools");
  if (!list) return functions;
  if (list->size() > program::kMostTools) f.refuse("tools", "must hold at most " + std::to_string(program::kMostTools));
  std::set<std::string> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    functions.push_back(function_of((*list)[i], element("tools", i), ordered[i], unknown));
    if (!names.insert(functions.back().name).second)
      f.refuse("tools", "has two functions of the name " + functions.back().name);
  }
  return functions;
}

// OpenAI's {"type": "allowed_tools"}: some of the functions, by a mode. The template is told of all of them.
void choose_allowed(const RequestFields& f, const RequestFields& choice, ToolChoice& out, UnknownFields& unknown) {
  const auto allowed = choice.object("allowed_tools", kAllowedTools, unknown);
  const Json* const list = allowed ? allowed->list("tools") : nullptr;
  if (!list || list->empty()) f.refuse("tool_choice", "needs an `allowed_tools.tools` that is not empty");
  std::set<std::string> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const RequestFields tool((*list)[i], kToolChoice, unknown, element("tool_choice.allowed_tools.tools", i));
    need_function_type(tool);
    const auto function = tool.object("function", kChosenFunction, unknown);
    const auto name = function ? function->string("name") : std::nullopt;
    if (!name) tool.refuse("function", "needs a `name`");
    if (std::none_of(out.functions.begin(), out.functions.end(), [&](const auto& each) { return each.name == *name; }))
      f.refuse("tool_choice", "allows `" + shown(*name) + "`, which is not among `tools`");
    names.insert(*name);
  }
  std::erase_if(out.functions, [&](const FunctionTool& each) { return !names.contains(each.name); });
  const std::string mode = allowed->string("mode").value_or("");
  if ((mode != "auto" && mode != "required") || !out.choose(mode))
    allowed->refuse("mode", "must be \"auto\" or \"required\"");
}

// The function that an object names.
std::string chosen_function(const RequestFields& f, const RequestFields& choice, UnknownFields& unknown) {
  need_function_type(choice);
  const auto function = choice.object("function", kChosenFunction, unknown);
  const auto name = function ? function->string("name") : std::nullopt;
  if (!name) f.refuse("tool_choice", "needs a `function.name`");
  return *name;
}

}  // namespace

OrderedJson messages_of(const RequestFields& f, const std::string& key, const OrderedJson& ordered,
                        UnknownFields& unknown) {
  const Json* const list = f.list(key);
  if (!list) f.refuse(key, "is missing");
  if (list->empty()) f.refuse(key, "must not be empty");
  if (list->size() > kMostMessages) f.refuse(key, "must hold at most " + std::to_string(kMostMessages));
  OrderedJson messages = OrderedJson::array();
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].is_object()) RequestFields((*list)[i], element(key, i));  // refuses
    messages.push_back(message_of((*list)[i], ordered[i], element(key, i), unknown));
  }
  return messages;
}

tenon::chat::Conversation conversation_of(const Body& body, const RequestFields& f, UnknownFields& unknown,
                                          ReasoningWish* wish) {
  const OrderedJson ordered = body.ordered();
  const auto written = [&](const char* key) {
    const auto found = ordered.find(key);
    return found == ordered.end() ? OrderedJson(nullptr) : *found;
  };
  tenon::chat::Conversation out;
  out.messages = messages_of(f, "messages", written("messages"), unknown);
  if (f.list("tools")) {
    functions_of(f, written("tools"), unknown);  // refuses what is wrong
    out.tools = written("tools");
  }
  if (const Json* const documents = f.list("documents")) {
    if (std::any_of(documents->begin(), documents->end(), [](const Json& each) { return !each.is_object(); }))
      f.refuse("documents", "must be a list of objects");
    if (!documents->empty()) out.documents = written("documents");
  }
  if (const Json* const kwargs = f.find("chat_template_kwargs")) {
    if (!kwargs->is_object()) f.refuse_type("chat_template_kwargs", "an object", *kwargs);
    out.kwargs = written("chat_template_kwargs");
    for (const char* const own :
         {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template"})
      if (kwargs->contains(own)) f.refuse("chat_template_kwargs", std::string("must not hold `") + own + "`");
  }
  const ReasoningWish reasoning = reasoning_wish_of(f, unknown);
  const OrderedJson variables = reasoning.variables();
  for (const auto& [name, value] : variables.items())
    if (!out.kwargs.contains(name)) out.kwargs[name] = value;
  if (wish) *wish = reasoning;
  out.continue_final_message = f.boolean("continue_final_message", false);
  out.add_generation_prompt = f.boolean("add_generation_prompt", !out.continue_final_message);
  if (out.continue_final_message && out.add_generation_prompt)
    f.refuse("continue_final_message", "goes with `add_generation_prompt` false");
  return out;
}

ToolChoice tool_choice_of(const RequestFields& f, tenon::chat::Conversation& conversation, UnknownFields& unknown) {
  ToolChoice out{.parallel = f.boolean("parallel_tool_calls", true)};
  out.functions = functions_of(f, conversation.tools, unknown);
  const Json* const choice = f.find("tool_choice");
  if (choice && choice->is_object()) {
    const RequestFields object = *f.object("tool_choice", kToolChoice, unknown);
    if (object.string("type").value_or("") == "allowed_tools") {
      choose_allowed(f, object, out, unknown);
      return out;
    }
    if (object.has("allowed_tools")) object.refuse("allowed_tools", "goes with `type` \"allowed_tools\"");
    const std::string named = chosen_function(f, object, unknown);
    if (!out.choose_function(named))
      f.refuse("tool_choice", "names `" + shown(named) + "`, which is not among `tools`");
  } else {
    std::string word;
    if (choice) word = choice->is_string() && !choice->empty() ? choice->get<std::string>() : "?";
    if (word == "required" && out.functions.empty()) f.refuse("tool_choice", "needs `tools`");
    if (!out.choose(word))
      f.refuse("tool_choice", "must be \"none\", \"auto\", \"required\" or an object that names a function");
  }
  if (out.kind == ToolChoice::Kind::none) conversation.tools = nullptr;
  return out;
}

std::optional<std::string> prediction_of(const RequestFields& fields, UnknownFields& unknown) {
  const auto prediction = fields.object("prediction", kPrediction, unknown);
  if (!prediction) return std::nullopt;
  const std::string type = prediction->string("type").value_or("");
  if (type != "content") prediction->refuse("type", "must be \"content\", is \"" + shown(type) + "\"");
  const OrderedJson content = content_of(*prediction, "prediction", "prediction", unknown);
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const OrderedJson& part : content) text += part["text"].get_ref<const std::string&>();
  return text;
}

std::size_t characters_of(const OrderedJson& messages) {
  std::size_t count = 0;
  for (const OrderedJson& message : messages) {
    const OrderedJson& content = message["content"];
    if (content.is_string()) count += characters(content.get_ref<const std::string&>());
    if (content.is_array())
      for (const OrderedJson& part : content) count += characters(part["text"].get_ref<const std::string&>());
  }
  return count;
}

}  // namespace serve
