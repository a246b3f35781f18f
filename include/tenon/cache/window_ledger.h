// Who owns which block of a windowed cache. A sequence takes blocks as it grows, up to a ring of them; what its window
// has passed is room for its own next tokens, so that from then on it asks nobody for anything.
//
// The arithmetic, for blocks of B tokens and a window of w positions. The row at position p sees p - w + 1 .. p. When c
// tokens are cached, all blocks below floor((c - w + 1) / B) are passed, and n more tokens need
//     ceil((c + n) / B) - floor((c - w + 1) / B)  <=  ceil((w + n + B - 2) / B)
// blocks at once; there is equality where c - w + 1 is one short of a block. So
// - a sequence that holds ceil((w + B - 1) / B) blocks gets through, a token at a time, whatever others hold;
// - nothing is passed before the sequence has that many, and with one block fewer it could never go on behind them.
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

template <int BlockTokens>
class WindowLedger {
 public:
  // window 0: rows see all that is before them, and nothing is ever passed.
  WindowLedger(int blocks, int positions, int window)
      : capacity_(blocks >= blocks_to_go_on(positions, window, 1) ? positions
                                                                  : std::min(positions, blocks * BlockTokens)),
        ring_(std::min(blocks, ring_blocks(positions, window))) {
    free_.reserve(static_cast<std::size_t>(blocks));
    for (int block = blocks; block-- > 0;) free_.push_back(block);
  }

  int free_tokens() const { return static_cast<int>(free_.size()) * BlockTokens; }
  int capacity_tokens() const { return capacity_; }

  // Room for so many at once is enough for a sequence of `tokens` to get through, and it never takes more.
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

  // The blocks below `before` become the next ones. They are not free for others: a sequence that has its ring is sure
  // to get through, and who was preempted too often comes back for that.
  void trim(SeqId seq, int before) {
    Ring* ring = find(seq);
    if (!ring) return;
    const int passed = std::min(before, ring->tokens) / BlockTokens - ring->first;
    if (passed <= 0) return;
    std::rotate(ring->blocks.begin(), ring->blocks.begin() + passed, ring->blocks.end());
    ring->first += passed;
  }

  // ---- for views, tests and statistics

  // What a sequence has of the blocks `first`, first + 1 ... of its text; nothing if it is not here.
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
  // All that it holds: those, and behind them the passed ones, which are the next.
  std::span<const std::int32_t> ring(SeqId seq) const {
    const Ring* ring = find(seq);
    return ring ? ring->blocks : std::span<const std::int32_t>{};
  }
  // Tokens that it can take before it needs a free block.
  int own_room(SeqId seq) const {
    const Ring* ring = find(seq);
    if (!ring) return 0;
    const int last = ring->tokens % BlockTokens;  // in a block that is not full
    const int passed = ring->size() - (blocks_of(ring->tokens) - ring->first);
    return passed * BlockTokens + (last > 0 ? BlockTokens - last : 0);
  }

  static constexpr int blocks_of(int tokens) { return tenon::blocks_of(tokens, BlockTokens); }

  // Blocks of a ring. It runs chunks of an eighth of the window at least, so that a long prompt is not read in crumbs:
  // those that hold a whole ring pay for that with an eighth more memory.
  static constexpr int ring_blocks(int positions, int window) {
    return blocks_to_go_on(positions, window, std::max(window / 8, 1));
  }

 private:
  // With which a sequence alone can always run so many tokens more, up to the last position: the formula above, or
  // those of the whole text where its window passes nothing.
  static constexpr int blocks_to_go_on(int positions, int window, int tokens) {
    const int all = blocks_of(positions);
    if (window <= 0 || window >= positions) return all;
    const std::int64_t most = std::int64_t{window} + tokens + BlockTokens - 2;
    return static_cast<int>(std::min<std::int64_t>(all, (most + BlockTokens - 1) / BlockTokens));
  }

  struct Ring {
    std::vector<std::int32_t> blocks;  // the living ones in order of position, then those to be used again
    int tokens = 0;                    // that there is or was room for, from position 0
    int first = 0;                     // so many blocks of the text are passed
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

  // A stack: what was released last is still warm.
  std::int32_t take_free() {
    const std::int32_t block = free_.back();
    free_.pop_back();
    return block;
  }

  int capacity_;
  int ring_;  // blocks that one sequence holds at most
  std::vector<std::int32_t> free_;
  std::unordered_map<SeqId, Ring> rings_;
};
static_assert(TrimsSequences<WindowLedger<16>>);

}  // namespace tenon
