// Constraints from their texts.
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

// All throw Refused: unsupported where something is not enforced exactly or takes more than the limits, invalid_request
// where the text is none of its language, or where nothing matches.

// Lists and objects within one another, at most: nlohmann's ordered JSON copies and writes them by recursion.
inline constexpr int kMostNesting = 1000;

// Refuses, as too complex, JSON beyond that.
void check_nesting(std::string_view json);

// Its keys in order. Error invalid_request where the text is no JSON.
OrderedJson parse_schema(std::string_view text);

// JSON that satisfies a JSON Schema (2020-12). Keys come in the order of the schema's.
std::unique_ptr<Automaton> automaton_of_schema(const OrderedJson& schema, const SchemaOptions& options = {},
                                               ConstraintLimits limits = {});
template <std::same_as<OrderedJson> J>  // or a text would be taken for a JSON string
std::unique_ptr<Automaton> json_schema(const J& schema, const SchemaOptions& options = {},
                                       ConstraintLimits limits = {}) {
  return automaton_of_schema(schema, options, limits);
}
std::unique_ptr<Automaton> json_schema(std::string_view text, const SchemaOptions& options = {},
                                       ConstraintLimits limits = {});

// Texts that a regular expression matches as a whole (ECMA-262's syntax; \d, \w and \s are ASCII's).
std::unique_ptr<Automaton> regex(std::string_view pattern, ConstraintLimits limits = {});

// Exactly one of the listed texts, an empty one too. Errors: invalid_request where the list is empty.
std::unique_ptr<Automaton> choice(std::span<const std::string> texts, ConstraintLimits limits = {});

// Texts of a grammar as llama.cpp writes them (GBNF); its rule `root` is the start.
std::unique_ptr<Automaton> grammar(std::string_view text, ConstraintLimits limits = {});

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/compile-inl.h"
#endif
