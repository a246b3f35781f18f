// Typed, checked access to the members of a JSON object: config files and request bodies.
#pragma once
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/io/json_fwd.h"

namespace tenon {

// A view of a JSON object, which must outlive it. Every refusal names the file and the field.
// Nothing is converted: a number as a string, 12.0 for an integer and 0 for false are refused. A getter without a
// fallback needs the member; with one, an absent member and null give the fallback.
class Fields {
 public:
  // Error where `value` is no object. `path` is where it stands in the file, empty for the whole document.
  Fields(const Json& value, std::string file, std::string path = {}, Error::Kind refusal = Error::Kind::invalid_file);

  const std::string& file() const noexcept { return file_; }
  const Json& json() const noexcept { return *object_; }

  // Present, and not null.
  bool has(const std::string& key) const { return member(key) != nullptr; }

  // An integer in [low, high].
  int integer(const std::string& key, int low, int high) const { return check_integer(key, needed(key), low, high); }
  int integer(const std::string& key, int low, int high, int fallback) const;
  // An integer of at least 1.
  int positive_int(const std::string& key) const { return integer(key, 1, kMaxInt); }
  int positive_int(const std::string& key, int fallback) const { return integer(key, 1, kMaxInt, fallback); }
  std::optional<int> optional_positive_int(const std::string& key) const;

  // A finite number in [low, high]; an integer will do.
  double number(const std::string& key, double low, double high) const;
  double number(const std::string& key, double low, double high, double fallback) const;
  // A number above zero.
  double positive(const std::string& key) const;
  double positive(const std::string& key, double fallback) const { return has(key) ? positive(key) : fallback; }

  bool boolean(const std::string& key) const;
  bool boolean(const std::string& key, bool fallback) const { return has(key) ? boolean(key) : fallback; }

  std::string string(const std::string& key) const;
  std::string string(const std::string& key, std::string_view fallback) const;
  // A string that is one of `choices`; another one is refused as unsupported, and the message lists what is supported.
  std::string choice(const std::string& key, std::initializer_list<std::string_view> choices) const;
  std::string choice(const std::string& key, std::initializer_list<std::string_view> choices,
                     std::string_view fallback) const;

  // A list of strings, which may be empty.
  std::vector<std::string> strings(const std::string& key) const;

  // The object under `key`, with its own path.
  Fields object(const std::string& key) const { return Fields(needed(key), file_, path_of(key), refusal_); }
  // The value under `key`, for what has more than one form. Error where it is absent; it may be null.
  const Json& value(const std::string& key) const { return needed(key); }

  std::string where(const std::string& key) const { return file_ + ": " + printable(path_of(key)); }
  // Throws: the field breaks a rule that its type alone does not tell.
  [[noreturn]] void refuse(const std::string& key, std::string_view what) const;

  // An integer in [low, high], where `value` is what stands under `key` or an element of the list there.
  int check_integer(const std::string& key, const Json& value, int low, int high) const;

  // "the string "64"", "12.5", "null", "a list": what a message says was found.
  static std::string describe(const Json& value);

 private:
  static constexpr int kMaxInt = std::numeric_limits<int>::max();

  const Json* member(const std::string& key) const;
  const Json& needed(const std::string& key) const;
  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  static std::string shortest(double value);

  const Json* object_;
  std::string file_, path_;
  Error::Kind refusal_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/fields-inl.h"
#endif
