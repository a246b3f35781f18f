// How far from the end of a text tokens lead.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/constrain/automaton.h"
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
      : automaton_(automaton), path_(vocabulary.longest() + 1) {}

  Extent extent(State state, const TokenTrie& trie) {
    const auto found = extents_.find(state);
    return found != extents_.end() ? found->second : extent_of(row(state, trie));
  }

  // Bytes to the end behind each of trie.tokens(); valid until the next call.
  std::span<const int> row(State state, const TokenTrie& trie) {
    const auto found = rows_.find(state);
    if (found != rows_.end()) {
      found->second.used = ++clock_;
      return found->second.bytes;
    }
    Row made{walk(state, trie), ++clock_};
    extents_.emplace(state, extent_of(made.bytes));
    if (rows_.size() >= kMostRows) {
      const auto sooner = [](const auto& a, const auto& b) { return a.second.used < b.second.used; };
      rows_.erase(std::min_element(rows_.begin(), rows_.end(), sooner));
    }
    return rows_.emplace(state, std::move(made)).first->second.bytes;
  }

 private:
  static constexpr std::size_t kMostRows = 32;  // of 200 kB for 50,000 tokens

  struct Row {
    std::vector<int> bytes;
    std::uint64_t used = 0;
  };

  static Extent extent_of(std::span<const int> row) {
    Extent extent;
    for (const int bytes : row) {
      extent.nearest = std::min(extent.nearest, bytes);
      if (bytes != kForbidden) extent.farthest = std::max(extent.farthest, bytes);
    }
    return extent;
  }

  std::vector<int> walk(State state, const TokenTrie& trie) {
    std::vector<int> row(trie.tokens().size(), kForbidden);
    const auto set = [&](std::size_t begin, std::size_t end, int bytes) {  // nodes
      std::fill(row.begin() + trie.node(begin).first, row.begin() + trie.node(end).first, bytes);
    };
    path_[0] = state;
    for (std::size_t i = 0; i < trie.size();) {
      const TokenTrie::Node& node = trie.node(i);
      const State next = automaton_.step(path_[node.depth - 1u], node.byte);
      if (next == Automaton::kDead) {
        i = node.end;
        continue;
      }
      if (const TokenTrie::Inside* inside = trie.inside(i)) {
        const ByteSet* const staying = automaton_.staying(next, node.byte);
        if (staying && (inside->characters & ~*staying).empty()) {
          set(i, node.end, automaton_.distance(next));
          i = node.end;
          continue;
        }
      }
      path_[node.depth] = next;
      if (trie.node(i + 1).first > node.first) set(i, i + 1, automaton_.distance(next));
      ++i;
    }
    return row;
  }

  Automaton& automaton_;
  std::vector<State> path_;  // [longest token's bytes + 1], by depth
  std::unordered_map<State, Row> rows_;
  std::unordered_map<State, Extent> extents_;
  std::uint64_t clock_ = 0;
};

}  // namespace tenon::constrain
