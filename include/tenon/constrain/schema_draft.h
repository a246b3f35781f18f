// The draft of JSON Schema that a schema is written in, and the keywords of each draft.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/refused.h"
#include "tenon/constrain/schema_decimal.h"

namespace tenon::constrain::schema {

/// unnamed: the schema names no draft. It may use the keywords and spellings of all drafts.
enum class SchemaDraft { four = 4, six = 6, seven = 7, nineteen, twenty, unnamed };

/// The name of a draft, as in errors.
inline std::string_view name_of(SchemaDraft draft) {
  switch (draft) {
    case SchemaDraft::four:
      return "4";
    case SchemaDraft::six:
      return "6";
    case SchemaDraft::seven:
      return "7";
    case SchemaDraft::nineteen:
      return "2019-09";
    default:
      return "2020-12";
  }
}

/// The draft that "$schema" names. Refused, unsupported, for an unknown name, since keywords could mean anything there.
inline SchemaDraft draft_of(const Json& schema, const std::string& at) {
  if (!schema.is_object() || !schema.contains("$schema")) return SchemaDraft::unnamed;
  const Json& name = schema.at("$schema");
  if (!name.is_string()) refuse_invalid(at + "/$schema", "must be a string");
  std::string_view uri = name.get_ref<const std::string&>();
  if (uri.ends_with('#')) uri.remove_suffix(1);
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!uri.starts_with(scheme)) continue;
    const std::string_view rest = uri.substr(scheme.size());
    if (rest == "json-schema.org/draft-04/schema") return SchemaDraft::four;
    if (rest == "json-schema.org/draft-06/schema") return SchemaDraft::six;
    if (rest == "json-schema.org/draft-07/schema") return SchemaDraft::seven;
    if (rest == "json-schema.org/draft/2019-09/schema") return SchemaDraft::nineteen;
    if (rest == "json-schema.org/draft/2020-12/schema") return SchemaDraft::twenty;
    if (rest == "spec.openapis.org/oas/3.1/dialect/base")
      return SchemaDraft::twenty;  // OpenAPI 3.1.0, 4.8.24.5: 2020-12 with annotations
    if (rest == "json-schema.org/schema") return SchemaDraft::unnamed;  // the latest draft
  }
  refuse_unsupported(at + "/$schema", "only drafts 4, 6, 7, 2019-09 and 2020-12 of JSON Schema are known");
}

/// Keywords that constrain values, with the first draft from 4 on that has them. Keywords of draft 3 are listed under
/// 2019-09, and keywords that 2020-12 dropped keep their entries. Both are refused from 2019-09 on.
inline constexpr std::array<std::pair<std::string_view, SchemaDraft>, 45> kKeywords = {{
    {"type", SchemaDraft::four},
    {"enum", SchemaDraft::four},
    {"properties", SchemaDraft::four},
    {"required", SchemaDraft::four},
    {"additionalProperties", SchemaDraft::four},
    {"patternProperties", SchemaDraft::four},
    {"minProperties", SchemaDraft::four},
    {"maxProperties", SchemaDraft::four},
    {"items", SchemaDraft::four},
    {"additionalItems", SchemaDraft::four},
    {"minItems", SchemaDraft::four},
    {"maxItems", SchemaDraft::four},
    {"uniqueItems", SchemaDraft::four},
    {"minLength", SchemaDraft::four},
    {"maxLength", SchemaDraft::four},
    {"pattern", SchemaDraft::four},
    {"format", SchemaDraft::four},
    {"minimum", SchemaDraft::four},
    {"maximum", SchemaDraft::four},
    {"exclusiveMinimum", SchemaDraft::four},
    {"exclusiveMaximum", SchemaDraft::four},
    {"multipleOf", SchemaDraft::four},
    {"dependencies", SchemaDraft::four},
    {"allOf", SchemaDraft::four},
    {"anyOf", SchemaDraft::four},
    {"oneOf", SchemaDraft::four},
    {"not", SchemaDraft::four},
    {"const", SchemaDraft::six},
    {"contains", SchemaDraft::six},
    {"propertyNames", SchemaDraft::six},
    {"if", SchemaDraft::seven},
    {"then", SchemaDraft::seven},
    {"else", SchemaDraft::seven},
    {"dependentRequired", SchemaDraft::nineteen},
    {"dependentSchemas", SchemaDraft::nineteen},
    {"minContains", SchemaDraft::nineteen},
    {"maxContains", SchemaDraft::nineteen},
    {"unevaluatedItems", SchemaDraft::nineteen},
    {"unevaluatedProperties", SchemaDraft::nineteen},
    {"prefixItems", SchemaDraft::twenty},
    {"$dynamicRef", SchemaDraft::twenty},
    {"$recursiveRef", SchemaDraft::nineteen},
    {"disallow", SchemaDraft::nineteen},
    {"extends", SchemaDraft::nineteen},
    {"divisibleBy", SchemaDraft::nineteen},
}};

/// Whether $ref replaces all other keywords of the subschema, as in drafts up to 7.
inline bool refers_alone(SchemaDraft draft, const Json& schema) {
  return draft <= SchemaDraft::seven && schema.contains("$ref");
}

/// Whether a subschema has the keyword and its draft knows it.
inline bool speaks(SchemaDraft draft, const Json& schema, std::string_view keyword) {
  if (!schema.contains(keyword)) return false;
  if (keyword == "$ref") return true;
  if (refers_alone(draft, schema)) return false;
  const auto is_it = [&](const auto& known) { return known.first == keyword; };
  const auto found = std::find_if(kKeywords.begin(), kKeywords.end(), is_it);
  return found == kKeywords.end() || found->second <= draft;
}

/// Warnings about keywords that mean something in other drafts, but nothing in this one.
inline std::vector<std::string> not_enforced(SchemaDraft draft, const Json& schema, const std::string& at) {
  std::vector<std::string> warnings;
  const std::string name = "draft " + std::string(name_of(draft));
  const std::string why =
      name + (refers_alone(draft, schema) ? " ignores other keywords beside $ref" : " does not have it");
  for (const auto& [keyword, first] : kKeywords) {
    if (!schema.contains(keyword) || speaks(draft, schema, keyword)) continue;
    warnings.push_back(std::string(keyword) + " is not enforced: " + why + " (" + at + ")");
  }
  return warnings;
}

/// The keyword of the subschema that its draft dropped; null for none. Some validators honour such keywords and
/// some ignore them, so either choice would be wrong.
inline const char* abolished(SchemaDraft draft, const Json& schema) {
  if (draft != SchemaDraft::nineteen && draft != SchemaDraft::twenty) return nullptr;
  if (schema.contains("dependencies")) return "dependencies";
  if (draft == SchemaDraft::nineteen) return nullptr;
  if (schema.contains("items") && schema.at("items").is_array()) return "items";
  return schema.contains("additionalItems") ? "additionalItems" : nullptr;
}

/// The name of a subschema as a target of references; empty where it has none.
inline std::string name_of(SchemaDraft draft, const Json& schema) {
  if (!schema.is_object()) return "";
  for (const char* key : {"$id", "id"}) {
    const bool known = draft == SchemaDraft::unnamed || (draft == SchemaDraft::four) == (std::string_view(key) == "id");
    if (!known || !schema.contains(key) || !schema.at(key).is_string()) continue;
    const std::string id = schema.at(key).get<std::string>();
    return id.substr(0, id.find('#'));
  }
  return "";
}
/// Whether references inside the subschema start at it.
inline bool opens_resource(SchemaDraft draft, const Json& schema) {
  if (!schema.is_object() || refers_alone(draft, schema)) return false;
  const char* const key = draft == SchemaDraft::four ? "id" : "$id";
  return schema.contains(key) && schema.at(key).is_string() && !name_of(draft, schema).empty();
}

}  // namespace tenon::constrain::schema
