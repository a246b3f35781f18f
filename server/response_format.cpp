#include "server/response_format.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "server/request_fields.h"
#include "server/request_limits.h"
#include "tenon/core/fields.h"

namespace serve {
namespace {

using tenon::Json;
using tenon::OrderedJson;

[[noreturn]] void refuse_format(const std::string& what) {
  throw ApiError(ApiError::Kind::invalid, "`response_format` " + what, "response_format");
}

// Null where absent or null.
const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json* object_member(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (value && !value->is_object()) {
    refuse_format(std::string("needs an object as `") + key + "`, has " + tenon::Fields::describe(*value));
  }
  return value;
}

OrderedJson copy_of(const Body& body, std::initializer_list<const char*> path) {
  OrderedJson document = body.ordered();
  OrderedJson* at = &document;
  for (const char* key : path) at = &at->at(key);
  OrderedJson schema = std::move(*at);
  if (schema.dump().size() > kMostSchemaBytes) {
    refuse_format("has a schema of more than " + std::to_string(kMostSchemaBytes) + " bytes");
  }
  return schema;
}

OrderedJson any_object() { return {{"type", "object"}}; }

std::optional<OrderedJson> lorax_schema(const Body& body, const Json& format, const std::string& type) {
  if (type != "json_object" && type != "json_schema") refuse_format("has the unknown type \"" + shown(type) + "\"");
  if (object_member(format, "schema")) return copy_of(body, {"parameters", "response_format", "schema"});
  // OpenAI's spelling: to ignore it would answer with any object.
  const Json* const inner = object_member(format, "json_schema");
  if (inner && object_member(*inner, "schema"))
    return copy_of(body, {"parameters", "response_format", "json_schema", "schema"});
  return any_object();
}

std::optional<OrderedJson> openai_schema(const Body& body, const Json& format, const std::string& type) {
  if (type == "json_object") {
    if (object_member(format, "schema")) return copy_of(body, {"response_format", "schema"});
    return any_object();
  }
  if (type != "json_schema") refuse_format("has the unknown type \"" + shown(type) + "\"");
  const Json* const inner = object_member(format, "json_schema");
  if (!inner || !object_member(*inner, "schema")) refuse_format("of type \"json_schema\" needs a `json_schema.schema`");
  return copy_of(body, {"response_format", "json_schema", "schema"});
}

}  // namespace

std::optional<OrderedJson> schema_of(const Body& body, Dialect dialect) {
  const Json* const from = dialect == Dialect::lorax ? object_member(body.json, "parameters") : &body.json;
  const Json* const format = from ? member(*from, "response_format") : nullptr;
  if (!format) return std::nullopt;
  if (!format->is_object()) refuse_format("must be an object, is " + tenon::Fields::describe(*format));
  const Json* const type = member(*format, "type");
  if (!type || !type->is_string()) refuse_format("needs a `type`: \"text\", \"json_object\" or \"json_schema\"");
  const std::string name = type->get<std::string>();
  if (name == "text") return std::nullopt;
  return dialect == Dialect::lorax ? lorax_schema(body, *format, name) : openai_schema(body, *format, name);
}

}  // namespace serve
