// The keys that open a server, kept as SHA-256 hashes only.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/io/sha256.h"

namespace serve {

// A key is one or more of A-Z a-z 0-9 . _ ~ + / = -, which a header carries as they stand: no % (it may be decoded on
// its way), no space. Nothing that is thrown here says a key.
class ApiKeys {
 public:
  ApiKeys() = default;  // none: no request has a good key

  // tenon::Error, invalid_request, which says which of the list is wrong.
  explicit ApiKeys(const std::vector<std::string>& keys);

  // A key a line; empty lines and lines that begin with # are left out. tenon::Error where the file cannot be read, has
  // no key at all, or has a line that is none: it names the line.
  void add_file(const std::filesystem::path& file);

  // Whether there are any; without keys nothing is guarded.
  bool required() const { return !hashes_.empty(); }
  std::size_t count() const { return hashes_.size(); }

  // The values of the headers Authorization ("Bearer KEY") and X-Api-Key, empty where absent: one good key is enough.
  // The time depends on the length of what came alone: not on the keys, nor on which of them it is.
  bool accepts(std::string_view authorization, std::string_view x_api_key) const {
    return number(authorization, x_api_key) != 0;
  }
  // Which key it is, from 1 in the order in which they were given; 0: none.
  int number(std::string_view authorization, std::string_view x_api_key) const;

 private:
  void add(std::string_view key, const std::string& where);
  int number(std::string_view key) const;

  std::vector<tenon::Sha256::Digest> hashes_;
};

}  // namespace serve
