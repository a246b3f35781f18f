#include "serve/api/response_format.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/api/request_limits.h"
#include "tenon/io/fields.h"

namespace serve {
namespace {

using tenon::Json;
using tenon::OrderedJson;
using Path = std::vector<std::string>;
using FormKind = AnswerForm::Kind;

constexpr tenon::JsonLimits kSchemaLimits{
    .depth = 64, .values = 400'000, .refusal = tenon::Error::Kind::invalid_request};

// Keywords of all drafts of JSON Schema, with annotations.
constexpr std::string_view kKeywords[] = {"$anchor",
                                          "$comment",
                                          "$defs",
                                          "$dynamicAnchor",
                                          "$dynamicRef",
                                          "$id",
                                          "$recursiveAnchor",
                                          "$recursiveRef",
                                          "$ref",
                                          "$schema",
                                          "$vocabulary",
                                          "additionalItems",
                                          "additionalProperties",
                                          "allOf",
                                          "anyOf",
                                          "const",
                                          "contains",
                                          "contentEncoding",
                                          "contentMediaType",
                                          "contentSchema",
                                          "default",
                                          "definitions",
                                          "dependencies",
                                          "dependentRequired",
                                          "dependentSchemas",
                                          "deprecated",
                                          "description",
                                          "discriminator",
                                          "else",
                                          "enum",
                                          "example",
                                          "examples",
                                          "exclusiveMaximum",
                                          "exclusiveMinimum",
                                          "externalDocs",
                                          "format",
                                          "id",
                                          "if",
                                          "items",
                                          "maxContains",
                                          "maxItems",
                                          "maxLength",
                                          "maxProperties",
                                          "maximum",
                                          "minContains",
                                          "minItems",
                                          "minLength",
                                          "minProperties",
                                          "minimum",
                                          "multipleOf",
                                          "not",
                                          "nullable",
                                          "oneOf",
                                          "pattern",
                                          "patternProperties",
                                          "prefixItems",
                                          "properties",
                                          "propertyNames",
                                          "readOnly",
                                          "required",
                                          "then",
                                          "title",
                                          "type",
                                          "unevaluatedItems",
                                          "unevaluatedProperties",
                                          "uniqueItems",
                                          "writeOnly",
                                          "xml"};

bool is_keyword(std::string_view key) {
  return std::find(std::begin(kKeywords), std::end(kKeywords), key) != std::end(kKeywords);
}

bool looks_like_schema(const OrderedJson& value) {
  if (!value.is_object()) return false;
  for (const char* const key : {"properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "items"})
    if (value.contains(key)) return true;
  const auto type = value.find("type");
  if (type == value.end() || !type->is_string()) return false;
  for (const char* const each : {"object", "array", "string", "number", "integer", "boolean", "null"})
    if (*type == each) return true;
  return false;
}

class FormReader {
 public:
  FormReader(const Body& body, const RequestFields& fields, bool in_parameters, UnknownFields& unknown)
      : body_(body), fields_(fields), in_parameters_(in_parameters), unknown_(unknown) {}

  std::optional<AnswerForm> read() {
    for (const char* const name : {"guided_json", "json_schema", "schema", "response_schema"})
      if (is_given(name)) add_schema(name, {name});
    for (const char* const name : {"guided_regex", "regex"})
      if (is_given(name)) add_text(FormKind::regex, name, fields_, name);
    for (const char* const name : {"guided_choice", "choice"})
      if (is_given(name)) add_choice(name, fields_, name);
    for (const char* const name : {"guided_grammar", "ebnf"})
      if (is_given(name)) add_text(FormKind::grammar, name, fields_, name);
    if (is_object_given("response_format")) add_format("response_format");
    if (is_object_given("grammar")) {
      if (fields_.find("grammar")->is_string())
        add_text(FormKind::grammar, "grammar", fields_, "grammar");
      else
        add_format("grammar");
    }
    if (is_object_given("structured_outputs")) add_structured();
    if (is_given("format")) add_ollama();
    return std::move(form_);
  }

 private:
  static constexpr const char* kNeedsType = "needs a `type`: \"text\", \"json_object\", \"json_schema\" or \"regex\"";

  // An empty schema is a schema: any JSON. Empty lists, and objects in place of texts, are errors of type.
  bool is_given(const char* name) const {
    const Json* const value = fields_.find(name);
    return value && *value != "";
  }
  // An object without members asks for no form.
  bool is_object_given(const char* name) const {
    return is_given(name) && !(fields_.find(name)->is_object() && fields_.find(name)->empty());
  }

  void add(AnswerForm form) {
    if (form.schema.dump().size() > kMostSchemaBytes) refuse_size(form.field, "schema");
    if (form.text.size() > kMostSchemaBytes) refuse_size(form.field, "text");
    if (form_ && !form_->is_same(form)) {
      fields_.refuse(form.field, form.field == form_->field
                                     ? "asks for two forms that differ; keep one of them"
                                     : "asks for another form than `" + form_->field + "`; keep one of them");
    }
    if (!form_) form_ = std::move(form);
  }
  [[noreturn]] void refuse_size(const std::string& field, const std::string& what) const {
    fields_.refuse(field, "has a " + what + " of more than " + std::to_string(kMostSchemaBytes) + " bytes");
  }

  void add_any_object(const std::string& field) { add({.schema = {{"type", "object"}}, .field = field}); }

  // The value as written: the body's own order of keys.
  OrderedJson copy_of(const Path& path) {
    if (!ordered_) ordered_ = body_.ordered();
    const OrderedJson* at = in_parameters_ ? &ordered_->at("parameters") : &*ordered_;
    for (const std::string& key : path) at = &at->at(key);
    return *at;
  }

  // The path leads to a schema, or to {"name", "schema"} around one, as OpenAI writes it. `field` is the path's first
  // name.
  void add_schema(const std::string& field, const Path& path) {
    const std::string& key = path.back();
    const std::string needed = path.size() > 1 ? "needs an object as `" + key + "`, has " : "must be an object, is ";
    OrderedJson value = object_of(field, needed, copy_of(path));
    const auto has = [&](const char* name, bool text) {
      const auto found = value.find(name);
      return found != value.end() && (found->is_object() || (text && found->is_string()));
    };
    const char* const within = has("schema", true) ? "schema" : has("parameters", false) ? "parameters" : nullptr;
    if (within) {
      const Json members(value);
      const RequestFields checked(members, kJsonSchema, unknown_, field);
      value = object_of(field, needed, OrderedJson(value.at(within)));
    } else if (is_wrapper_without_schema(value, path.size() > 1 && key == "json_schema")) {
      fields_.refuse(field, "needs a schema, as `" + key + ".schema`");
    }
    refuse_hidden(field, value);
    add({.schema = std::move(value), .field = field});
  }

  // Schemas ignore members that they do not know: one that stands under a name of somebody else's would ask for
  // nothing.
  void refuse_hidden(const std::string& field, const OrderedJson& schema) const {
    bool knows_any = schema.empty();
    for (const auto& [key, each] : schema.items()) {
      const bool known = is_keyword(key);
      knows_any = knows_any || known;
      if (!known && looks_like_schema(each))
        fields_.refuse(field, "holds a schema as `" + shown(key) + "`, where nobody looks for one; use `schema`");
    }
    if (!knows_any) fields_.refuse(field, "holds no keyword of schemas");
  }

  // As an object, or as a text that holds one.
  OrderedJson object_of(const std::string& field, const std::string& needed, OrderedJson value) const {
    if (value.is_string()) {
      try {
        value = tenon::parse_json<OrderedJson>(value.get<std::string>(), "", kSchemaLimits);
      } catch (const tenon::Error& error) {
        fields_.refuse(field, needed + std::string("a text that is no JSON: ") + error.what());
      }
    }
    if (!value.is_object()) fields_.refuse(field, needed + tenon::Fields::describe(Json(value)));
    return value;
  }

  // {"name": "x", "strict": true} would constrain nothing. Where a wrapper must stand, {} and a description alone are
  // one without its schema; elsewhere they are schemas.
  static bool is_wrapper_without_schema(const OrderedJson& value, bool must_wrap) {
    for (const auto& [key, each] : value.items())
      if (key != "name" && key != "strict" && key != "description" && key != "schema") return false;
    return must_wrap || value.contains("name") || value.contains("strict") || value.contains("schema");
  }

  void add_text(FormKind kind, const std::string& field, const RequestFields& f, const std::string& key) {
    const auto text = f.string(key);
    if (!text || text->empty()) f.refuse(key, "must be a text that is not empty");
    add({.kind = kind, .text = *text, .field = field});
  }

  void add_choice(const std::string& field, const RequestFields& f, const std::string& key) {
    AnswerForm form{.kind = FormKind::choice, .choices = f.strings(key), .field = field};
    if (form.choices.empty()) f.refuse(key, "must hold at least one text");
    std::size_t bytes = 0;
    for (const std::string& each : form.choices) bytes += each.size();
    if (bytes > kMostSchemaBytes) refuse_size(field, "list");
    add(std::move(form));
  }

  // OpenAI's response_format, with the schema under any key that a peer has for it; TGI's grammar.
  void add_format(const std::string& field) {
    const RequestFields f = *fields_.object(field, kFormat, unknown_);
    const Json* const type = f.find("type");
    if (!type || !type->is_string()) fields_.refuse(field, kNeedsType);
    const std::string name = type->get<std::string>();
    if (name == "regex") return add_first_text(FormKind::regex, field, f, {"regex", "pattern", "value"});
    if (name == "grammar") return add_first_text(FormKind::grammar, field, f, {"grammar", "value"});
    if (name != "text" && name != "json_object" && name != "json_schema" && name != "json") {
      fields_.refuse(field, "has the unknown type \"" + shown(name) + "\"");
    }
    for (const char* const key : {"regex", "pattern", "grammar"}) refuse_beside_type(f, field, name, key);
    bool found = false;
    for (const char* const key : {"json_schema", "schema", "value", "response_schema"}) {
      if (name == "text")
        refuse_beside_type(f, field, name, key);
      else if (f.has(key))
        add_schema(field, {field, key});
      found = found || f.has(key);
    }
    if (found || name == "text") return;
    if (name != "json_object")
      fields_.refuse(field, "of type \"" + name + "\" needs a schema, as `json_schema.schema`");
    add_any_object(field);
  }

  void refuse_beside_type(const RequestFields& f, const std::string& field, const std::string& type,
                          const char* key) const {
    if (f.has(key)) fields_.refuse(field, "of type \"" + type + "\" takes no `" + key + "`");
  }

  void add_first_text(FormKind kind, const std::string& field, const RequestFields& f,
                      std::initializer_list<const char*> keys) {
    bool found = false;
    for (const char* const key : keys) {
      if (!f.has(key)) continue;
      add_text(kind, field, f, key);
      found = true;
    }
    if (!found) fields_.refuse(field, std::string("needs a `") + *keys.begin() + "`");
  }

  void add_structured() {
    const RequestFields f = *fields_.object("structured_outputs", kStructured, unknown_);
    const std::string field = "structured_outputs";
    const auto given = [&](const char* name) {
      return f.has(name) && (name == std::string_view("json") || *f.find(name) != "");
    };
    if (given("json")) add_schema(field, {field, "json"});
    if (given("regex")) add_text(FormKind::regex, field, f, "regex");
    if (given("choice")) add_choice(field, f, "choice");
    if (given("grammar")) add_text(FormKind::grammar, field, f, "grammar");
    if (f.boolean("json_object", false)) add_any_object(field);
  }

  // "json" is any JSON to Ollama, which asks for objects; else a schema.
  void add_ollama() {
    const Json& format = *fields_.find("format");
    if (format == "json") return add_any_object("format");
    if (!format.is_object()) fields_.refuse("format", "must be \"json\" or a schema");
    add_schema("format", {"format"});
  }

  const Body& body_;
  const RequestFields& fields_;
  const bool in_parameters_;
  UnknownFields& unknown_;
  std::optional<OrderedJson> ordered_;
  std::optional<AnswerForm> form_;
};

}  // namespace

std::optional<AnswerForm> form_of(const Body& body, const RequestFields& fields, bool in_parameters,
                                  UnknownFields& unknown) {
  return FormReader(body, fields, in_parameters, unknown).read();
}

}  // namespace serve
