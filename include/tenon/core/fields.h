// Typed, checked access to the members of a JSON object: config files and request bodies.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/json.h"

namespace tenon {

// A view of a JSON object, which must outlive it. Every refusal names the file and the field.
// Nothing is converted: a number as a string, 12.0 for an integer and 0 for false are refused. A getter without a
// fallback needs the member; with one, an absent member and null give the fallback.
class Fields {
 public:
  // Error where `value` is no object. `path` is where it stands in the file, empty for the whole document.
  Fields(const Json& value, std::string file, std::string path = {}, Error::Kind refusal = Error::Kind::invalid_file)
      : object_(&value), file_(std::move(file)), path_(std::move(path)), refusal_(refusal) {
    if (!value.is_object())
      throw Error(refusal_, path_.empty() ? file_ : file_ + ": " + path_,
                  "must be a JSON object, is " + describe(value));
  }

  const std::string& file() const noexcept { return file_; }
  const Json& json() const noexcept { return *object_; }

  // Present, and not null.
  bool has(const std::string& key) const { return member(key) != nullptr; }

  // An integer in [low, high].
  int integer(const std::string& key, int low, int high) const { return check_integer(key, needed(key), low, high); }
  int integer(const std::string& key, int low, int high, int fallback) const {
    return has(key) ? integer(key, low, high) : fallback;
  }
  // An integer of at least 1.
  int positive_int(const std::string& key) const { return integer(key, 1, kMaxInt); }
  int positive_int(const std::string& key, int fallback) const { return integer(key, 1, kMaxInt, fallback); }
  std::optional<int> optional_positive_int(const std::string& key) const {
    return has(key) ? std::optional(positive_int(key)) : std::nullopt;
  }

  // A finite number in [low, high]; an integer will do.
  double number(const std::string& key, double low, double high) const {
    const Json& value = needed(key);
    if (!value.is_number()) refuse(key, "must be a number, is " + describe(value));
    const double number = value.get<double>();
    if (!(number >= low && number <= high))
      refuse(key, "must be a number from " + shortest(low) + " to " + shortest(high) + ", is " + describe(value));
    return number;
  }
  double number(const std::string& key, double low, double high, double fallback) const {
    return has(key) ? number(key, low, high) : fallback;
  }
  // A number above zero.
  double positive(const std::string& key) const {
    const Json& value = needed(key);
    if (!value.is_number() || !(value.get<double>() > 0))
      refuse(key, "must be a number above 0, is " + describe(value));
    return value.get<double>();
  }
  double positive(const std::string& key, double fallback) const { return has(key) ? positive(key) : fallback; }

  bool boolean(const std::string& key) const {
    const Json& value = needed(key);
    if (!value.is_boolean()) refuse(key, "must be true or false, is " + describe(value));
    return value.get<bool>();
  }
  bool boolean(const std::string& key, bool fallback) const { return has(key) ? boolean(key) : fallback; }

  std::string string(const std::string& key) const {
    const Json& value = needed(key);
    if (!value.is_string()) refuse(key, "must be a string, is " + describe(value));
    return value.get<std::string>();
  }
  std::string string(const std::string& key, std::string_view fallback) const {
    return has(key) ? string(key) : std::string(fallback);
  }
  // A string that is one of `choices`; another one is refused as unsupported, and the message lists what is supported.
  std::string choice(const std::string& key, std::initializer_list<std::string_view> choices) const {
    std::string value = string(key);
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
    std::string list;
    for (const auto& each : choices) list += (list.empty() ? "" : ", ") + std::string(each);
    throw Error(Error::Kind::unsupported, where(key),
                "\"" + printable(value) + "\" is not supported; supported: " + list);
  }
  std::string choice(const std::string& key, std::initializer_list<std::string_view> choices,
                     std::string_view fallback) const {
    return has(key) ? choice(key, choices) : std::string(fallback);
  }

  // A list of strings, which may be empty.
  std::vector<std::string> strings(const std::string& key) const {
    const Json& value = needed(key);
    if (!value.is_array()) refuse(key, "must be a list of strings, is " + describe(value));
    std::vector<std::string> out;
    for (const Json& each : value) {
      if (!each.is_string()) refuse(key, "must be a list of strings, but holds " + describe(each));
      out.push_back(each.get<std::string>());
    }
    return out;
  }

  // The object under `key`, with its own path.
  Fields object(const std::string& key) const { return Fields(needed(key), file_, path_of(key), refusal_); }
  // The value under `key`, for what has more than one form. Error where it is absent; it may be null.
  const Json& value(const std::string& key) const { return needed(key); }

  std::string where(const std::string& key) const { return file_ + ": " + printable(path_of(key)); }
  // Throws: the field breaks a rule that its type alone does not tell.
  [[noreturn]] void refuse(const std::string& key, std::string_view what) const {
    throw Error(refusal_, where(key), what);
  }

  // An integer in [low, high], where `value` is what stands under `key` or an element of the list there.
  int check_integer(const std::string& key, const Json& value, int low, int high) const {
    // The getters of nlohmann convert without a check, so compare in the type that the parser chose.
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

  // "the string "64"", "12.5", "null", "a list": what a message says was found.
  static std::string describe(const Json& value) {
    if (value.is_string()) return "the string \"" + printable(value.get_ref<const std::string&>(), 60) + "\"";
    if (value.is_array()) return "a list";
    if (value.is_object()) return "an object";
    return value.dump();
  }

 private:
  static constexpr int kMaxInt = std::numeric_limits<int>::max();

  const Json* member(const std::string& key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }
  const Json& needed(const std::string& key) const {
    const auto found = object_->find(key);
    if (found == object_->end()) refuse(key, "is missing");
    return *found;
  }
  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  static std::string shortest(double value) {
    if (std::isinf(value)) return value < 0 ? "-infinity" : "infinity";
    return Json(value).dump();
  }

  const Json* object_;
  std::string file_, path_;
  Error::Kind refusal_;
};

}  // namespace tenon
