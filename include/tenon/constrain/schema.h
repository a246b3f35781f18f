// Compiles JSON Schema (2020-12, and the different spellings of drafts 4 to 2019-09) to a grammar of the texts that
// satisfy it.
//
// 1. A schema is read into sets of subschemas (schema_source.h).
// 2. A set becomes shapes by type, of which a value must have one (schema_shape.h, schema_union.h).
// 3. The shapes are written as texts (schema_writer.h).
// Each string has one spelling. Keys come in the order of `properties`, then those that are only `required`, then
// others.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tenon/constrain/grammar.h"
#include "tenon/constrain/refused.h"
#include "tenon/constrain/schema_options.h"
#include "tenon/constrain/schema_shape.h"
#include "tenon/constrain/schema_source.h"
#include "tenon/constrain/schema_union.h"
#include "tenon/constrain/schema_writer.h"

namespace tenon::constrain {

/// Sets the grammar's rules, start and warnings. Throws Refused: unsupported if a keyword cannot be enforced
/// exactly; invalid_request if a keyword is malformed or no text satisfies the schema.
/// Not enforced, and not refused: that keys outside `properties` differ from one another.
inline void compile_schema(Grammar& grammar, const nlohmann::ordered_json& schema, const SchemaOptions& options = {}) {
  schema::Context context(grammar, schema, options);
  schema::Unions unions(context);
  grammar.start = schema::SchemaWriter(context, unions).write(context.sources.root());
  if (grammar.start == Expressions::kNever) refuse_invalid("#", "unsatisfiable: no value satisfies the schema");
  std::sort(grammar.warnings.begin(), grammar.warnings.end());
  grammar.warnings.erase(std::unique(grammar.warnings.begin(), grammar.warnings.end()), grammar.warnings.end());
}

}  // namespace tenon::constrain
