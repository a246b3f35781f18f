// Typed, checked access to the members of a JSON object. Config files and request bodies are read through it.
#pragma once
#include <initializer_list>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/io/json_fwd.h"

namespace tenon {

/// The members of a document that were read, so that the others can be listed. Thread-safe.
class FieldLog {
 public:
  /// Notes that a member was read or looked for. `path`: from the root of the document.
  void note(const std::string& path);
  /// Names of the members of `document` that were not read, sorted.
  std::vector<std::string> unread(const Json& document) const;
  /// Their paths. An object that was read in part is listed as its members that were not read.
  std::vector<std::string> unread_paths(const Json& document) const;

 private:
  void add_unread(const Json& object, const std::string& path, std::vector<std::string>& out) const;

  mutable std::mutex mutex_;
  std::set<std::string> read_;  // paths
};

/// A view of a JSON object. The object must outlive the view. Every error names the file and the field.
/// Values are never converted: a number given as a string, 12.0 for an integer and 0 for false are errors.
/// A getter without a fallback requires the member. A getter with one returns it where the member is absent or null.
/// Errors have the kind `refusal` of the constructor, unless a getter says otherwise.
class Fields {
 public:
  /// Error where `value` is not an object. `path`: dotted path of `value` in the file; empty for the whole document.
  /// `log`, which may be null, notes what is read from this view and from views made of it. It must outlive them.
  Fields(const Json& value, std::string file, std::string path = {}, Error::Kind refusal = Error::Kind::invalid_file,
         FieldLog* log = nullptr);

  const std::string& file() const noexcept { return file_; }  ///< names the file in errors
  const Json& json() const noexcept { return *object_; }      ///< the object itself

  /// Whether the member is present and not null.
  bool has(const std::string& key) const { return member(key) != nullptr; }

  /// An integer in [low, high].
  int integer(const std::string& key, int low, int high) const { return check_integer(key, required(key), low, high); }
  int integer(const std::string& key, int low, int high, int fallback) const;
  /// An integer of at least 1.
  int positive_int(const std::string& key) const { return integer(key, 1, kMaxInt); }
  int positive_int(const std::string& key, int fallback) const { return integer(key, 1, kMaxInt, fallback); }
  /// As positive_int; empty where the member is absent or null.
  std::optional<int> optional_positive_int(const std::string& key) const;

  /// A finite number in [low, high]. Integers are accepted.
  double number(const std::string& key, double low, double high) const;
  double number(const std::string& key, double low, double high, double fallback) const;
  /// A number above 0.
  double positive(const std::string& key) const;
  double positive(const std::string& key, double fallback) const { return has(key) ? positive(key) : fallback; }

  /// true or false.
  bool boolean(const std::string& key) const;
  bool boolean(const std::string& key, bool fallback) const { return has(key) ? boolean(key) : fallback; }
  /// true or false; null is false, as in Python's `if`. The fallback where the member is absent.
  bool flag(const std::string& key, bool fallback) const;

  /// A string, which may be empty.
  std::string string(const std::string& key) const;
  std::string string(const std::string& key, std::string_view fallback) const;
  /// A string that is one of `choices`. Any other string is an error of kind unsupported, which lists the choices.
  std::string choice(const std::string& key, std::initializer_list<std::string_view> choices) const;
  std::string choice(const std::string& key, std::initializer_list<std::string_view> choices,
                     std::string_view fallback) const;

  /// A list of strings, which may be empty.
  std::vector<std::string> strings(const std::string& key) const;
  /// A list of integers in [low, high], which may be empty.
  std::vector<int> integers(const std::string& key, int low, int high) const;

  /// The object under `key`. Its errors name the path from the root of the document.
  Fields object(const std::string& key) const { return Fields(required(key), file_, path_of(key), refusal_, log_); }
  /// The value under `key`, for members that have several forms. It may be null. Error where the member is absent.
  const Json& value(const std::string& key) const { return required(key); }

  /// "config.json: rope_scaling.type": the file and the path of the member, for error messages.
  std::string where(const std::string& key) const { return file_ + ": " + printable(path_of(key)); }
  /// Throws an error of kind `refusal` at `key`: the value breaks a rule that its type does not express.
  [[noreturn]] void refuse(const std::string& key, std::string_view what) const;

  /// An integer in [low, high]. `value`: the member under `key`, or an element of the list there.
  int check_integer(const std::string& key, const Json& value, int low, int high) const;

  /// The value for an error message: "the string "64"", "12.5", "null", "a list".
  static std::string describe(const Json& value);

 private:
  static constexpr int kMaxInt = std::numeric_limits<int>::max();

  const Json* member(const std::string& key) const;
  const Json& required(const std::string& key) const;
  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  static std::string shortest(double value);

  const Json* object_;
  std::string file_, path_;
  Error::Kind refusal_;
  FieldLog* log_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/fields-inl.h"
#endif
