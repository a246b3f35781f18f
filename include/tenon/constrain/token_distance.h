// The distance from the end of a text after each token.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/row_cache.h"
#include "tenon/constrain/token_walk.h"
#include "tenon/constrain/vocabulary.h"

namespace tenon::constrain {

/// Distances, in bytes, for one automaton and one vocabulary, which must outlive the object. A state must always be
/// used with the same trie.
class TokenDistances {
 public:
  using State = Automaton::State;
  static constexpr int kForbidden = std::numeric_limits<int>::max();  ///< the token is not allowed

  /// Least and greatest distance over the allowed tokens; kForbidden and 0 where there are none.
  struct Extent {
    int nearest = kForbidden, farthest = 0;  ///< bytes to the end
  };

  TokenDistances(Automaton& automaton, const Vocabulary& vocabulary)
      : automaton_(automaton), path_(vocabulary.longest() + 1), rows_(kMostRows, kMostBytes) {}

  /// The extent over trie.tokens() at a state.
  Extent extent(State state, const TokenTrie& trie) { return row(state, trie).extent; }

  /// Calls visit(id) for each of trie.tokens() that is forbidden or after which the end is more than `most` bytes away.
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
      visit_all(walk(state, trie));  // rare: more than kFar tokens are left
  }

  /// Size of the cached rows.
  std::size_t bytes() const { return rows_.bytes(); }

 private:
  // A row of 50,000 tokens has 100 kB.
  static constexpr std::size_t kMostRows = 512, kMostBytes = std::size_t{32} << 20;
  static constexpr int kFar = std::numeric_limits<std::uint16_t>::max();  // this distance or more, or forbidden

  struct Row {
    std::vector<std::uint16_t> bytes;  // [trie.tokens()]
    Extent extent;

    std::size_t size() const { return bytes.size() * sizeof(std::uint16_t); }
  };

  std::vector<int> walk(State state, const TokenTrie& trie);

  // Valid until the next call.
  const Row& row(State state, const TokenTrie& trie);

  static Extent extent_of(std::span<const int> row);

  Automaton& automaton_;
  std::vector<State> path_;  // [longest token's bytes + 1], by depth
  RowCache<Row> rows_;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/token_distance-inl.h"
#endif
