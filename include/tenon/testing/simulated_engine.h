/// A simulated model without weights. Its tokens depend on the cache slots that were read. Each slot holds a tag: a
/// hash of the text up to its position. A row reads the tags of all positions that it sees through the block table, and
/// its token is a function of them. So the answer changes if a block is wrong, stale, shared by mistake, not copied,
/// not written, or handed to another sequence too soon.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/hash.h"

namespace tenon::testing::detail {

// The keys and values of a text depend on this besides its tokens. An activated adapter changes them from share_limit
// on.
struct SimulatedKey {
  std::string identity;  // before share_limit: what the cache compares
  std::string adapter;   // from share_limit on
  int share_limit = std::numeric_limits<int>::max();

  // The tag of a token: `before` is that of the token before it, and is not read at position 0.
  std::uint64_t tag(std::uint64_t before, std::size_t position, TokenId token) const {
    if (position == 0) before = hash64(identity, 1);
    if (position == static_cast<std::size_t>(share_limit)) before = mix64(before ^ hash64(adapter, 2));
    return mix64(before + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(token) + 1));
  }
};
// Adds a tag to a sum. Tags are read in order of position; the order changes the sum.
inline std::uint64_t read_on(std::uint64_t sum, std::uint64_t tag) { return mix64(sum ^ tag) + 1; }

// Picks a token from the sum of a text, and says which tokens end it.
struct SimulatedSampling {
  bool greedy = true;
  std::uint64_t seed = 0;
  int stop_every = 0;  // a multiple of this ends the answer; 0: no token does

  TokenId pick(std::uint64_t sum, int position) const {
    const std::uint64_t draw = greedy ? 0 : mix64(seed + 0x9e3779b97f4a7c15U * static_cast<std::uint64_t>(position));
    return static_cast<TokenId>(mix64(sum ^ draw) & 0xfffff);
  }
  bool ends(TokenId token) const { return stop_every > 0 && token % stop_every == 0; }
};

// The answer of a request that runs alone, without queue, ledger or blocks.
struct LoneAnswer {
  std::vector<TokenId> tokens;      // the prompt, then the generated tokens
  std::vector<std::uint64_t> sums;  // [tokens] sum of the tags that each token's row sees
};

// The first position that the row at `position` sees through a window of `window` positions; window 0: all.
inline int first_seen(int position, int window) { return window > 0 ? std::max(0, position - window + 1) : 0; }

inline LoneAnswer lone_answer(std::span<const TokenId> prompt, const SimulatedKey& key,
                              const SimulatedSampling& sampling, int max_new_tokens, int window) {
  LoneAnswer answer;
  std::vector<std::uint64_t> tags;  // [tokens]
  const auto add = [&](TokenId token) {
    tags.push_back(key.tag(tags.empty() ? 0 : tags.back(), tags.size(), token));
    const int position = static_cast<int>(answer.tokens.size());
    const bool goes_on = window == 0 && position > 0;  // the tags of the row before, and one more
    std::uint64_t sum = goes_on ? answer.sums.back() : 0;
    for (int i = goes_on ? position : first_seen(position, window); i <= position; ++i) {
      sum = read_on(sum, tags[static_cast<std::size_t>(i)]);
    }
    answer.tokens.push_back(token);
    answer.sums.push_back(sum);
  };
  for (const TokenId token : prompt) add(token);
  for (int i = 0; i < max_new_tokens; ++i) {
    const TokenId token = sampling.pick(answer.sums.back(), static_cast<int>(answer.tokens.size()));
    add(token);
    if (sampling.ends(token)) break;
  }
  return answer;
}

// The block table of a text: blocks[i] holds the positions of block first + i.
struct SimulatedTable {
  int first = 0;
  std::span<const std::int32_t> blocks = {};
};

// The cache memory of the simulated model: one tag per slot.
class SimulatedEngine {
 public:
  SimulatedEngine(int blocks, int block_tokens)
      : block_tokens_(static_cast<std::size_t>(block_tokens)),
        slots_(static_cast<std::size_t>(blocks) * block_tokens_, 0xdead) {}

  // Copies in order, like copy_blocks.
  void copy(std::span<const BlockCopy> copies) {
    for (const BlockCopy& copy : copies) {
      const std::size_t from = static_cast<std::size_t>(copy.from) * block_tokens_;
      std::copy_n(slots_.begin() + static_cast<std::ptrdiff_t>(from), block_tokens_,
                  slots_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(copy.to) * block_tokens_));
    }
  }

  bool has(const SimulatedTable& table, int position) const {
    const int block = position / static_cast<int>(block_tokens_) - table.first;
    return block >= 0 && block < static_cast<int>(table.blocks.size());
  }
  std::int32_t block(const SimulatedTable& table, int position) const {
    return table.blocks[static_cast<std::size_t>(position / static_cast<int>(block_tokens_) - table.first)];
  }
  std::uint64_t& slot(const SimulatedTable& table, int position) {
    return slots_[static_cast<std::size_t>(block(table, position)) * block_tokens_ +
                  static_cast<std::size_t>(position) % block_tokens_];
  }

  // The sum of the tags that the row at `position` sees.
  std::uint64_t read(const SimulatedTable& table, int position, int window) {
    std::uint64_t sum = 0;
    for (int i = first_seen(position, window); i <= position; ++i) sum = read_on(sum, slot(table, i));
    return sum;
  }

 private:
  std::size_t block_tokens_;
  std::vector<std::uint64_t> slots_;  // [blocks, block_tokens]
};

}  // namespace tenon::testing::detail
