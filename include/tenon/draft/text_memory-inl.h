#pragma once
#include <algorithm>
#include <utility>

#include "tenon/core/hash.h"
#include "tenon/core/require.h"
#include "tenon/draft/suffix_match.h"
#include "tenon/draft/text_memory.h"

namespace tenon {

TENON_INLINE void TextMemory::add(std::string_view group, std::span<const TokenId> text) {
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

TENON_INLINE std::span<const TokenId> TextMemory::after(std::string_view group, std::span<const TokenId> text) {
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

TENON_INLINE std::uint64_t TextMemory::key(std::span<const TokenId> tokens) const {
  return hash64(std::as_bytes(tokens), seed_);
}

TENON_INLINE void TextMemory::index_from(Group& in, std::size_t begin) {
  const auto tokens = std::span<const TokenId>(in.tokens);
  for (std::size_t end = begin + ngram_; end < tokens.size(); ++end)
    if (tokens[end] != kEndOfText) in.places[key(tokens.subspan(end - ngram_, ngram_))] = end;
}

TENON_INLINE void TextMemory::drop_older_half(Group& in) {
  const auto middle = in.tokens.begin() + static_cast<std::ptrdiff_t>(in.tokens.size() / 2);
  const auto end = std::find(middle, in.tokens.end(), kEndOfText);
  in.tokens.erase(in.tokens.begin(), end == in.tokens.end() ? end : end + 1);
  in.places.clear();
  index_from(in, 0);
}

TENON_INLINE void TextMemory::touch(std::string_view group, Group& in) {
  if (in.used != 0) by_use_.erase(in.used);
  in.used = ++now_;
  by_use_.emplace(in.used, group);
}

TENON_INLINE void TextMemory::recount(Group& in) {
  bytes_ -= std::exchange(in.bytes, kBytesOfGroup + in.tokens.size() * kBytesOfToken);
  bytes_ += in.bytes;
}

TENON_INLINE void TextMemory::drop(const std::string& group) {
  const auto found = groups_.find(group);
  bytes_ -= found->second.bytes;
  by_use_.erase(found->second.used);
  groups_.erase(found);
}

}  // namespace tenon
