#include "conversation/tool_style.h"

namespace program {
namespace {

using tenon::OrderedJson;

const std::string kCallsMarker = "<tool_call>", kCallsEnd = "</tool_call>";

bool mentions(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// JSON as Python's json.dumps writes it, which models were taught.
std::string spaced(const OrderedJson& json) {
  if (!json.is_structured()) return json.dump();
  std::string out(1, json.is_array() ? '[' : '{');
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    if (!first) out += ", ";
    first = false;
    if (json.is_object()) out += OrderedJson(key).dump() + ": ";
    out += spaced(value);
  }
  return out + (json.is_array() ? ']' : '}');
}

}  // namespace

std::string ToolStyle::before(const std::string& function) const {
  const std::string whole = "{\"name\": " + OrderedJson(function).dump() + ", \"" + parameters + "\": ";
  return at_start ? whole.substr(marker.size()) : whole;
}

std::string ToolStyle::written(const OrderedJson& calls) const {
  std::string text = marker + begin;
  bool first = true;
  for (const OrderedJson& call : calls) {
    if (!first) text += between;
    first = false;
    text += before(call["name"].get<std::string>()) + spaced(call["arguments"]) + "}";
  }
  return text + end;
}

ToolStyle tool_style_of(std::string_view jinja) {
  if (mentions(jinja, "[TOOL_CALLS]")) {
    const bool spaces = mentions(jinja, "[TOOL_CALLS] [");
    return {.name = "mistral",
            .marker = "[TOOL_CALLS]",
            .begin = spaces ? " [" : "[",
            .between = ", ",
            .end = "]",
            .short_ids = true};
  }
  if (mentions(jinja, "<|tool_call|>") || (mentions(jinja, "<|start_of_role|>") && !mentions(jinja, kCallsMarker)))
    return {.name = "granite", .marker = "<|tool_call|>", .begin = "[", .between = ", ", .end = "]"};
  const bool llama =
      mentions(jinja, "<|python_tag|>") || (mentions(jinja, "ipython") && mentions(jinja, "\"parameters\""));
  if (!mentions(jinja, kCallsMarker) && llama) {
    return {.name = "llama3",
            .marker = "{\"name\":",
            .begin = "",
            .between = "; {\"name\":",
            .end = "",
            .parameters = "parameters",
            .at_start = true};
  }
  if (mentions(jinja, "SmolLM") && !mentions(jinja, "tools"))
    return {.name = "smollm", .marker = kCallsMarker, .begin = "[", .between = ", ", .end = "]" + kCallsEnd};
  return {.name = "hermes",
          .marker = kCallsMarker,
          .begin = "\n",
          .between = "\n" + kCallsEnd + "\n" + kCallsMarker + "\n",
          .end = "\n" + kCallsEnd};
}

std::string tool_prompt(const ToolStyle& style, const OrderedJson& tools) {
  if (style.name == "smollm") {  // the prompt that SmolLM2's authors publish
    return "You are an expert in composing functions. You are given a question and a set of possible functions. \n"
           "Based on the question, you will need to make one or more function/tool calls to achieve the purpose. \n"
           "If none of the functions can be used, point it out and refuse to answer. \n"
           "If the given question lacks the parameters required by the function, also point it out.\n\n"
           "You have access to the following tools:\n<tools>" +
           spaced(tools) +
           "</tools>\n\nThe output MUST strictly adhere to the following format, and NO other text MUST be included.\n"
           "The example format is as follows. Please make sure the parameter type is correct. If no function call is "
           "needed, please make the tool calls an empty list '[]'.\n<tool_call>[\n"
           "{\"name\": \"func_name1\", \"arguments\": {\"argument1\": \"value1\", \"argument2\": \"value2\"}},\n"
           "... (more tool calls as required)\n]</tool_call>";
  }
  std::string list;
  for (const OrderedJson& tool : tools) list += "\n" + spaced(tool);
  const OrderedJson example = OrderedJson::array({{{"name", "<function-name>"}, {"arguments", OrderedJson::object()}}});
  return "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
         "You are provided with function signatures within <tools></tools> XML tags:\n<tools>" +
         list + "\n</tools>\n\nTo call functions, answer with their names and arguments in this form:\n" +
         style.written(example);
}

ThinkStyle think_style_of(std::string_view jinja) {
  if (mentions(jinja, "<think>") || mentions(jinja, "</think>")) return {"<think>", "</think>"};
  return {};
}

}  // namespace program
