/// The ledger of a paged cache: which sequence owns which block. It has reference counts, and an index of the contents
/// of full blocks. A text that begins like an earlier one is therefore not computed again (vLLM's prefix caching; Kwon
/// et al., 2023).
///
/// A block is in use (a sequence's table holds it), kept (no sequence holds it, but its contents are known), or blank.
/// Kept and blank blocks are free. The least recently used kept block is evicted first.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/cache/prefix_index.h"
#include "tenon/cache/tiles.h"
#include "tenon/core/concepts.h"

namespace tenon {

/// Blocks of BlockTokens tokens. Not thread-safe: the engine's thread uses it.
template <int BlockTokens>
class BlockLedger {
 public:
  /// blocks: of the storage. positions: most tokens of one sequence. hash_mask narrows the hashes of the index, so that
  /// tests see collisions.
  BlockLedger(int blocks, int positions, std::uint64_t hash_mask = std::numeric_limits<std::uint64_t>::max());

  int free_tokens() const { return free_blocks() * BlockTokens; }
  int capacity_tokens() const { return std::min(positions_, block_count() * BlockTokens); }

  bool grow(SeqId seq, int tokens);

  void release(SeqId seq);

  /// ShrinksSequences. Blocks in the index stay.
  void shrink(SeqId seq, int tokens);

  // ---- ReusesPrefixes: whole blocks only, found by a chained hash and then compared token by token.

  PrefixMatch match(std::span<const TokenId> tokens, std::string_view identity) const;

  int reuse(SeqId seq, std::span<const TokenId> tokens, std::string_view identity);

  void publish(SeqId seq, std::span<const TokenId> tokens, std::string_view identity);

  /// Forgets the contents of kept blocks: the next text is computed from its start.
  void forget_prefixes() {
    while (index_.idle() > 0) blank_.push_back(index_.evict());
  }

  // ---- ForksSequences. The child gets its own copy of a block that is not full, because it will write there.

  bool fork(SeqId parent, SeqId child, int tokens);
  std::span<const BlockCopy> copies() const { return copies_; }
  void clear_copies() { copies_.clear(); }

  // ---- for views, tests and statistics

  /// The blocks of a sequence, in order of position; empty for an unknown one. Valid until the next change.
  std::span<const std::int32_t> blocks(SeqId seq) const;
  int references(std::int32_t block) const { return references_[static_cast<std::size_t>(block)]; }
  int block_count() const { return static_cast<int>(references_.size()); }
  int kept_blocks() const { return index_.idle(); }
  int blank_blocks() const { return static_cast<int>(blank_.size()); }

  static constexpr int blocks_of(int tokens) { return tenon::blocks_of(tokens, BlockTokens); }

 private:
  struct Table {
    std::vector<std::int32_t> blocks;
    int tokens = 0;              // tokens with reserved room
    int published = 0;           // blocks in the index
    PrefixIndex::Chain chain{};  // the entry of the last of them
  };

  Table& open(SeqId seq);

  int free_blocks() const { return blank_blocks() + kept_blocks(); }

  // Blank blocks are a stack: the block released last is still in the processor's cache.
  std::int32_t take_free();

  std::int32_t hold(std::int32_t block);

  void drop(std::int32_t block);

  int positions_;
  std::vector<int> references_;      // [blocks] number of tables that hold it
  std::vector<std::int32_t> blank_;  // a stack
  PrefixIndex index_;                // with the kept blocks
  std::unordered_map<SeqId, Table> tables_;
  std::vector<BlockCopy> copies_;    // to be made
  std::vector<std::int32_t> found_;  // scratch of reuse
};

// Members are defined outside the class, so they are not inline: extern templates (engine/instances.h) then prevent
// another instance in each unit.
template <int BlockTokens>
BlockLedger<BlockTokens>::BlockLedger(int blocks, int positions, std::uint64_t hash_mask)
    : positions_(positions), references_(static_cast<std::size_t>(blocks)), index_(blocks, BlockTokens, hash_mask) {
  blank_.reserve(static_cast<std::size_t>(blocks));
  for (int block = blocks; block-- > 0;) blank_.push_back(block);
}

template <int BlockTokens>
bool BlockLedger<BlockTokens>::grow(SeqId seq, int tokens) {
  if (tokens <= 0) return true;
  const auto found = tables_.find(seq);
  const int held = found == tables_.end() ? 0 : found->second.tokens;
  if (tokens > capacity_tokens() - held) return false;
  const int needed = blocks_of(held + tokens) - blocks_of(held);
  if (needed > free_blocks()) return false;
  Table& table = found == tables_.end() ? open(seq) : found->second;
  for (int i = 0; i < needed; ++i) table.blocks.push_back(take_free());
  table.tokens = held + tokens;
  return true;
}

template <int BlockTokens>
void BlockLedger<BlockTokens>::release(SeqId seq) {
  const auto found = tables_.find(seq);
  if (found == tables_.end()) return;
  // The end of a text goes first: it is least likely to be found again, and useless without the rest.
  const auto& blocks = found->second.blocks;
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) drop(*block);
  tables_.erase(found);
}

template <int BlockTokens>
void BlockLedger<BlockTokens>::shrink(SeqId seq, int tokens) {
  const auto found = tables_.find(seq);
  if (found == tables_.end() || tokens >= found->second.tokens) return;
  Table& table = found->second;
  const auto kept = static_cast<std::size_t>(std::max(blocks_of(tokens), table.published));
  for (; table.blocks.size() > kept; table.blocks.pop_back()) drop(table.blocks.back());
  table.tokens = tokens;
}

template <int BlockTokens>
PrefixMatch BlockLedger<BlockTokens>::match(std::span<const TokenId> tokens, std::string_view identity) const {
  PrefixMatch match;
  index_.walk(tokens, identity, [&](std::int32_t block) {
    match.tokens += BlockTokens;
    match.idle += references(block) == 0 ? BlockTokens : 0;
  });
  return match;
}

template <int BlockTokens>
int BlockLedger<BlockTokens>::reuse(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) {
  if (tables_.contains(seq)) return 0;
  found_.clear();
  const auto chain = index_.walk(tokens, identity, [&](std::int32_t block) { found_.push_back(block); });
  if (found_.empty()) return 0;
  Table& table = open(seq);
  for (const std::int32_t block : found_) table.blocks.push_back(hold(block));
  table.chain = chain;
  table.published = static_cast<int>(found_.size());
  table.tokens = table.published * BlockTokens;
  return table.tokens;
}

template <int BlockTokens>
void BlockLedger<BlockTokens>::publish(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) {
  const auto found = tables_.find(seq);
  if (found == tables_.end()) return;
  Table& table = found->second;
  const int full = static_cast<int>(tokens.size()) / BlockTokens;
  for (; table.published < full; ++table.published) {
    const auto at = static_cast<std::size_t>(table.published);
    table.chain = index_.insert(table.chain, tokens.subspan(at * BlockTokens, BlockTokens), identity, table.blocks[at]);
  }
}

template <int BlockTokens>
bool BlockLedger<BlockTokens>::fork(SeqId parent, SeqId child, int tokens) {
  const auto found = tables_.find(parent);
  if (found == tables_.end() || tables_.contains(child) || tokens <= 0 || tokens > found->second.tokens) return false;
  const bool splits = tokens % BlockTokens != 0;
  if (splits && free_blocks() == 0) return false;
  copies_.reserve(copies_.size() + 1);  // after open() nothing may throw
  Table& table = open(child);
  const Table& from = tables_.at(parent);
  const auto whole = static_cast<std::size_t>(tokens / BlockTokens);
  for (std::size_t i = 0; i < whole; ++i) table.blocks.push_back(hold(from.blocks[i]));
  if (splits) {
    table.blocks.push_back(take_free());
    copies_.push_back({from.blocks[whole], table.blocks.back()});
  }
  table.tokens = tokens;
  return true;  // the child's chain starts at 0: publish() finds the parent's entries, one by one
}

template <int BlockTokens>
std::span<const std::int32_t> BlockLedger<BlockTokens>::blocks(SeqId seq) const {
  const auto found = tables_.find(seq);
  return found == tables_.end() ? std::span<const std::int32_t>{} : found->second.blocks;
}

template <int BlockTokens>
typename BlockLedger<BlockTokens>::Table& BlockLedger<BlockTokens>::open(SeqId seq) {
  Table table;
  table.blocks.reserve(static_cast<std::size_t>(blocks_of(capacity_tokens())));  // growing allocates nothing
  return tables_.insert_or_assign(seq, std::move(table)).first->second;
}

template <int BlockTokens>
std::int32_t BlockLedger<BlockTokens>::take_free() {
  std::int32_t block = 0;
  if (blank_.empty()) {
    block = index_.evict();
  } else {
    block = blank_.back();
    blank_.pop_back();
  }
  references_[static_cast<std::size_t>(block)] = 1;
  return block;
}

template <int BlockTokens>
std::int32_t BlockLedger<BlockTokens>::hold(std::int32_t block) {
  if (references_[static_cast<std::size_t>(block)]++ == 0) index_.revive(block);
  return block;
}

template <int BlockTokens>
void BlockLedger<BlockTokens>::drop(std::int32_t block) {
  if (--references_[static_cast<std::size_t>(block)] > 0) return;
  // A copy into it is no longer needed, unless another copy reads the block.
  const bool read =
      std::any_of(copies_.begin(), copies_.end(), [&](const BlockCopy& copy) { return copy.from == block; });
  if (!read) std::erase_if(copies_, [&](const BlockCopy& copy) { return copy.to == block; });
  if (index_.knows(block))
    index_.retire(block);
  else
    blank_.push_back(block);
}

static_assert(ReusesPrefixes<BlockLedger<16>> && ForksSequences<BlockLedger<16>> && ShrinksSequences<BlockLedger<16>>);

}  // namespace tenon
