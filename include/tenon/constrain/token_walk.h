// Finds the tokens that an automaton accepts in one walk over their trie.
#pragma once
#include <cstddef>
#include <span>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/vocabulary.h"

namespace tenon::constrain {

/// Visits each node of the trie that the automaton reaches from `state`. `next` is its state there.
/// inside(i, next) is called where many tokens lie below node i and trie.inside(i) describes them. It returns true if
/// it has handled all of them. reach(i, next) is called for each node that was not handled so. path: scratch, longer
/// than the longest token.
template <class Inside, class Reach>
void walk_tokens(Automaton& automaton, const TokenTrie& trie, Automaton::State state, std::span<Automaton::State> path,
                 Inside&& inside, Reach&& reach) {
  path[0] = state;
  for (std::size_t i = 0; i < trie.size();) {
    const TokenTrie::Node& node = trie.node(i);
    const Automaton::State next = automaton.step(path[node.depth - 1u], node.byte);
    if (next == Automaton::kDead || (trie.inside(i) && inside(i, next))) {
      i = node.end;
      continue;
    }
    path[node.depth] = next;
    reach(i, next);
    ++i;
  }
}

}  // namespace tenon::constrain
