/// An index of full blocks by their tokens. A block is found by a hash that is chained over all tokens from the start,
/// and then the tokens are compared. So a collision costs time and never an answer.
///
/// The key of an entry is (serial number of its predecessor, its own tokens), and (identity, tokens) for the first
/// block of a text. By induction two equal chains stand for equal texts under equal identities.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

/// The index. Not thread-safe.
class PrefixIndex {
 public:
  /// A place in a text: the entry of its last full block. The default is the start of every text.
  struct Chain {
    std::uint64_t serial = 0;  ///< 0: before the first block
    std::uint64_t hash = 0;
  };

  PrefixIndex(int blocks, int block_tokens, std::uint64_t hash_mask);

  /// Calls visit(block) for each block of the longest known prefix of `tokens`. Returns the place where the prefix
  /// ends.
  template <class Visit>
  Chain walk(std::span<const TokenId> tokens, std::string_view identity, Visit&& visit) const {
    Chain chain;
    for (std::size_t at = 0; at + block_tokens_ <= tokens.size(); at += block_tokens_) {
      const auto next = find(chain, tokens.subspan(at, block_tokens_), identity);
      if (next.block < 0) break;
      chain = next.chain;
      visit(next.block);
    }
    return chain;
  }

  /// Records that `block` holds the tokens after `chain`, and returns the place after them. The block must not be idle.
  /// If another block is already recorded with the same tokens after `chain`, the index does not change.
  Chain insert(const Chain& chain, std::span<const TokenId> tokens, std::string_view identity, std::int32_t block);

  /// Whether the block has an entry.
  bool knows(std::int32_t block) const { return at(block).serial != 0; }

  // ---- idle blocks: blocks with an entry that no sequence holds. The least recently retired block is evicted first.

  /// Makes a known block idle.
  void retire(std::int32_t block);

  /// Makes an idle block held again.
  void revive(std::int32_t block);

  /// Removes the entry of the least recently retired idle block, and returns the block. There must be an idle block.
  std::int32_t evict();

  /// Number of idle blocks.
  int idle() const { return idle_; }

 private:
  static constexpr std::int32_t kNone = -1;

  struct Entry {
    std::uint64_t serial = 0;  // unique; 0: the block is not known
    std::uint64_t parent = 0;  // serial of the block before; 0 for the first of a text
    std::uint64_t hash = 0;
    std::int32_t next = kNone;  // in the same bucket
    std::string identity = {};  // of the first block of a text; later blocks inherit it by `parent`
    std::int32_t older = kNone, newer = kNone;
  };
  // The result of a lookup.
  struct Match {
    std::int32_t block;  // kNone: not found; chain.hash is then the hash of the tokens looked up
    Chain chain;
  };

  std::int32_t& bucket_of(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  const std::int32_t& bucket_of(std::uint64_t hash) const { return buckets_[hash & (buckets_.size() - 1)]; }
  Entry& at(std::int32_t block) { return entries_[static_cast<std::size_t>(block)]; }
  const Entry& at(std::int32_t block) const { return entries_[static_cast<std::size_t>(block)]; }
  std::span<TokenId> tokens_of(std::int32_t block);
  std::span<const TokenId> tokens_of(std::int32_t block) const;

  Match find(const Chain& chain, std::span<const TokenId> tokens, std::string_view identity) const;

  static std::uint64_t hash_of(const Chain& chain, std::span<const TokenId> tokens, std::string_view identity);

  void forget(std::int32_t block);

  std::size_t block_tokens_;
  std::uint64_t hash_mask_;
  std::vector<Entry> entries_;         // [blocks]
  std::vector<std::int32_t> buckets_;  // first block of each; kNone: empty
  std::vector<TokenId> tokens_;        // [blocks, block_tokens]
  std::uint64_t last_serial_ = 0;
  std::int32_t oldest_ = kNone, newest_ = kNone;
  int idle_ = 0;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/cache/prefix_index-inl.h"
#endif
