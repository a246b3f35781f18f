// Objects of tokenizer.json that know their path and refuse unknown members.
#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"

namespace tenon::detail {

// An object of a JSON document, with its path for errors.
class JsonNode {
 public:
  JsonNode(const Json& value, std::string file, std::string path)
      : fields_(value, std::move(file), path), path_(std::move(path)) {}

  const Fields& fields() const { return fields_; }
  const Fields* operator->() const { return &fields_; }

  // Refuses all other members: an unknown one might change ids and would be ignored.
  void only(std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : fields_.json().items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        unsupported(key, "is unknown, and unknown members are refused");
  }

  JsonNode object(const std::string& key) const { return {fields_.value(key), fields_.file(), path_of(key)}; }
  // The elements of a list of objects.
  std::vector<JsonNode> objects(const std::string& key) const {
    const Json& list = fields_.value(key);
    if (!list.is_array()) fields_.refuse(key, "must be a list, is " + Fields::describe(list));
    std::vector<JsonNode> out;
    for (std::size_t i = 0; i < list.size(); ++i)
      out.emplace_back(list[i], fields_.file(), path_of(key) + "[" + std::to_string(i) + "]");
    return out;
  }
  // The steps under `key`, in order: none for null, the parts of a Sequence (listed under `parts`), or the one step.
  std::vector<JsonNode> steps(const std::string& key, const std::string& parts) const {
    std::vector<JsonNode> out;
    if (fields_.has(key)) object(key).flatten(parts, out);
    return out;
  }

  std::string type() const { return fields_.string("type"); }
  [[noreturn]] void unsupported(const std::string& key, std::string_view what) const {
    throw Error(Error::Kind::unsupported, fields_.where(key), what);
  }
  [[noreturn]] void unsupported_type(std::string_view supported) const {
    unsupported("type",
                "\"" + printable(type(), 60) + "\" is not supported here; supported: " + std::string(supported));
  }

 private:
  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  void flatten(const std::string& parts, std::vector<JsonNode>& out) const {
    if (type() != "Sequence") return out.push_back(*this);
    only({"type", parts});
    for (const JsonNode& part : objects(parts)) part.flatten(parts, out);
  }

  Fields fields_;
  std::string path_;
};

}  // namespace tenon::detail
