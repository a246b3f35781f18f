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
enum class Draft { four = 4, six = 6, seven = 7, nineteen, twenty, unnamed };

/// The name of a draft, as in errors.
inline std::string_view name_of(Draft draft) {
  switch (draft) {
    case Draft::four:
      return "4";
    case Draft::six:
      return "6";
    case Draft::seven:
      return "7";
    case Draft::nineteen:
      return "2019-09";
    default:
      return "2020-12";
  }
}

/// The draft that "$schema" names. Refused, unsupported, for an unknown name, since keywords could mean anything there.
inline Draft draft_of(const Json& schema, const std::string& at) {
  if (!schema.is_object() || !schema.contains("$schema")) return Draft::unnamed;
  const Json& name = schema.at("$schema");
  if (!name.is_string()) refuse_invalid(at + "/$schema", "must be a string");
  std::string_view uri = name.get_ref<const std::string&>();
  if (uri.ends_with('#')) uri.remove_suffix(1);
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!uri.starts_with(scheme)) continue;
    const std::string_view rest = uri.substr(scheme.size());
    if (rest == "json-schema.org/draft-04/schema") return Draft::four;
    if (rest == "json-schema.org/draft-06/schema") return Draft::six;
    if (rest == "json-schema.org/draft-07/schema") return Draft::seven;
    if (rest == "json-schema.org/draft/2019-09/schema") return Draft::nineteen;
    if (rest == "json-schema.org/draft/2020-12/schema") return Draft::twenty;
    if (rest == "spec.openapis.org/oas/3.1/dialect/base")
      return Draft::twenty;                                       // OpenAPI 3.1.0, 4.8.24.5: 2020-12 with annotations
    if (rest == "json-schema.org/schema") return Draft::unnamed;  // the latest draft
  }
  refuse_unsupported(at + "/$schema", "only drafts 4, 6, 7, 2019-09 and 2020-12 of JSON Schema are known");
}

/// Keywords that constrain values, with the first draft from 4 on that has them. Keywords of draft 3 are listed under
/// 2019-09, and keywords that 2020-12 dropped keep their entries. Both are refused from 2019-09 on.
inline constexpr std::array<std::pair<std::string_view, Draft>, 45> kKeywords = {{
    {"type", Draft::four},
    {"enum", Draft::four},
    {"properties", Draft::four},
    {"required", Draft::four},
    {"additionalProperties", Draft::four},
    {"patternProperties", Draft::four},
    {"minProperties", Draft::four},
    {"maxProperties", Draft::four},
    {"items", Draft::four},
    {"additionalItems", Draft::four},
    {"minItems", Draft::four},
    {"maxItems", Draft::four},
    {"uniqueItems", Draft::four},
    {"minLength", Draft::four},
    {"maxLength", Draft::four},
    {"pattern", Draft::four},
    {"format", Draft::four},
    {"minimum", Draft::four},
    {"maximum", Draft::four},
    {"exclusiveMinimum", Draft::four},
    {"exclusiveMaximum", Draft::four},
    {"multipleOf", Draft::four},
    {"dependencies", Draft::four},
    {"allOf", Draft::four},
    {"anyOf", Draft::four},
    {"oneOf", Draft::four},
    {"not", Draft::four},
    {"const", Draft::six},
    {"contains", Draft::six},
    {"propertyNames", Draft::six},
    {"if", Draft::seven},
    {"then", Draft::seven},
    {"else", Draft::seven},
    {"dependentRequired", Draft::nineteen},
    {"dependentSchemas", Draft::nineteen},
    {"minContains", Draft::nineteen},
    {"maxContains", Draft::nineteen},
    {"unevaluatedItems", Draft::nineteen},
    {"unevaluatedProperties", Draft::nineteen},
    {"prefixItems", Draft::twenty},
    {"$dynamicRef", Draft::twenty},
    {"$recursiveRef", Draft::nineteen},
    {"disallow", Draft::nineteen},
    {"extends", Draft::nineteen},
    {"divisibleBy", Draft::nineteen},
}};

/// Whether $ref replaces all other keywords of the subschema, as in drafts up to 7.
inline bool refers_alone(Draft draft, const Json& schema) { return draft <= Draft::seven && schema.contains("$ref"); }

/// Whether a subschema has the keyword and its draft knows it.
inline bool speaks(Draft draft, const Json& schema, std::string_view keyword) {
  if (!schema.contains(keyword)) return false;
  if (keyword == "$ref") return true;
  if (refers_alone(draft, schema)) return false;
  const auto is_it = [&](const auto& known) { return known.first == keyword; };
  const auto found = std::find_if(kKeywords.begin(), kKeywords.end(), is_it);
  return found == kKeywords.end() || found->second <= draft;
}

/// Warnings about keywords that mean something in other drafts, but nothing in this one.
inline std::vector<std::string> not_enforced(Draft draft, const Json& schema, const std::string& at) {
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
inline const char* abolished(Draft draft, const Json& schema) {
  if (draft != Draft::nineteen && draft != Draft::twenty) return nullptr;
  if (schema.contains("dependencies")) return "dependencies";
  if (draft == Draft::nineteen) return nullptr;
  if (schema.contains("items") && schema.at("items").is_array()) return "items";
  return schema.contains("additionalItems") ? "additionalItems" : nullptr;
}

/// The name of a subschema as a target of references; empty where it has none.
inline std::string name_of(Draft draft, const Json& schema) {
  if (!schema.is_object()) return "";
  for (const char* key : {"$id", "id"}) {
    const bool known = draft == Draft::unnamed || (draft == Draft::four) == (std::string_view(key) == "id");
    if (!known || !schema.contains(key) || !schema.at(key).is_string()) continue;
    const std::string id = schema.at(key).get<std::string>();
    return id.substr(0, id.find('#'));
  }
  return "";
}
/// Whether references inside the subschema start at it.
inline bool opens_resource(Draft draft, const Json& schema) {
  if (!schema.is_object() || refers_alone(draft, schema)) return false;
  const char* const key = draft == Draft::four ? "id" : "$id";
  return schema.contains(key) && schema.at(key).is_string() && !name_of(draft, schema).empty();
}

}  // namespace tenon::constrain::schema
