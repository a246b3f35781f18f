// How far from the end of a text tokens lead.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/row_cache.h"
#include "tenon/constrain/token_walk.h"
#include "tenon/constrain/vocabulary.h"

namespace tenon::constrain {

// Of one automaton and one vocabulary, which must outlive it. A state is always asked for with the same trie.
class TokenDistances {
 public:
  using State = Automaton::State;
  static constexpr int kForbidden = std::numeric_limits<int>::max();  // where a token must not come

  // Of those that may come; kForbidden and 0 where there are none.
  struct Extent {
    int nearest = kForbidden, farthest = 0;
  };

  TokenDistances(Automaton& automaton, const Vocabulary& vocabulary)
      : automaton_(automaton), path_(vocabulary.longest() + 1), rows_(kMostRows, kMostBytes) {}

  Extent extent(State state, const TokenTrie& trie) { return row(state, trie).extent; }

  // Each of trie.tokens() behind which the end is farther than `most` bytes, and those that must not come.
  template <class Visit>
  void for_beyond(State state, const TokenTrie& trie, int most, Visit&& visit) {
    const auto visit_all = [&](const auto& all) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (static_cast<int>(all[i]) > most) visit(trie.tokens()[i]);
      }
    };
    const Row& kept = row(state, trie);
    if (most < kFar)
      visit_all(kept.bytes);
    else if (kept.extent.farthest > most)
      visit_all(walk(state, trie));  // rare: an answer of so many tokens
  }

  std::size_t bytes() const { return rows_.bytes(); }

 private:
  static constexpr std::size_t kMostRows = 512, kMostBytes = std::size_t{32} << 20;  // of 100 kB for 50,000 tokens
  static constexpr int kFar = std::numeric_limits<std::uint16_t>::max();             // or farther, or forbidden

  struct Row {
    std::vector<std::uint16_t> bytes;  // [trie.tokens()]
    Extent extent;

    std::size_t size() const { return bytes.size() * sizeof(std::uint16_t); }
  };

  std::vector<int> walk(State state, const TokenTrie& trie) {
    std::vector<int> row(trie.tokens().size(), kForbidden);
    const auto set = [&](std::size_t begin, std::size_t end, int bytes) {  // nodes
      std::fill(row.begin() + trie.node(begin).first, row.begin() + trie.node(end).first, bytes);
    };
    const auto inside = [&](std::size_t i, State next) {
      const TokenTrie::Node& node = trie.node(i);
      const ByteSet* const staying = automaton_.staying(next, node.byte);
      if (!staying || !(trie.inside(i)->characters & ~*staying).empty()) return false;
      set(i, node.end, automaton_.distance(next));
      return true;
    };
    const auto reach = [&](std::size_t i, State next) {
      if (trie.node(i + 1).first > trie.node(i).first) set(i, i + 1, automaton_.distance(next));
    };
    walk_tokens(automaton_, trie, state, path_, inside, reach);
    return row;
  }

  // Valid until the next call.
  const Row& row(State state, const TokenTrie& trie) {
    if (const Row* kept = rows_.find(state)) return *kept;
    const std::vector<int> distances = walk(state, trie);
    Row made{{}, extent_of(distances)};
    made.bytes.reserve(distances.size());
    for (const int bytes : distances) made.bytes.push_back(static_cast<std::uint16_t>(std::min(bytes, kFar)));
    return rows_.keep(state, std::move(made));
  }

  static Extent extent_of(std::span<const int> row) {
    Extent extent;
    for (const int bytes : row) {
      extent.nearest = std::min(extent.nearest, bytes);
      if (bytes != kForbidden) extent.farthest = std::max(extent.farthest, bytes);
    }
    return extent;
  }

  Automaton& automaton_;
  std::vector<State> path_;  // [longest token's bytes + 1], by depth
  RowCache<Row> rows_;
};

}  // namespace tenon::constrain
