#pragma once
#include <algorithm>
#include <bit>
#include <utility>

#include "tenon/cache/prefix_index.h"
#include "tenon/core/hash.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE PrefixIndex::PrefixIndex(int blocks, int block_tokens, std::uint64_t hash_mask)
    : block_tokens_(static_cast<std::size_t>(block_tokens)),
      hash_mask_(hash_mask),
      entries_(static_cast<std::size_t>(blocks)),
      buckets_(std::bit_ceil(static_cast<std::size_t>(blocks) + 1), kNone),
      tokens_(static_cast<std::size_t>(blocks) * block_tokens_) {}

TENON_INLINE PrefixIndex::Chain PrefixIndex::insert(const Chain& chain, std::span<const TokenId> tokens,
                                                    std::string_view identity, std::int32_t block) {
  const auto known = find(chain, tokens, identity);
  if (known.block >= 0) return known.chain;
  if (knows(block)) forget(block);  // its predecessor was evicted since: no walk finds it there
  Entry& entry = at(block);
  entry.identity = chain.serial == 0 ? identity : std::string_view{};  // the only line that may throw
  entry.serial = ++last_serial_;
  entry.parent = chain.serial;
  entry.hash = known.chain.hash;
  entry.next = std::exchange(bucket_of(entry.hash), block);
  std::copy(tokens.begin(), tokens.end(), tokens_of(block).begin());
  return {entry.serial, entry.hash};
}

TENON_INLINE void PrefixIndex::retire(std::int32_t block) {
  Entry& entry = at(block);
  entry.older = newest_;
  entry.newer = kNone;
  (newest_ == kNone ? oldest_ : at(newest_).newer) = block;
  newest_ = block;
  ++idle_;
}

TENON_INLINE void PrefixIndex::revive(std::int32_t block) {
  const Entry& entry = at(block);
  (entry.older == kNone ? oldest_ : at(entry.older).newer) = entry.newer;
  (entry.newer == kNone ? newest_ : at(entry.newer).older) = entry.older;
  --idle_;
}

TENON_INLINE std::int32_t PrefixIndex::evict() {
  const std::int32_t block = oldest_;
  revive(block);
  forget(block);
  return block;
}

TENON_INLINE std::span<TokenId> PrefixIndex::tokens_of(std::int32_t block) {
  return std::span(tokens_).subspan(static_cast<std::size_t>(block) * block_tokens_, block_tokens_);
}

TENON_INLINE std::span<const TokenId> PrefixIndex::tokens_of(std::int32_t block) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(block) * block_tokens_, block_tokens_);
}

TENON_INLINE PrefixIndex::Match PrefixIndex::find(const Chain& chain, std::span<const TokenId> tokens,
                                                  std::string_view identity) const {
  const std::uint64_t hash = hash_of(chain, tokens, identity) & hash_mask_;
  for (std::int32_t block = bucket_of(hash); block != kNone; block = at(block).next) {
    const Entry& entry = at(block);
    const auto held = tokens_of(block);
    if (entry.hash == hash && entry.parent == chain.serial && (chain.serial != 0 || entry.identity == identity) &&
        std::equal(tokens.begin(), tokens.end(), held.begin(), held.end())) {
      return {block, {entry.serial, hash}};
    }
  }
  return {kNone, {0, hash}};
}

TENON_INLINE std::uint64_t PrefixIndex::hash_of(const Chain& chain, std::span<const TokenId> tokens,
                                                std::string_view identity) {
  return hash64(std::as_bytes(tokens), chain.serial != 0 ? chain.hash : hash64(identity));
}

TENON_INLINE void PrefixIndex::forget(std::int32_t block) {
  std::int32_t* link = &bucket_of(at(block).hash);
  while (*link != block) link = &at(*link).next;
  *link = at(block).next;
  at(block) = {};
}

}  // namespace tenon
