// Constraints from their texts.
#pragma once
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/gbnf.h"
#include "tenon/constrain/grammar.h"
#include "tenon/constrain/regex.h"
#include "tenon/constrain/schema.h"
#include "tenon/constrain/text_set.h"
#include "tenon/core/json.h"

namespace tenon::constrain {

// All throw Refused: unsupported where something is not enforced exactly or takes more than the limits, invalid_request
// where the text is none of its language, or where nothing matches.

// Lists and objects within one another, at most: nlohmann's ordered JSON copies and writes them by recursion.
inline constexpr int kMostNesting = 1000;

// Refuses, as too complex, JSON beyond that.
inline void check_nesting(std::string_view json) {
  int depth = 0;
  bool text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (text && json[i] == '\\')
      ++i;
    else if (json[i] == '"')
      text = !text;
    else if (!text && (json[i] == '{' || json[i] == '[') && ++depth > kMostNesting) {
      refuse_complex("nested deeper than " + std::to_string(kMostNesting));
    } else if (!text && (json[i] == '}' || json[i] == ']'))
      --depth;
  }
}

// Its keys in order. Error invalid_request where the text is no JSON.
inline OrderedJson parse_schema(std::string_view text) {
  check_nesting(text);
  return parse_json<OrderedJson>(text, "schema", {.depth = kMostNesting, .refusal = Error::Kind::invalid_request});
}

// JSON that satisfies a JSON Schema (2020-12). Keys come in the order of the schema's.
template <std::same_as<OrderedJson> J>  // or a text would be taken for a JSON string
std::unique_ptr<Automaton> json_schema(const J& schema, const SchemaOptions& options = {}, Limits limits = {}) {
  auto grammar = std::make_unique<Grammar>(limits);
  compile_schema(*grammar, schema, options);
  return std::make_unique<Automaton>(std::move(grammar));
}

inline std::unique_ptr<Automaton> json_schema(std::string_view text, const SchemaOptions& options = {},
                                              Limits limits = {}) {
  return json_schema(parse_schema(text), options, limits);
}

// Texts that a regular expression matches as a whole (ECMA-262's syntax; \d, \w and \s are ASCII's).
inline std::unique_ptr<Automaton> regex(std::string_view pattern, Limits limits = {}) {
  auto grammar = std::make_unique<Grammar>(limits);
  grammar->start = regex(grammar->expressions, pattern, Spelling::utf8, Match::whole, "");
  return std::make_unique<Automaton>(std::move(grammar));
}

// Exactly one of the listed texts, an empty one too. Errors: invalid_request where the list is empty.
inline std::unique_ptr<Automaton> choice(std::span<const std::string> texts, Limits limits = {}) {
  if (texts.empty()) refuse_invalid("choice", "must list at least one text");
  auto made = std::make_unique<Grammar>(limits);
  made->start = one_of_texts(made->expressions, {texts.begin(), texts.end()});
  return std::make_unique<Automaton>(std::move(made));
}

// Texts of a grammar as llama.cpp writes them (GBNF); its rule `root` is the start.
inline std::unique_ptr<Automaton> grammar(std::string_view text, Limits limits = {}) {
  auto made = std::make_unique<Grammar>(limits);
  compile_gbnf(*made, text);
  return std::make_unique<Automaton>(std::move(made));
}

}  // namespace tenon::constrain
