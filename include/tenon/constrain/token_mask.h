// Which tokens may come next, as rows of bits.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/vocabulary.h"

namespace tenon::constrain {

// Of one automaton and one vocabulary, which must outlive it. A token may come where each of its bytes may. Inside of a JSON
// string most of that is known beforehand: plain tokens may come if they have no more characters than there is room for.
class TokenMasks {
 public:
  using State = Automaton::State;

  TokenMasks(Automaton& automaton, const Vocabulary& vocabulary)
      : automaton_(automaton), vocabulary_(vocabulary), path_(vocabulary.longest() + 1) {
    const TokenTrie& remainder = vocabulary.remainder();
    for (std::size_t i = 0; i < remainder.size(); ++i) longest_remainder_ = std::max<int>(longest_remainder_, remainder.node(i).depth);
  }

  // words() of the vocabulary long; valid until the next call.
  std::span<const MaskWord> mask(State state) {
    automaton_.begin_step();
    const auto run = automaton_.run(state);
    if (!run || !(run->most == kUnbounded || automaton_.run_ends_in_quote(state))) return row_of(state, vocabulary_.trie());
    // Tokens that are not plain are so short that they cannot tell higher bounds from one another.
    const bool far = run->most == kUnbounded || run->most > longest_remainder_;
    const State near = automaton_.with_run(state, {std::min(run->least, longest_remainder_ + 1), far ? kUnbounded : run->most});
    const auto others = row_of(near, vocabulary_.remainder());
    const bool all = run->most == kUnbounded;
    const auto plain = all ? vocabulary_.plain() : vocabulary_.plain_up_to(std::min(run->most, Vocabulary::kRows));
    made_.resize(others.size());
    for (std::size_t w = 0; w < made_.size(); ++w) made_[w] = others[w] | plain[w];
    if (!all && run->most > Vocabulary::kRows) {
      for (const TokenId id : vocabulary_.long_plain()) {
        if (vocabulary_.characters(id) > run->most) break;
        allow(made_, id);
      }
    }
    return made_;
  }

  // kDead where the token must not come. A token that ends a text leads nowhere.
  State advance(State state, TokenId token) {
    const std::string_view bytes = vocabulary_.bytes(token);
    if (bytes.empty()) return Automaton::kDead;
    automaton_.begin_step();
    for (const char byte : bytes) {
      state = automaton_.step(state, static_cast<std::uint8_t>(byte));
      if (state == Automaton::kDead) break;
    }
    return state;
  }

  // Whether nothing but the end may come.
  bool must_end(State state) {
    if (!automaton_.accepts(state)) return false;
    automaton_.begin_step();
    for (int byte = 0; byte < 256; ++byte) {
      if (automaton_.step(state, static_cast<std::uint8_t>(byte)) != Automaton::kDead) return false;
    }
    return true;
  }

  Automaton& automaton() { return automaton_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  static constexpr std::size_t kMostRows = 512;

  struct Row {
    std::vector<MaskWord> bits;
    std::uint64_t used = 0;
  };

  // A state has one kind of row: what run() says of it never changes.
  std::span<const MaskWord> row_of(State state, const TokenTrie& trie) {
    const auto found = rows_.find(state);
    if (found != rows_.end()) {
      found->second.used = ++clock_;
      return found->second.bits;
    }
    Row made{walk(state, trie), ++clock_};
    if (rows_.size() >= kMostRows) {
      rows_.erase(std::min_element(rows_.begin(), rows_.end(), [](auto& a, auto& b) { return a.second.used < b.second.used; }));
    }
    return rows_.emplace(state, std::move(made)).first->second.bits;
  }

  std::vector<MaskWord> walk(State state, const TokenTrie& trie) {
    std::vector<MaskWord> row(vocabulary_.words());
    path_[0] = state;
    State looping = Automaton::kDead;  // the last that was asked for its loop: whole subtrees that stay in it may come
    Automaton::Loop loop;
    for (std::size_t i = 0; i < trie.size();) {
      const TokenTrie::Node& node = trie.node(i);
      const State next = automaton_.step(path_[node.depth - 1u], node.byte);
      if (next == Automaton::kDead) {
        i = node.end;
        continue;
      }
      if (const TokenTrie::Inside* inside = trie.inside(i)) {
        if (next != looping) loop = automaton_.loop(looping = next, node.byte);
        const bool fits = loop.most == kUnbounded || loop.most >= inside->longest;
        if (fits && (inside->characters & ~loop.characters).empty()) {
          for (const TokenId id : trie.subtree(i)) allow(row, id);
          i = node.end;
          continue;
        }
      }
      path_[node.depth] = next;
      for (const TokenId id : trie.tokens(i)) allow(row, id);
      ++i;
    }
    if (automaton_.accepts(state)) {
      for (const TokenId id : vocabulary_.ends()) allow(row, id);
    }
    return row;
  }

  Automaton& automaton_;
  const Vocabulary& vocabulary_;
  int longest_remainder_ = 0;  // bytes of a token that is not plain
  std::unordered_map<State, Row> rows_;
  std::vector<MaskWord> made_;
  std::vector<State> path_;  // [longest token's bytes + 1], by depth
  std::uint64_t clock_ = 0;
};

}  // namespace tenon::constrain
