// Which tokens may come next, as rows of bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/row_cache.h"
#include "tenon/constrain/token_distance.h"
#include "tenon/constrain/token_walk.h"
#include "tenon/constrain/vocabulary.h"

namespace tenon::constrain {

// Of one automaton and one vocabulary, which must outlive it. A token may come where each of its bytes may. Inside of a
// JSON string most of that is known beforehand: plain tokens may come if they have no more characters than there is
// room for.
class TokenMasks {
 public:
  using State = Automaton::State;

  // Makes the first mask, which often leads to more new states than any other: who compiles waits for it, not an
  // engine.
  TokenMasks(Automaton& automaton, const Vocabulary& vocabulary);

  // words() of the vocabulary long; valid until the next call.
  std::span<const MaskWord> mask(State state);

  // Of those, the tokens after which so many, itself among them, can end the text: every byte is a token, so bytes
  // count. Where none can, those that lead nearest to the end.
  std::span<const MaskWord> mask_within(State state, int tokens);

  // kDead where the token must not come. A token that ends a text leads nowhere.
  State advance(State state, TokenId token);

  // Whether nothing but the end may come.
  bool must_end(State state);

  // The same where so many tokens are left.
  bool must_end(State state, int tokens);

  // Of rows.
  std::size_t bytes() const { return rows_.bytes() + distances_.bytes(); }
  Automaton& automaton() { return automaton_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  static constexpr std::size_t kMostRows = 512, kMostBytes = std::size_t{32} << 20;  // of 6 kB for 50,000 tokens

  struct Row {
    std::vector<MaskWord> bits;

    std::size_t size() const { return bits.size() * sizeof(MaskWord); }
  };

  // Tokens that are not plain are so short that they cannot tell higher bounds from one another.
  State nearby(State state, Automaton::Run run);

  // A plain token takes its characters of the least that must come; behind these the end is equally far from
  // everywhere.
  std::span<const MaskWord> mask_within_string(State state, Automaton::Run run, std::span<const MaskWord> may,
                                               int tokens);

  // Plain tokens of fewer characters; kUnbounded: of any number.
  void forbid_plain(int fewer);
  void forbid_beyond(State state, const TokenTrie& trie, int most);

  // A state has one kind of row: what run() says of it never changes.
  std::span<const MaskWord> row_of(State state, const TokenTrie& trie);

  std::vector<MaskWord> walk(State state, const TokenTrie& trie);

  Automaton& automaton_;
  const Vocabulary& vocabulary_;
  RowCache<Row> rows_;
  TokenDistances distances_;
  std::vector<MaskWord> made_, within_;
  std::vector<State> path_;  // [longest token's bytes + 1], by depth
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/token_mask-inl.h"
#endif
