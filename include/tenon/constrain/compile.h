// Compiles constraints from their texts.
#pragma once
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/budget.h"
#include "tenon/constrain/schema_options.h"
#include "tenon/io/json_fwd.h"

namespace tenon::constrain {

// All functions here throw Refused: unsupported if something cannot be enforced exactly or exceeds the limits;
// invalid_request if the text is malformed or nothing matches.

/// Limit on nested lists and objects, because nlohmann's ordered JSON copies and writes them by recursion.
inline constexpr int kMostNesting = 1000;

/// Refuses JSON over that limit as too complex.
void check_nesting(std::string_view json);

/// Parses a JSON Schema; keys keep their order. Error invalid_request if the text is not JSON.
OrderedJson parse_schema(std::string_view text);

/// Accepts JSON texts that satisfy a JSON Schema (2020-12), with keys in the schema's order.
std::unique_ptr<Automaton> automaton_of_schema(const OrderedJson& schema, const SchemaOptions& options = {},
                                               ConstraintLimits limits = {});
template <std::same_as<OrderedJson> J>  // without the constraint, a text would convert to a JSON string
std::unique_ptr<Automaton> json_schema(const J& schema, const SchemaOptions& options = {},
                                       ConstraintLimits limits = {}) {
  return automaton_of_schema(schema, options, limits);
}
std::unique_ptr<Automaton> json_schema(std::string_view text, const SchemaOptions& options = {},
                                       ConstraintLimits limits = {});

/// Accepts texts that a regular expression matches as a whole. Syntax of ECMA-262; \d, \w and \s are ASCII only.
std::unique_ptr<Automaton> regex(std::string_view pattern, ConstraintLimits limits = {});

/// Accepts one of the listed texts; a text may be empty. Error invalid_request if the list is empty.
std::unique_ptr<Automaton> choice(std::span<const std::string> texts, ConstraintLimits limits = {});

/// Accepts texts of a grammar in llama.cpp's notation (GBNF). The start is the rule `root`.
std::unique_ptr<Automaton> grammar(std::string_view text, ConstraintLimits limits = {});

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/compile-inl.h"
#endif
