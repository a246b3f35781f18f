// Tokens by spelling and by id, used while the files are read.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/views.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/merges.h"

namespace tenon::detail {

inline constexpr std::uint64_t kMaxTokenizerFile = 256u << 20;  // bytes
// Tables are as long as the highest id. The bound keeps one entry of a small file from allocating gigabytes.
inline constexpr int kMaxVocabulary = 1 << 22;

// The tokens read so far.
class Spellings {
 public:
  // Ids outside [0, limit) are refused.
  explicit Spellings(int limit) : limit_(std::min(limit, kMaxVocabulary)) {}

  // Adds all members of `fields`, spelling to id.
  void add_all(const Fields& fields) {
    for (const auto& [spelling, id] : fields.json().items())
      add(fields, spelling, spelling, fields.check_integer(spelling, id, 0, limit_ - 1));
  }
  // Adds a token. `key`: the member of `fields` named in errors.
  void add(const Fields& fields, const std::string& key, const std::string& spelling, int id) {
    if (spelling.empty()) fields.refuse(key, "a token is empty (\"\")");
    if (by_id_.size() <= static_cast<std::size_t>(id)) by_id_.resize(static_cast<std::size_t>(id) + 1);
    if (const std::string* other = by_id_[static_cast<std::size_t>(id)])
      fields.refuse(key, "has the same id as \"" + printable(*other, 60) + "\": duplicate id " + std::to_string(id));
    const auto [place, fresh] = ids_.emplace(spelling, id);
    if (!fresh) fields.refuse(key, "is in the vocabulary already, with id " + std::to_string(place->second));
    by_id_[static_cast<std::size_t>(id)] = &place->first;
  }

  // Registers a special token whose id has no row in the model. It never occurs in text.
  void leave_out(const std::string& spelling) { left_out_.insert(spelling); }
  bool left_out(const std::string& spelling) const { return left_out_.contains(spelling); }

  std::optional<TokenId> find(const std::string& spelling) const {
    const auto found = ids_.find(spelling);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  bool is_taken(TokenId id) const {
    return static_cast<std::size_t>(id) < by_id_.size() && by_id_[static_cast<std::size_t>(id)] != nullptr;
  }
  // [highest id + 1]; null: no token has this id.
  const std::vector<const std::string*>& by_id() const { return by_id_; }
  int size() const { return static_cast<int>(ids_.size()); }  // number of tokens
  int limit() const { return limit_; }

 private:
  int limit_;
  std::unordered_map<std::string, TokenId> ids_;
  std::vector<const std::string*> by_id_;
  std::unordered_set<std::string> left_out_;
};

// Where a rule was read, and the vocabulary of its parts; both for errors.
struct MergeSource {
  std::string where, vocabulary;
};

inline void add_merge(const std::string& left, const std::string& right, const Spellings& spellings,
                      const MergeSource& source, MergeRules& out) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Error::Kind::invalid_file, source.where,
                "the merge rule \"" + printable(left) + " " + printable(right) + "\" " + what);
  };
  const auto id_of = [&](const std::string& spelling) {
    const auto id = spellings.find(spelling);
    if (!id) refuse("needs the token \"" + printable(spelling) + "\", which " + source.vocabulary + " does not have");
    return *id;
  };
  // Training merges a pair once. A second rule would leave two ranks to choose from.
  if (!out.add(id_of(left), id_of(right), id_of(left + right))) refuse("occurs twice");
}

// The parts of "left right", separated by one space.
inline std::pair<std::string, std::string> split_merge(std::string_view rule, const std::string& where) {
  const std::size_t space = rule.find(' ');
  if (space == rule.npos || space == 0 || space + 1 == rule.size() || rule.find(' ', space + 1) != rule.npos)
    throw Error(Error::Kind::invalid_file, where,
                "the merge rule \"" + printable(rule) + "\" must be two parts with one space between");
  return std::pair(std::string(rule.substr(0, space)), std::string(rule.substr(space + 1)));
}

}  // namespace tenon::detail
