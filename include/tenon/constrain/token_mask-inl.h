#pragma once
#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/constrain/token_mask.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE TokenMasks::TokenMasks(Automaton& automaton, const Vocabulary& vocabulary)
    : automaton_(automaton),
      vocabulary_(vocabulary),
      rows_(kMostRows, kMostBytes),
      distances_(automaton, vocabulary),
      path_(vocabulary.longest() + 1) {
  mask(automaton.start());
}

TENON_INLINE std::span<const MaskWord> TokenMasks::mask(State state) {
  automaton_.begin_step();
  const auto run = automaton_.run(state);
  if (!run || !(run->most == kUnbounded || automaton_.run_ends_in_quote(state)))
    return row_of(state, vocabulary_.trie());
  const auto others = row_of(with_capped_run(state, *run), vocabulary_.remainder());
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

TENON_INLINE std::span<const MaskWord> TokenMasks::mask_within(State state, int tokens) {
  const auto may = mask(state);
  const auto run = automaton_.run(state);
  if (run && automaton_.run_ends_in_quote(state)) return mask_within_string(state, *run, may, tokens);
  const TokenTrie& trie = vocabulary_.trie();
  const TokenDistances::Extent extent = distances_.extent(state, trie);
  if (extent.farthest < tokens) return may;
  const int most = automaton_.distance(state) <= tokens ? tokens - 1 : std::max(tokens - 1, extent.nearest);
  within_.assign(may.begin(), may.end());
  forbid_beyond(state, trie, most);
  return within_;
}

TENON_INLINE TokenMasks::State TokenMasks::advance(State state, TokenId token) {
  const std::string_view bytes = vocabulary_.bytes(token);
  if (bytes.empty()) return Automaton::kDead;
  automaton_.begin_step();
  for (const char byte : bytes) {
    state = automaton_.step(state, static_cast<std::uint8_t>(byte));
    if (state == Automaton::kDead) break;
  }
  return state;
}

TENON_INLINE TokenMasks::State TokenMasks::advance(State state, TokenId token, BlankHabits& habits,
                                                   std::uint8_t& last) {
  const State next = advance(state, token);
  if (next == Automaton::kDead) return next;
  for (const char c : vocabulary_.bytes(token)) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (automaton_.may_be_blank(state)) habits.chose(last, byte == ' ');
    state = automaton_.step(state, byte);
    last = byte;
  }
  return next;
}

TENON_INLINE void TokenMasks::guess(State state, const BlankHabits& habits, std::uint8_t last, DraftWriter& out) {
  constexpr int kBytesOfToken = 8;
  const Budget& budget = automaton_.grammar().budget;
  if (budget.bytes() > budget.limits().bytes / 2) return;  // the states that are left are for masks
  automaton_.begin_step();
  std::string text;
  const auto most = static_cast<std::size_t>(std::max(out.room(), 0) * kBytesOfToken);
  while (text.size() < most) {
    const auto forced = automaton_.forced(state);
    if (!forced) break;
    last = forced->or_blank && habits.blank_after(last) ? ' ' : forced->byte;
    text.push_back(static_cast<char>(last));
    state = automaton_.step(state, last);
  }
  for (const TokenId token : vocabulary_.split(text))
    if (!out.add(token)) return;
}

TENON_INLINE bool TokenMasks::must_end(State state) {
  if (!automaton_.accepts(state)) return false;
  automaton_.begin_step();
  for (int byte = 0; byte < 256; ++byte) {
    if (automaton_.step(state, static_cast<std::uint8_t>(byte)) != Automaton::kDead) return false;
  }
  return true;
}

TENON_INLINE bool TokenMasks::must_end(State state, int tokens) {
  if (!automaton_.accepts(state)) return false;
  automaton_.begin_step();
  for (int byte = 0; byte < 256; ++byte) {  // usually one byte suffices and saves a walk
    const State next = automaton_.step(state, static_cast<std::uint8_t>(byte));
    if (next != Automaton::kDead && automaton_.distance(next) < tokens) return false;
  }
  return distances_.extent(state, vocabulary_.trie()).nearest >= tokens;
}

TENON_INLINE TokenMasks::State TokenMasks::with_capped_run(State state, Automaton::Run run) {
  const int longest = vocabulary_.longest_remainder();
  const bool far = run.most == kUnbounded || run.most > longest;
  return automaton_.with_run(state, {std::min(run.least, longest + 1), far ? kUnbounded : run.most});
}

TENON_INLINE std::span<const MaskWord> TokenMasks::mask_within_string(State state, Automaton::Run run,
                                                                      std::span<const MaskWord> may, int tokens) {
  const TokenTrie& others = vocabulary_.remainder();
  const State near = with_capped_run(state, run);
  // Amount by which `near` is nearer than `state`.
  const int nearer = std::max(run.least - (vocabulary_.longest_remainder() + 1), 0);
  const int behind = automaton_.distance(state) - run.least;
  const TokenDistances::Extent extent = distances_.extent(near, others);
  if (std::max(extent.farthest + nearer, behind + std::max(run.least - 1, 0)) < tokens) return may;
  int most = tokens - 1;
  if (automaton_.distance(state) > tokens) {
    int nearest = extent.nearest == TokenDistances::kForbidden ? extent.nearest : extent.nearest + nearer;
    if (const int count =
            vocabulary_.most_characters(run.most == kUnbounded ? std::numeric_limits<int>::max() : run.most);
        count > 0) {
      nearest = std::min(nearest, behind + std::max(run.least - count, 0));
    }
    most = std::max(most, nearest);
  }
  within_.assign(may.begin(), may.end());
  forbid_plain(most < behind ? kUnbounded : std::max(run.least - (most - behind), 0));
  forbid_beyond(near, others, most - nearer);
  return within_;
}

TENON_INLINE void TokenMasks::forbid_plain(int fewer) {
  if (fewer == 0 || fewer == 1) return;
  const bool all = fewer == kUnbounded;
  const auto plain = all ? vocabulary_.plain() : vocabulary_.plain_up_to(std::min(fewer - 1, Vocabulary::kRows));
  for (std::size_t w = 0; w < within_.size(); ++w) within_[w] &= ~plain[w];
  for (const TokenId id : vocabulary_.long_plain()) {
    if (all || vocabulary_.characters(id) >= fewer) break;
    forbid(within_, id);
  }
}

TENON_INLINE void TokenMasks::forbid_beyond(State state, const TokenTrie& trie, int most) {
  distances_.for_beyond(state, trie, most, [&](TokenId id) { forbid(within_, id); });
}

TENON_INLINE std::span<const MaskWord> TokenMasks::row_of(State state, const TokenTrie& trie) {
  if (const Row* kept = rows_.find(state)) return kept->bits;
  return rows_.keep(state, {walk(state, trie)}).bits;
}

TENON_INLINE std::vector<MaskWord> TokenMasks::walk(State state, const TokenTrie& trie) {
  std::vector<MaskWord> row(vocabulary_.words());
  State looping = Automaton::kDead;  // the state of `loop`; subtrees that stay in the loop are allowed as a whole
  Automaton::Loop loop;
  const auto inside = [&](std::size_t i, State next) {
    if (next != looping) loop = automaton_.loop(looping = next, trie.node(i).byte);
    const TokenTrie::Inside& below = *trie.inside(i);
    const bool fits = loop.most == kUnbounded || loop.most >= below.longest;
    if (!fits || !(below.characters & ~loop.characters).empty()) return false;
    for (const TokenId id : trie.subtree(i)) allow(row, id);
    return true;
  };
  const auto reach = [&](std::size_t i, State) {
    for (const TokenId id : trie.tokens(i)) allow(row, id);
  };
  walk_tokens(automaton_, trie, state, path_, inside, reach);
  if (automaton_.accepts(state)) {
    for (const TokenId id : vocabulary_.ends()) allow(row, id);
  }
  const bool whole = &trie == &vocabulary_.trie();
  if (whole && std::all_of(row.begin(), row.end(), [](MaskWord word) { return word == 0; }))
    refuse_unsupported("vocabulary", "no token continues the text: it needs a byte that is no token");
  return row;
}

}  // namespace tenon::constrain
