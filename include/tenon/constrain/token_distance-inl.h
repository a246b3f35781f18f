#pragma once
#include <algorithm>
#include <utility>

#include "tenon/constrain/token_distance.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE std::vector<int> TokenDistances::walk(State state, const TokenTrie& trie) {
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

TENON_INLINE const TokenDistances::Row& TokenDistances::row(State state, const TokenTrie& trie) {
  if (const Row* kept = rows_.find(state)) return *kept;
  const std::vector<int> distances = walk(state, trie);
  Row made{{}, extent_of(distances)};
  made.bytes.reserve(distances.size());
  for (const int bytes : distances) made.bytes.push_back(static_cast<std::uint16_t>(std::min(bytes, kFar)));
  return rows_.keep(state, std::move(made));
}

TENON_INLINE TokenDistances::Extent TokenDistances::extent_of(std::span<const int> row) {
  Extent extent;
  for (const int bytes : row) {
    extent.nearest = std::min(extent.nearest, bytes);
    if (bytes != kForbidden) extent.farthest = std::max(extent.farthest, bytes);
  }
  return extent;
}

}  // namespace tenon::constrain
