// The tokens that an automaton takes, found in one walk over their trie.
#pragma once
#include <cstddef>
#include <span>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/vocabulary.h"

namespace tenon::constrain {

// Calls for each node of the trie that the automaton gets to from `state`, with the state that it is in there:
// inside(i, next) where many tokens lie below node i and trie.inside(i) tells of them; true if it has dealt with all,
// reach(i, next) for each that is not dealt with so.
// path: scratch, longer than the longest token.
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
