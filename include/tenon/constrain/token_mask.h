// The tokens that may come next, as rows of bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/blank_habits.h"
#include "tenon/constrain/row_cache.h"
#include "tenon/constrain/token_distance.h"
#include "tenon/constrain/token_walk.h"
#include "tenon/constrain/vocabulary.h"
#include "tenon/core/draft.h"

namespace tenon::constrain {

/// Masks for one automaton and one vocabulary, which must outlive the object. A token is allowed if each of its bytes
/// is. Inside a JSON string most of a mask is known in advance: a plain token is allowed if the string has room for its
/// characters.
class TokenMasks {
 public:
  using State = Automaton::State;

  /// Makes the first mask, which often leads to more new states than any other. The thread that compiles pays for it,
  /// not an engine.
  TokenMasks(Automaton& automaton, const Vocabulary& vocabulary);

  /// The allowed tokens; [vocabulary.words()], valid until the next call.
  std::span<const MaskWord> mask(State state);

  /// The allowed tokens after which the text can end within `tokens` tokens, the token itself included. Every byte is a
  /// token, so bytes are counted. If there is no such token: the tokens that lead nearest to the end.
  std::span<const MaskWord> mask_within(State state, int tokens);

  /// The state after the token; kDead where the token is not allowed, or has no bytes.
  State advance(State state, TokenId token);

  /// The same, and learns where the text puts blanks. last: the byte before the token; it becomes the token's last.
  State advance(State state, TokenId token, BlankHabits& habits, std::uint8_t& last);

  /// Whether only the end may come.
  bool must_end(State state);

  /// The same with `tokens` tokens left.
  bool must_end(State state, int tokens);

  /// Guesses the tokens of the text that must come next (Vocabulary::split), with blanks as its habits are. last: the
  /// byte before it.
  void guess(State state, const BlankHabits& habits, std::uint8_t last, DraftWriter& out);

  /// Size of the cached rows.
  std::size_t bytes() const { return rows_.bytes() + distances_.bytes(); }
  Automaton& automaton() { return automaton_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  static constexpr std::size_t kMostRows = 512, kMostBytes = std::size_t{32} << 20;  // a row of 50,000 tokens has 6 kB

  struct Row {
    std::vector<MaskWord> bits;

    std::size_t size() const { return bits.size() * sizeof(MaskWord); }
  };

  // Caps the bounds of the run: tokens that are not plain are too short to distinguish larger bounds.
  State with_capped_run(State state, Automaton::Run run);

  // A plain token uses up its characters of the least number that must come. After these, the end is equally far from
  // every state of the run.
  std::span<const MaskWord> mask_within_string(State state, Automaton::Run run, std::span<const MaskWord> may,
                                               int tokens);

  // Forbids plain tokens with fewer than `fewer` characters; kUnbounded: all plain tokens.
  void forbid_plain(int fewer);
  void forbid_beyond(State state, const TokenTrie& trie, int most);

  // A state always has the same kind of row, because its run() never changes.
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
