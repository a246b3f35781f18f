// What full blocks of tokens hold, found by content: a hash chained over all tokens from the start, and then a
// comparison of the tokens themselves, so that a collision costs time and never an answer.
//
// An entry is found through its predecessor: its key is (the predecessor's serial number, its own tokens), and the
// first one's is (identity, tokens). By induction two equal chains stand for equal texts under equal identities.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

class PrefixIndex {
 public:
  // Where a text has got to: the entry of its last full block. The default is the start of every text.
  struct Chain {
    std::uint64_t serial = 0;  // 0: before the first block
    std::uint64_t hash = 0;
  };

  PrefixIndex(int blocks, int block_tokens, std::uint64_t hash_mask);

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
  Chain insert(const Chain& chain, std::span<const TokenId> tokens, std::string_view identity, std::int32_t block);

  bool knows(std::int32_t block) const { return at(block).serial != 0; }

  // ---- idle blocks: known, and in nobody's use. The least recently retired is evicted first.

  void retire(std::int32_t block);

  void revive(std::int32_t block);

  // The least recently used idle block, forgotten. There must be one.
  std::int32_t evict();

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
  std::span<TokenId> tokens_of(std::int32_t block);
  std::span<const TokenId> tokens_of(std::int32_t block) const;

  Found find(const Chain& chain, std::span<const TokenId> tokens, std::string_view identity) const;

  static std::uint64_t hash_of(const Chain& chain, std::span<const TokenId> tokens, std::string_view identity);

  void forget(std::int32_t block);

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

#ifndef TENON_COMPILED
#include "tenon/cache/prefix_index-inl.h"
#endif
