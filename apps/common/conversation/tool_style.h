// How the models of a chat template write calls of functions, and their reasoning.
#pragma once
#include <string>
#include <string_view>

#include "tenon/constrain/calls.h"
#include "tenon/io/json.h"

namespace program {

// Calls in one answer at most, with parallel_tool_calls.
inline constexpr int kMostCalls = 16;

// An answer with calls is `marker begin call (between call)* end`; a call is JSON with `name` and `parameters`.
struct ToolStyle {
  std::string name;                 // hermes, smollm, llama3, mistral, granite
  std::string marker;               // text in front of the calls; often a token
  std::string begin, between, end;  // texts
  std::string parameters = "arguments";
  int most = kMostCalls;   // calls that the template takes in one message
  bool at_start = false;   // the calls are the whole answer, and the marker is the start of a call
  bool short_ids = false;  // ids of calls are 9 letters or digits, which the template demands

  // The text in front of a call's arguments, after marker and begin, or after between.
  std::string before(const std::string& function) const;
  // Calls as the model writes them: a list of objects with `name` and `arguments`.
  std::string written(const tenon::OrderedJson& calls) const;
};

// By the markers in the template's text. A template without any has the style of its family (Granite, SmolLM2), or else
// Hermes.
ToolStyle tool_style_of(std::string_view jinja);

// The text of a system message that tells a model about tools, where its template does not show them.
std::string tool_prompt(const ToolStyle& style, const tenon::OrderedJson& tools);

struct ThinkStyle {
  std::string begin, end;  // empty: the model writes no reasoning
};
ThinkStyle think_style_of(std::string_view jinja);

}  // namespace program
