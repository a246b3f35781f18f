// What full blocks of tokens hold, found by content: a hash chained over all tokens from the start, and then a
// comparison of the tokens themselves, so that a collision costs time and never an answer.
//
// An entry is found through its predecessor: its key is (the predecessor's serial number, its own tokens), and the
// first one's is (identity, tokens). By induction two equal chains stand for equal texts under equal identities.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/hash.h"
#include "tenon/core/views.h"

namespace tenon {

class PrefixIndex {
 public:
  // Where a text has got to: the entry of its last full block. The default is the start of every text.
  struct Chain {
    std::uint64_t serial = 0;  // 0: before the first block
    std::uint64_t hash = 0;
  };

  PrefixIndex(int blocks, int block_tokens, std::uint64_t hash_mask)
      : block_tokens_(static_cast<std::size_t>(block_tokens)),
        hash_mask_(hash_mask),
        entries_(static_cast<std::size_t>(blocks)),
        buckets_(std::bit_ceil(static_cast<std::size_t>(blocks) + 1), kNone),
        tokens_(static_cast<std::size_t>(blocks) * block_tokens_) {}

  // Calls found(block) for each block of the longest known beginning of `tokens`, and says where that ends.
  template <class Found>
  Chain walk(std::span<const TokenId> tokens, std::string_view identity, Found&& found) const {
    Chain chain;
    for (std::size_t at = 0; at + block_tokens_ <= tokens.size(); at += block_tokens_) {
      const auto next = find(chain, tokens.subspan(at, block_tokens_), identity);
      if (next.block < 0) break;
      chain = next.chain;
      found(next.block);
    }
    return chain;
  }

  // Says that `block`, which is not idle, holds the tokens behind `chain`. Another block that holds the same stays the
  // one that is found.
  Chain insert(const Chain& chain, std::span<const TokenId> tokens, std::string_view identity, std::int32_t block) {
    const auto known = find(chain, tokens, identity);
    if (known.block >= 0) return known.chain;
    if (knows(block)) forget(block);  // it was filed behind a block that was evicted since: nobody finds it there
    Entry& entry = at(block);
    entry.identity = chain.serial == 0 ? identity : std::string_view{};  // the only line that may throw
    entry.serial = ++last_serial_;
    entry.parent = chain.serial;
    entry.hash = known.chain.hash;
    entry.next = std::exchange(bucket_of(entry.hash), block);
    std::copy(tokens.begin(), tokens.end(), tokens_of(block).begin());
    return {entry.serial, entry.hash};
  }

  bool knows(std::int32_t block) const { return at(block).serial != 0; }

  // ---- idle blocks: known, and in nobody's use. The least recently retired is evicted first.

  void retire(std::int32_t block) {
    Entry& entry = at(block);
    entry.older = newest_;
    entry.newer = kNone;
    (newest_ == kNone ? oldest_ : at(newest_).newer) = block;
    newest_ = block;
    ++idle_;
  }

  void revive(std::int32_t block) {
    const Entry& entry = at(block);
    (entry.older == kNone ? oldest_ : at(entry.older).newer) = entry.newer;
    (entry.newer == kNone ? newest_ : at(entry.newer).older) = entry.older;
    --idle_;
  }

  // The least recently used idle block, forgotten. There must be one.
  std::int32_t evict() {
    const std::int32_t block = oldest_;
    revive(block);
    forget(block);
    return block;
  }

  int idle() const { return idle_; }

 private:
  static constexpr std::int32_t kNone = -1;

  struct Entry {
    std::uint64_t serial = 0;  // never given twice; 0: the block is not known
    std::uint64_t parent = 0;  // serial of the block before, 0 for the first of a text
    std::uint64_t hash = 0;
    std::int32_t next = kNone;  // of the same bucket
    std::string identity = {};  // of the first block of a text; later ones inherit it by `parent`
    std::int32_t older = kNone, newer = kNone;
  };
  struct Found {
    std::int32_t block;  // kNone: not there, and chain.hash is what its hash would be
    Chain chain;
  };

  std::int32_t& bucket_of(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  const std::int32_t& bucket_of(std::uint64_t hash) const { return buckets_[hash & (buckets_.size() - 1)]; }
  Entry& at(std::int32_t block) { return entries_[static_cast<std::size_t>(block)]; }
  const Entry& at(std::int32_t block) const { return entries_[static_cast<std::size_t>(block)]; }
  std::span<TokenId> tokens_of(std::int32_t block) {
    return std::span(tokens_).subspan(static_cast<std::size_t>(block) * block_tokens_, block_tokens_);
  }
  std::span<const TokenId> tokens_of(std::int32_t block) const {
    return std::span(tokens_).subspan(static_cast<std::size_t>(block) * block_tokens_, block_tokens_);
  }

  Found find(const Chain& chain, std::span<const TokenId> tokens, std::string_view identity) const {
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

  static std::uint64_t hash_of(const Chain& chain, std::span<const TokenId> tokens, std::string_view identity) {
    return hash64(std::as_bytes(tokens), chain.serial != 0 ? chain.hash : hash64(identity));
  }

  void forget(std::int32_t block) {
    std::int32_t* link = &bucket_of(at(block).hash);
    while (*link != block) link = &at(*link).next;
    *link = at(block).next;
    at(block) = {};
  }

  std::size_t block_tokens_;
  std::uint64_t hash_mask_;
  std::vector<Entry> entries_;         // [blocks]
  std::vector<std::int32_t> buckets_;  // first block of each, kNone if there is none
  std::vector<TokenId> tokens_;        // [blocks, block_tokens]
  std::uint64_t last_serial_ = 0;
  std::int32_t oldest_ = kNone, newest_ = kNone;
  int idle_ = 0;
};

}  // namespace tenon
