// A model without weights whose tokens prove where they were read: every cache slot holds a tag, the hash of the text
// up to there, and a token is made of all tags of its text as the block table finds them. A block that is wrong, stale,
// shared by mistake, not copied or not written changes the answer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/hash.h"

namespace tenon::testing::detail {

inline std::uint64_t first_tag(std::string_view identity) { return hash64(identity, 1); }
inline std::uint64_t next_tag(std::uint64_t tag, TokenId token) {
  return mix64(tag + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(token) + 1));
}
// Reading goes over tags in order of position; the order counts.
inline std::uint64_t read_on(std::uint64_t sum, std::uint64_t tag) { return mix64(sum ^ tag) + 1; }

// How a token is picked from the sum of a text, and which ones end it.
struct SimulatedSampling {
  bool greedy = true;
  std::uint64_t seed = 0;
  int stop_every = 0;  // a token that this divides ends the answer; 0: none does

  TokenId pick(std::uint64_t sum, int position) const {
    const std::uint64_t draw = greedy ? 0 : mix64(seed + 0x9e3779b97f4a7c15U * static_cast<std::uint64_t>(position));
    return static_cast<TokenId>(mix64(sum ^ draw) & 0xfffff);
  }
  bool ends(TokenId token) const { return stop_every > 0 && token % stop_every == 0; }
};

// What a request answers when it is alone, without queue, ledger or blocks.
struct LoneAnswer {
  std::vector<TokenId> tokens;      // the prompt, then what is generated
  std::vector<std::uint64_t> sums;  // [tokens] of the text up to and with each token
};

inline LoneAnswer lone_answer(std::span<const TokenId> prompt, std::string_view identity,
                              const SimulatedSampling& sampling, int max_new_tokens) {
  LoneAnswer answer;
  std::uint64_t tag = first_tag(identity), sum = 0;
  const auto add = [&](TokenId token) {
    tag = next_tag(tag, token);
    sum = read_on(sum, tag);
    answer.tokens.push_back(token);
    answer.sums.push_back(sum);
  };
  for (const TokenId token : prompt) add(token);
  for (int i = 0; i < max_new_tokens; ++i) {
    const TokenId token = sampling.pick(sum, static_cast<int>(answer.tokens.size()));
    add(token);
    if (sampling.ends(token)) break;
  }
  return answer;
}

// The memory of the cache: one tag a slot.
class SimulatedEngine {
 public:
  SimulatedEngine(int blocks, int block_tokens)
      : block_tokens_(static_cast<std::size_t>(block_tokens)),
        slots_(static_cast<std::size_t>(blocks) * block_tokens_, 0xdead) {}

  // In order, as copy_blocks does.
  void copy(std::span<const BlockCopy> copies) {
    for (const BlockCopy& copy : copies) {
      const std::size_t from = static_cast<std::size_t>(copy.from) * block_tokens_;
      std::copy_n(slots_.begin() + static_cast<std::ptrdiff_t>(from), block_tokens_,
                  slots_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(copy.to) * block_tokens_));
    }
  }

  std::int32_t block(std::span<const std::int32_t> table, int position) const {
    return table[static_cast<std::size_t>(position) / block_tokens_];
  }
  void write(std::span<const std::int32_t> table, int position, std::uint64_t tag) {
    slots_[slot(table, static_cast<std::size_t>(position))] = tag;
  }

  // The sum of the first so many slots of a text, and in `each` (if it is given) the sums on the way there.
  std::uint64_t read(std::span<const std::int32_t> table, int tokens,
                     std::vector<std::uint64_t>* each = nullptr) const {
    std::uint64_t sum = 0;
    for (std::size_t position = 0; position < static_cast<std::size_t>(tokens); ++position) {
      sum = read_on(sum, slots_[slot(table, position)]);
      if (each) each->push_back(sum);
    }
    return sum;
  }

 private:
  std::size_t slot(std::span<const std::int32_t> table, std::size_t position) const {
    return static_cast<std::size_t>(table[position / block_tokens_]) * block_tokens_ + position % block_tokens_;
  }

  std::size_t block_tokens_;
  std::vector<std::uint64_t> slots_;  // [blocks, block_tokens]
};

}  // namespace tenon::testing::detail
