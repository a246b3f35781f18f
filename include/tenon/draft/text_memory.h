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
#include <utility>
#include <vector>

#include "tenon/core/hash.h"
#include "tenon/core/views.h"
#include "tenon/draft/suffix_match.h"

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
  void add(std::string_view group, std::span<const TokenId> text) {
    const std::size_t most = std::min(most_bytes_ / kBytesOfToken / 2, kMostOfGroup);
    text = text.last(std::min(text.size(), most / 2));
    if (text.size() <= ngram_) return;
    Group& in = groups_[std::string(group)];
    touch(group, in);
    if (in.tokens.size() + text.size() + 1 > most) drop_older_half(in);
    const std::size_t begin = in.tokens.size();
    in.tokens.insert(in.tokens.end(), text.begin(), text.end());
    in.tokens.push_back(kEndOfText);
    index_from(in, begin);
    recount(in);
    while (bytes_ > most_bytes_) drop(by_use_.begin()->second);
  }

  /// The continuation of `text` in a text of its group whose last tokens were the same, up to that text's end. The
  /// latest such text counts. Empty: none is known. Valid until the next call.
  std::span<const TokenId> after(std::string_view group, std::span<const TokenId> text) {
    if (text.size() < ngram_ || groups_.empty()) return {};
    const auto found = groups_.find(std::string(group));
    if (found == groups_.end()) return {};
    Group& in = found->second;
    touch(group, in);
    const auto place = in.places.find(key(text.last(ngram_)));
    if (place == in.places.end()) return {};
    const auto tokens = std::span<const TokenId>(in.tokens);
    if (detail::common_end(text, tokens.first(place->second), ngram_) < ngram_) return {};  // only the hashes agree
    const auto rest = tokens.subspan(place->second);
    return rest.first(static_cast<std::size_t>(std::find(rest.begin(), rest.end(), kEndOfText) - rest.begin()));
  }

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
  std::uint64_t key(std::span<const TokenId> tokens) const { return hash64(std::as_bytes(tokens), seed_); }

  void index_from(Group& in, std::size_t begin) {
    const auto tokens = std::span<const TokenId>(in.tokens);
    for (std::size_t end = begin + ngram_; end < tokens.size(); ++end)
      if (tokens[end] != kEndOfText) in.places[key(tokens.subspan(end - ngram_, ngram_))] = end;
  }

  // Keeps whole texts alone.
  void drop_older_half(Group& in) {
    const auto middle = in.tokens.begin() + static_cast<std::ptrdiff_t>(in.tokens.size() / 2);
    const auto end = std::find(middle, in.tokens.end(), kEndOfText);
    in.tokens.erase(in.tokens.begin(), end == in.tokens.end() ? end : end + 1);
    in.places.clear();
    index_from(in, 0);
  }

  void touch(std::string_view group, Group& in) {
    if (in.used != 0) by_use_.erase(in.used);
    in.used = ++now_;
    by_use_.emplace(in.used, group);
  }

  void recount(Group& in) {
    bytes_ -= std::exchange(in.bytes, kBytesOfGroup + in.tokens.size() * kBytesOfToken);
    bytes_ += in.bytes;
  }

  void drop(const std::string& group) {
    const auto found = groups_.find(group);
    bytes_ -= found->second.bytes;
    by_use_.erase(found->second.used);
    groups_.erase(found);
  }

  std::size_t most_bytes_, ngram_, bytes_ = 0;
  std::unordered_map<std::string, Group> groups_;
  std::map<std::uint64_t, std::string> by_use_;  // the group that was used longest ago comes first
  std::uint64_t now_ = 0, seed_ = std::random_device{}();
};

}  // namespace tenon
