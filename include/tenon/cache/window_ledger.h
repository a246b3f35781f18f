/// The ledger of a windowed cache: which sequence owns which block. A sequence takes blocks as it grows, up to a ring
/// of them. Blocks that its window has passed hold its next tokens, so that it needs no free block from then on.
///
/// The arithmetic, for blocks of B tokens and a window of w positions: the row at position p sees p - w + 1 .. p. When
/// c tokens are cached, all blocks below floor((c - w + 1) / B) are passed. Then n more tokens need
///     ceil((c + n) / B) - floor((c - w + 1) / B)  <=  ceil((w + n + B - 2) / B)
/// blocks at once, with equality if c - w + 1 is one short of a block. So:
/// - A sequence that holds ceil((w + B - 1) / B) blocks reaches its end, one token at a time, whatever others hold.
/// - No block is passed before the sequence has that many. With one block fewer it could never continue after them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/cache/tiles.h"
#include "tenon/core/concepts.h"

namespace tenon {

/// Blocks of BlockTokens tokens. Not thread-safe: the engine's thread uses it.
template <int BlockTokens>
class WindowLedger {
 public:
  /// window 0: rows see all positions before them, and no block is ever passed.
  WindowLedger(int blocks, int positions, int window)
      : capacity_(blocks >= blocks_to_go_on(positions, window, 1) ? positions
                                                                  : std::min(positions, blocks * BlockTokens)),
        ring_(std::min(blocks, ring_blocks(positions, window))) {
    free_.reserve(static_cast<std::size_t>(blocks));
    for (int block = blocks; block-- > 0;) free_.push_back(block);
  }

  int free_tokens() const { return static_cast<int>(free_.size()) * BlockTokens; }
  int capacity_tokens() const { return capacity_; }

  /// Tokens that a sequence of `tokens` tokens holds at once, at most. Room for these is enough for it to reach its
  /// end.
  int held_at_most(int tokens) const { return std::min(tokens, ring_ * BlockTokens); }

  bool grow(SeqId seq, int tokens) {
    if (tokens <= 0) return true;
    Ring* ring = find(seq);
    const int held = ring ? ring->tokens : 0, owned = ring ? ring->size() : 0;
    if (tokens > capacity_ - held) return false;
    const int needed = blocks_of(held + tokens) - (ring ? ring->first : 0);
    if (needed > ring_ || needed - owned > static_cast<int>(free_.size())) return false;
    if (!ring) ring = &open(seq);
    for (int i = owned; i < needed; ++i) ring->blocks.push_back(take_free());
    ring->tokens = held + tokens;
    return true;
  }

  void release(SeqId seq) {
    const auto found = rings_.find(seq);
    if (found == rings_.end()) return;
    free_.insert(free_.end(), found->second.blocks.rbegin(), found->second.blocks.rend());
    rings_.erase(found);
  }

  /// The blocks below position `before` become the next ones of the same sequence. They are not free for others, so
  /// that a sequence that has its ring can always reach its end. One that was preempted too often comes back with a
  /// ring.
  void trim(SeqId seq, int before) {
    Ring* ring = find(seq);
    if (!ring) return;
    const int passed = std::min(before, ring->tokens) / BlockTokens - ring->first;
    if (passed <= 0) return;
    std::rotate(ring->blocks.begin(), ring->blocks.begin() + passed, ring->blocks.end());
    ring->first += passed;
  }

  // ---- for views, tests and statistics

  /// The living blocks of a sequence: `first`, first + 1 ... of its text. Empty for an unknown sequence.
  struct Living {
    int first = 0;
    std::span<const std::int32_t> blocks = {};
  };
  Living living(SeqId seq) const {
    const Ring* ring = find(seq);
    if (!ring) return {};
    return {ring->first,
            std::span(ring->blocks).first(static_cast<std::size_t>(blocks_of(ring->tokens) - ring->first))};
  }
  /// All blocks of a sequence: the living ones, then the passed ones, which it uses next.
  std::span<const std::int32_t> ring(SeqId seq) const {
    const Ring* ring = find(seq);
    return ring ? ring->blocks : std::span<const std::int32_t>{};
  }
  /// Tokens that a sequence can take before it needs a free block.
  int own_room(SeqId seq) const {
    const Ring* ring = find(seq);
    if (!ring) return 0;
    const int last = ring->tokens % BlockTokens;  // in a block that is not full
    const int passed = ring->size() - (blocks_of(ring->tokens) - ring->first);
    return passed * BlockTokens + (last > 0 ? BlockTokens - last : 0);
  }

  static constexpr int blocks_of(int tokens) { return tenon::blocks_of(tokens, BlockTokens); }

  /// Blocks of a ring. It has room for chunks of an eighth of the window, so that a long prompt is not read in tiny
  /// chunks. That costs an eighth more memory for sequences that hold a whole ring.
  static constexpr int ring_blocks(int positions, int window) {
    return blocks_to_go_on(positions, window, std::max(window / 8, 1));
  }

 private:
  // Blocks with which a sequence alone can always run `tokens` more tokens, up to the last position: the formula above,
  // or the blocks of the whole text if its window passes nothing.
  static constexpr int blocks_to_go_on(int positions, int window, int tokens) {
    const int all = blocks_of(positions);
    if (window <= 0 || window >= positions) return all;
    const std::int64_t most = std::int64_t{window} + tokens + BlockTokens - 2;
    return static_cast<int>(std::min<std::int64_t>(all, (most + BlockTokens - 1) / BlockTokens));
  }

  struct Ring {
    std::vector<std::int32_t> blocks;  // the living ones in order of position, then those to be used again
    int tokens = 0;                    // tokens with reserved room, from position 0, passed ones included
    int first = 0;                     // number of passed blocks of the text
    int size() const { return static_cast<int>(blocks.size()); }
  };

  const Ring* find(SeqId seq) const {
    const auto found = rings_.find(seq);
    return found == rings_.end() ? nullptr : &found->second;
  }
  Ring* find(SeqId seq) { return const_cast<Ring*>(std::as_const(*this).find(seq)); }

  Ring& open(SeqId seq) {
    Ring ring;
    ring.blocks.reserve(static_cast<std::size_t>(ring_));  // growing allocates nothing
    return rings_.insert_or_assign(seq, std::move(ring)).first->second;
  }

  // A stack: the block released last is still in the processor's cache.
  std::int32_t take_free() {
    const std::int32_t block = free_.back();
    free_.pop_back();
    return block;
  }

  int capacity_;
  int ring_;  // most blocks of one sequence
  std::vector<std::int32_t> free_;
  std::unordered_map<SeqId, Ring> rings_;
};
static_assert(TrimsSequences<WindowLedger<16>>);

}  // namespace tenon
