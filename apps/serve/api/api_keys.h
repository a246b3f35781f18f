// The keys that open a server, kept as SHA-256 hashes only, and what each of them may do.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/io/sha256.h"

namespace serve {

// Roles of a key, as bits of a set: each opens routes.
enum Role : unsigned {
  kServeRole = 1U << 0,    // generation, embeddings, classes, ranks and tokens
  kAdminRole = 1U << 1,    // loading and unloading of adapters
  kMetricsRole = 1U << 2,  // what tells about the load
  kEveryRole = kServeRole | kAdminRole | kMetricsRole,
};

// The rights and limits of a key. A limit of 0 is none.
struct KeyTerms {
  std::string name;  // for the log and the metrics. Keys of one name share limits and usage
  unsigned roles = kEveryRole;
  std::int64_t requests_a_minute = 0, tokens_a_minute = 0;
  std::int64_t requests_at_once = 0, tokens_at_once = 0;  // as those of Admission::Limits

  bool operator==(const KeyTerms&) const = default;
};

// A key is one or more of A-Z a-z 0-9 . _ ~ + / = -, which a header carries as they stand: no % (it may be decoded on
// its way), no space. No error says a key.
class ApiKeys {
 public:
  ApiKeys() = default;  // none: no request has a good key

  // tenon::Error invalid_request names a wrong key by its place in the list.
  explicit ApiKeys(const std::vector<std::string>& keys);

  // A line is a key and then its terms, as in `KEY name=team-a roles=serve,metrics requests-a-minute=60`. Empty
  // lines and lines that begin with # are left out. tenon::Error where the file cannot be read, has no key at all, or
  // has a line that is wrong: it names the line.
  void add_file(const std::filesystem::path& file);

  // Whether there are any; without keys nothing is guarded.
  bool required() const { return !hashes_.empty(); }
  std::size_t count() const { return hashes_.size(); }

  // The values of the headers Authorization ("Bearer KEY") and X-Api-Key, empty where absent: one good key is enough.
  // The time depends on the lengths of both values and on the number of keys, not on the keys or on which one it is.
  bool accepts(std::string_view authorization, std::string_view x_api_key) const {
    return number(authorization, x_api_key) != 0;
  }
  // Which key it is, from 1 in the order in which they were given; 0: none.
  int number(std::string_view authorization, std::string_view x_api_key) const;
  const KeyTerms& terms(int number) const { return terms_.at(static_cast<std::size_t>(number) - 1); }

 private:
  void add(std::string_view line, const std::string& where);
  int number(std::string_view key) const;

  std::vector<tenon::Sha256::Digest> hashes_;
  std::vector<KeyTerms> terms_;                                     // of the hash at the same place
  std::unordered_map<std::string, std::size_t> by_hash_, by_name_;  // the first place of each
};

}  // namespace serve
