#include "serve/api/request_fields.h"

#include <cmath>

#include "serve/api/api_error.h"
#include "tenon/io/fields.h"

namespace serve {

using tenon::Json;

namespace {

// An empty text, list or object beside a number or a boolean is an error of type, as it is alone.
bool is_misplaced(const Json& value, const Json& other) {
  return !value.is_null() && asks_nothing(value) && (other.is_number() || other.is_boolean());
}

}  // namespace

RequestFields::RequestFields(const Json& value, std::string path) : object_(&value), path_(std::move(path)) {
  if (value.is_object()) return;
  const std::string name = path_.empty() ? "the body" : "`" + path_ + "`";
  throw ApiError(ApiError::Kind::invalid, name + " must be an object, is " + tenon::Fields::describe(value), path_);
}

RequestFields::RequestFields(const Json& value, Place place, UnknownFields& unknown, std::string path)
    : RequestFields(value, std::move(path)) {
  for (const auto& [key, each] : value.items()) check(key, each, place, unknown);
}

void RequestFields::check(const std::string& key, const Json& value, Place place, UnknownFields& unknown) {
  const std::string path = path_.empty() ? key : path_ + "." + key;
  const auto refuse_here = [&path](const std::string& what) {
    throw ApiError(ApiError::Kind::invalid, "`" + shown(path) + "` " + what, shown(path));
  };
  const Field* const field = find_field(key, place);
  if (!field) {
    const bool writes = (place & kNaming) != 0;
    const bool elsewhere =
        writes && (find_field(key, kCompletions) || find_field(key, kChat) || find_field(key, kParameters));
    if (value.is_null() || (elsewhere && (value == false || asks_nothing(value)))) return;
    if (place == kGenerate && find_field(key, kParameters)) refuse_here("goes into `parameters` on this route");
    if (elsewhere) refuse_here("is a field of other routes, not of this one");
    if (!unknown.lenient)
      refuse_here("is not a field that this server knows here; with --lenient it would be left out");
    unknown.ignored.push_back(path);
    return;
  }
  if (field->kind == FieldClass::refused && !is_neutral(*field, value)) {
    refuse_here("is not supported; " + std::string(field->advice));
  }
  if (field->kind != FieldClass::honoured) return;
  const std::string_view name = field->same_as.empty() ? field->name : field->same_as;
  const auto [found, first] = spelled_.emplace(name, key);
  if (first || value.is_null()) return;
  const Json& other = object_->at(found->second);
  if (is_misplaced(value, other) || is_misplaced(other, value))
    refuse_here("is another name of `" + found->second + "`, and the two differ; keep one of them");
  if (asks_nothing(value) && !other.is_null()) return;
  if (asks_nothing(other)) {
    found->second = key;
  } else if (other != value) {
    refuse_here("is another name of `" + found->second + "`, and the two differ; keep one of them");
  }
}

std::string RequestFields::name_of(const std::string& key) const {
  const auto found = spelled_.find(key);
  return found == spelled_.end() ? key : found->second;
}

const Json* RequestFields::find(const std::string& key) const {
  const auto found = object_->find(name_of(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool RequestFields::boolean(const std::string& key, bool fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse_type(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::int64_t> RequestFields::integer(const std::string& key, std::int64_t low, std::int64_t high,
                                                   const std::string& needed) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  return check_integer(key, *value, low, high, needed);
}

std::int64_t RequestFields::check_integer(const std::string& key, const Json& value, std::int64_t low,
                                          std::int64_t high, const std::string& needed) const {
  if (!value.is_number_integer()) refuse_type(key, "an integer", value);
  // The getters of nlohmann convert without a check, so compare in the type that the parser chose.
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= kMost;
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (fits && number >= low && number <= high) return number;
  if (!needed.empty()) refuse(key, needed);
  const std::string range = high == std::numeric_limits<int>::max()
                                ? "an integer of at least " + std::to_string(low)
                                : "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  refuse_type(key, range.c_str(), value);
}

std::optional<std::uint64_t> RequestFields::seed(const std::string& key, bool negative) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_number_unsigned()) return value->get<std::uint64_t>();
  if (*value == -1) return std::nullopt;
  if (negative && value->is_number_integer()) return static_cast<std::uint64_t>(value->get<std::int64_t>());
  refuse_type(key, negative ? "an integer of 64 bits" : "an integer from 0 to 2^64 - 1", *value);
}

float RequestFields::number(const std::string& key, float fallback, bool (*holds)(double),
                            const std::string& needed) const {
  const Json* value = find(key);
  return value ? check_number(key, *value, holds, needed) : fallback;
}

float RequestFields::check_number(const std::string& key, const Json& value, bool (*holds)(double),
                                  const std::string& needed) const {
  if (!value.is_number()) refuse_type(key, "a number", value);
  const double number = value.get<double>();
  if (!(std::abs(number) <= static_cast<double>(std::numeric_limits<float>::max())) || !holds(number))
    refuse(key, needed);
  const auto rounded = static_cast<float>(number);
  if (!holds(static_cast<double>(rounded))) refuse(key, needed);  // 1e-50 is 0
  return rounded;
}

std::optional<std::string> RequestFields::string(const std::string& key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse_type(key, "a string", *value);
  return value->get<std::string>();
}

std::vector<std::string> RequestFields::strings(const std::string& key) const {
  std::vector<std::string> out;
  const Json* value = find(key);
  if (!value) return out;
  if (!value->is_array()) refuse_type(key, "a list of strings", *value);
  for (const Json& each : *value) {
    if (!each.is_string()) refuse(key, "must be a list of strings, but holds " + tenon::Fields::describe(each));
    out.push_back(each.get<std::string>());
  }
  return out;
}

std::optional<RequestFields> RequestFields::object(const std::string& key, Place place, UnknownFields& unknown) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  return RequestFields(*value, place, unknown, path_of(key));
}

const Json* RequestFields::list(const std::string& key) const {
  const Json* value = find(key);
  if (value && !value->is_array()) refuse_type(key, "a list", *value);
  return value;
}

void RequestFields::refuse(const std::string& key, const std::string& what) const {
  const std::string path = shown(path_of(key));
  throw ApiError(ApiError::Kind::invalid, "`" + path + "` " + what, path);
}

void RequestFields::refuse_type(const std::string& key, const char* needed, const Json& value) const {
  refuse(key, std::string("must be ") + needed + ", is " + tenon::Fields::describe(value));
}

}  // namespace serve
