#pragma once
#include "tenon/constrain/compile.h"
#include "tenon/constrain/gbnf.h"
#include "tenon/constrain/grammar.h"
#include "tenon/constrain/regex.h"
#include "tenon/constrain/schema.h"
#include "tenon/constrain/text_set.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::constrain {

TENON_INLINE void check_nesting(std::string_view json) {
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

TENON_INLINE OrderedJson parse_schema(std::string_view text) {
  check_nesting(text);
  return parse_json<OrderedJson>(text, "schema", {.depth = kMostNesting, .refusal = Error::Kind::invalid_request});
}

TENON_INLINE std::unique_ptr<Automaton> automaton_of_schema(const OrderedJson& schema, const SchemaOptions& options,
                                                            ConstraintLimits limits) {
  auto grammar = std::make_unique<Grammar>(limits);
  compile_schema(*grammar, schema, options);
  return std::make_unique<Automaton>(std::move(grammar));
}

TENON_INLINE std::unique_ptr<Automaton> json_schema(std::string_view text, const SchemaOptions& options,
                                                    ConstraintLimits limits) {
  return json_schema(parse_schema(text), options, limits);
}

TENON_INLINE std::unique_ptr<Automaton> regex(std::string_view pattern, ConstraintLimits limits) {
  auto grammar = std::make_unique<Grammar>(limits);
  grammar->start = regex(grammar->expressions, pattern, Spelling::utf8, Match::whole, "");
  return std::make_unique<Automaton>(std::move(grammar));
}

TENON_INLINE std::unique_ptr<Automaton> choice(std::span<const std::string> texts, ConstraintLimits limits) {
  if (texts.empty()) refuse_invalid("choice", "must list at least one text");
  auto made = std::make_unique<Grammar>(limits);
  made->start = one_of_texts(made->expressions, {texts.begin(), texts.end()});
  return std::make_unique<Automaton>(std::move(made));
}

TENON_INLINE std::unique_ptr<Automaton> grammar(std::string_view text, ConstraintLimits limits) {
  auto made = std::make_unique<Grammar>(limits);
  compile_gbnf(*made, text);
  return std::make_unique<Automaton>(std::move(made));
}

}  // namespace tenon::constrain
