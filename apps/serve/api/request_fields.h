// Typed, checked access to the members of a request's object.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/field_table.h"
#include "tenon/io/json.h"

namespace serve {

// Members of requests that the field table does not know: refused, or with `lenient` listed here and left out.
struct UnknownFields {
  bool lenient = false;
  std::vector<std::string> ignored = {};  // with the path of each
};

// A view of a JSON object, which must outlive it: as tenon::Fields, but null is absent everywhere, and a refusal is an
// ApiError (invalid) that calls the field what the client calls it. Nothing is converted: 12.0 is no integer.
class RequestFields {
 public:
  // `path`: where the object stands in the body, empty for what needs no mention.
  explicit RequestFields(const tenon::Json& value, std::string path = {});
  // The members are checked against the field table: what it refuses or does not know is refused. From here on every
  // spelling of a field is found under the name that the table's `same_as` gives; two spellings with different values
  // are refused.
  RequestFields(const tenon::Json& value, Place place, UnknownFields& unknown, std::string path = {});

  const tenon::Json* find(const std::string& key) const;  // null: absent, or null
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // The spelling that the client chose of a field.
  std::string name_of(const std::string& key) const;

  bool boolean(const std::string& key, bool fallback) const;
  // An integer in [low, high]; `needed` is what a refusal says otherwise, "must be an integer from ..." where empty.
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t low, std::int64_t high,
                                      const std::string& needed = {}) const;
  int integer_or(const std::string& key, int fallback, int low, int high = std::numeric_limits<int>::max()) const {
    return static_cast<int>(integer(key, low, high).value_or(fallback));
  }
  // 0 .. 2^64-1; with `negative` -2^63 .. -2 too, as their two's complement. -1 is none: so vLLM and llama.cpp write
  // it.
  std::optional<std::uint64_t> seed(const std::string& key, bool negative) const;
  // A number that float32 holds, of which `holds` is true; or the refusal says `needed`.
  float number(const std::string& key, float fallback, bool (*holds)(double), const std::string& needed) const;
  std::optional<std::string> string(const std::string& key) const;
  // Empty where absent.
  std::vector<std::string> strings(const std::string& key) const;
  std::optional<RequestFields> object(const std::string& key, Place place, UnknownFields& unknown) const;
  // The list under a key; null: absent.
  const tenon::Json* list(const std::string& key) const;

  // For elements of lists; `key` is how messages call it ("prompt[3]").
  std::int64_t check_integer(const std::string& key, const tenon::Json& value, std::int64_t low, std::int64_t high,
                             const std::string& needed = {}) const;
  float check_number(const std::string& key, const tenon::Json& value, bool (*holds)(double),
                     const std::string& needed) const;

  // "`stop` must be a list, is 5"
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const;
  [[noreturn]] void refuse_type(const std::string& key, const char* needed, const tenon::Json& value) const;

 private:
  std::string path_of(const std::string& key) const {
    return path_.empty() ? name_of(key) : path_ + "." + name_of(key);
  }
  void check(const std::string& key, const tenon::Json& value, Place place, UnknownFields& unknown);

  const tenon::Json* object_;
  std::string path_;
  std::map<std::string, std::string, std::less<>> spelled_;  // by the table's name, what the client calls it
};

}  // namespace serve
