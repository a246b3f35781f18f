#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"

namespace tenon {

TENON_INLINE void FieldLog::note(const std::string& path) {
  const std::lock_guard lock(mutex_);
  read_.insert(path);
}

TENON_INLINE std::vector<std::string> FieldLog::unread(const Json& document) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [key, value] : document.items())
    if (!read_.contains(key)) out.push_back(key);
  std::sort(out.begin(), out.end());
  return out;
}

TENON_INLINE std::vector<std::string> FieldLog::unread_paths(const Json& document) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  add_unread(document, "", out);
  std::sort(out.begin(), out.end());
  return out;
}

TENON_INLINE void FieldLog::add_unread(const Json& object, const std::string& path,
                                       std::vector<std::string>& out) const {
  for (const auto& [key, value] : object.items()) {
    const std::string member = path.empty() ? key : path + "." + key, prefix = member + ".";
    const auto below = read_.lower_bound(prefix);
    if (!read_.contains(member))
      out.push_back(member);
    else if (value.is_object() && below != read_.end() && below->starts_with(prefix))
      add_unread(value, member, out);
  }
}

TENON_INLINE Fields::Fields(const Json& value, std::string file, std::string path, Error::Kind refusal, FieldLog* log)
    : object_(&value), file_(std::move(file)), path_(std::move(path)), refusal_(refusal), log_(log) {
  if (!value.is_object())
    throw Error(refusal_, path_.empty() ? file_ : file_ + ": " + path_, "must be a JSON object, is " + describe(value));
}

TENON_INLINE int Fields::integer(const std::string& key, int low, int high, int fallback) const {
  return has(key) ? integer(key, low, high) : fallback;
}

TENON_INLINE std::optional<int> Fields::optional_positive_int(const std::string& key) const {
  return has(key) ? std::optional(positive_int(key)) : std::nullopt;
}

TENON_INLINE double Fields::number(const std::string& key, double low, double high) const {
  const Json& value = required(key);
  if (!value.is_number()) refuse(key, "must be a number, is " + describe(value));
  const double number = value.get<double>();
  if (!(number >= low && number <= high))
    refuse(key, "must be a number from " + shortest(low) + " to " + shortest(high) + ", is " + describe(value));
  return number;
}

TENON_INLINE double Fields::number(const std::string& key, double low, double high, double fallback) const {
  return has(key) ? number(key, low, high) : fallback;
}

TENON_INLINE double Fields::positive(const std::string& key) const {
  const Json& value = required(key);
  if (!value.is_number() || !(value.get<double>() > 0)) refuse(key, "must be a number above 0, is " + describe(value));
  return value.get<double>();
}

TENON_INLINE bool Fields::boolean(const std::string& key) const {
  const Json& value = required(key);
  if (!value.is_boolean()) refuse(key, "must be true or false, is " + describe(value));
  return value.get<bool>();
}

TENON_INLINE bool Fields::flag(const std::string& key, bool fallback) const {
  if (has(key)) return boolean(key);
  return !json().contains(key) && fallback;
}

TENON_INLINE std::string Fields::string(const std::string& key) const {
  const Json& value = required(key);
  if (!value.is_string()) refuse(key, "must be a string, is " + describe(value));
  return value.get<std::string>();
}

TENON_INLINE std::string Fields::string(const std::string& key, std::string_view fallback) const {
  return has(key) ? string(key) : std::string(fallback);
}

TENON_INLINE std::string Fields::choice(const std::string& key, std::initializer_list<std::string_view> choices) const {
  std::string value = string(key);
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  std::string list;
  for (const auto& each : choices) list += (list.empty() ? "" : ", ") + std::string(each);
  throw Error(Error::Kind::unsupported, where(key),
              "\"" + printable(value) + "\" is not supported; supported: " + list);
}

TENON_INLINE std::string Fields::choice(const std::string& key, std::initializer_list<std::string_view> choices,
                                        std::string_view fallback) const {
  return has(key) ? choice(key, choices) : std::string(fallback);
}

TENON_INLINE std::vector<std::string> Fields::strings(const std::string& key) const {
  const Json& value = required(key);
  if (!value.is_array()) refuse(key, "must be a list of strings, is " + describe(value));
  std::vector<std::string> out;
  for (const Json& each : value) {
    if (!each.is_string()) refuse(key, "must be a list of strings, but holds " + describe(each));
    out.push_back(each.get<std::string>());
  }
  return out;
}

TENON_INLINE std::vector<int> Fields::integers(const std::string& key, int low, int high) const {
  const Json& value = required(key);
  if (!value.is_array()) refuse(key, "must be a list of integers, is " + describe(value));
  std::vector<int> out;
  for (const Json& each : value) out.push_back(check_integer(key, each, low, high));
  return out;
}

TENON_INLINE void Fields::refuse(const std::string& key, std::string_view what) const {
  throw Error(refusal_, where(key), what);
}

TENON_INLINE int Fields::check_integer(const std::string& key, const Json& value, int low, int high) const {
  // nlohmann's getters convert without a check, so the comparison is done in the type that the parser chose.
  const bool small =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= kMaxInt);
  const std::int64_t number = small ? value.get<std::int64_t>() : 0;
  if (!small || number < low || number > high) {
    const std::string range = high == kMaxInt ? "of at least " + std::to_string(low)
                                              : "from " + std::to_string(low) + " to " + std::to_string(high);
    refuse(key, "must be an integer " + range + ", is " + describe(value));
  }
  return static_cast<int>(number);
}

TENON_INLINE std::string Fields::describe(const Json& value) {
  if (value.is_string()) return "the string \"" + printable(value.get_ref<const std::string&>(), 60) + "\"";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.dump();
}

TENON_INLINE const Json* Fields::member(const std::string& key) const {
  if (log_) log_->note(path_of(key));
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

TENON_INLINE const Json& Fields::required(const std::string& key) const {
  if (log_) log_->note(path_of(key));
  const auto found = object_->find(key);
  if (found == object_->end()) refuse(key, "is missing");
  return *found;
}

TENON_INLINE std::string Fields::shortest(double value) {
  if (std::isinf(value)) return value < 0 ? "-infinity" : "infinity";
  return Json(value).dump();
}

}  // namespace tenon
