// Functions that an answer may call.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace program {

inline constexpr std::size_t kMostTools = 128;  // of a request; OpenAI's
// The parameters of a function that names none.
inline constexpr const char* kNoArguments = R"({"type": "object", "properties": {}, "additionalProperties": false})";

struct FunctionTool {
  std::string name;
  std::string parameters;  // JSON Schema
  bool strict = false;
};

// OpenAI's rule, and dots.
inline constexpr const char* kFunctionName = "must have 1 to 64 letters, digits, '_', '-' and '.'";
inline bool is_function_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  return !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

struct ToolChoice {
  enum class Kind { none, automatic, required };
  Kind kind = Kind::none;
  std::vector<FunctionTool> functions = {};  // that may be called; empty with Kind::none
  bool parallel = true;

  bool is_forced() const { return kind == Kind::required; }

  // The word of `tool_choice`; empty: the default. False: there is no such word, or it needs functions.
  bool choose(std::string_view word) {
    if (word == "required" && functions.empty()) return false;
    if (word == "none" || functions.empty())
      kind = Kind::none;
    else
      kind = word == "required" ? Kind::required : Kind::automatic;
    if (kind == Kind::none) functions.clear();
    return word.empty() || word == "none" || word == "auto" || word == "required";
  }
  // One call of the function must come. False: there is none of that name.
  bool choose_function(std::string_view name) {
    kind = Kind::required;
    parallel = false;
    std::erase_if(functions, [&](const FunctionTool& each) { return each.name != name; });
    return !functions.empty();
  }
};

}  // namespace program
