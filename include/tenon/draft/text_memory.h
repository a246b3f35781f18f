// Texts that have ended, by group, and where an end of another text stands in them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

/// Keeps the latest texts of each group, within a bound of bytes for all groups. Where it is full, groups that were
/// used longest ago go first. A text of one group is never found from another one.
class TextMemory {
 public:
  /// bytes: bound on the memory of all texts; 0: nothing is kept. ngram: an end is found by its last tokens, of which
  /// this many must agree; at least 1.
  explicit TextMemory(std::size_t bytes = 0, int ngram = 4)
      : most_bytes_(bytes), ngram_(static_cast<std::size_t>(std::max(ngram, 1))) {}

  /// Adds a text, or the end of one that is too long. Where it does not fit beside the others of its group, the older
  /// half of the group goes.
  void add(std::string_view group, std::span<const TokenId> text);

  /// The continuation of `text` in a text of its group whose last tokens were the same, up to that text's end. The
  /// latest such text counts. Empty: none is known. Valid until the next call.
  std::span<const TokenId> after(std::string_view group, std::span<const TokenId> text);

  /// Bytes in use, estimated.
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr TokenId kEndOfText = -1;
  // A token, and its place: an entry of an unordered_map with its list node and bucket.
  static constexpr std::size_t kBytesOfToken = sizeof(TokenId) + 5 * sizeof(void*);
  static constexpr std::size_t kBytesOfGroup = 512;  // with its name, which is a digest
  // Tokens: indexing half of them again takes an engine's step about a millisecond.
  static constexpr std::size_t kMostOfGroup = 16'384;

  struct Group {
    std::vector<TokenId> tokens;                            // texts, with kEndOfText after each
    std::unordered_map<std::uint64_t, std::size_t> places;  // hash of ngram_ tokens -> the latest place after them
    std::uint64_t used = 0;                                 // key in by_use_; 0: in none
    std::size_t bytes = 0;
  };

  // The seed keeps clients from choosing texts whose places share a bucket.
  std::uint64_t key(std::span<const TokenId> tokens) const;

  void index_from(Group& in, std::size_t begin);
  // Keeps whole texts alone.
  void drop_older_half(Group& in);
  void touch(std::string_view group, Group& in);
  void recount(Group& in);
  void drop(const std::string& group);

  std::size_t most_bytes_, ngram_, bytes_ = 0;
  std::unordered_map<std::string, Group> groups_;
  std::map<std::uint64_t, std::string> by_use_;  // the group that was used longest ago comes first
  std::uint64_t now_ = 0, seed_ = std::random_device{}();
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/draft/text_memory-inl.h"
#endif
