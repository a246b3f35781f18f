/// The laws of CachePolicy: `free_tokens` is never too high, and tokens stay as they were written. If a ledger trims,
/// they stay while rows see them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/testing/fits.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

// One ledger and its storage, checked against a model that knows only how many tokens each sequence has.
template <class P>
class CacheTrial {
  using Ledger = typename P::Ledger;
  using View = typename P::View;
  using Element = typename View::Element;

 public:
  CacheTrial(const KvShape& shape, int tokens, Violations& broken)
      : shape_(shape),
        tokens_(tokens),
        broken_(broken),
        ledger_(P::ledger(shape, tokens)),
        bytes_(P::bytes(shape, tokens)),
        memory_(bytes_ / sizeof(std::max_align_t) + 1) {}

  void capacity() {
    const int all = ledger_.free_tokens(), most = ledger_.capacity_tokens(), whole = at_once(most);
    note(broken_, most >= 1 && whole <= all, "cache: an empty cache has room for at least one whole sequence");
    note(broken_, ledger_.grow(0, whole), "cache: a sequence can grow to the capacity at once");
    note(broken_, whole < most || !ledger_.grow(0, 1), "cache: a sequence cannot grow beyond the capacity");
    const int least = ledger_.free_tokens();
    ledger_.release(0);
    for (int i = 0; i < most; ++i) {
      note(broken_, ledger_.grow(0, 1), "cache: a sequence can grow to the capacity by ones");
      note(broken_, ledger_.free_tokens() >= least, "cache: a sequence never holds more than held_at_most");
      pass(0, i + 1);
    }
    note(broken_, !ledger_.grow(0, 1), "cache: a sequence cannot grow beyond the capacity");
    ledger_.release(0);
    note(broken_, ledger_.free_tokens() == all, "cache: release gives everything back");
  }

  // A sequence that holds held_at_most reaches its end, even if nothing is free.
  void promise() {
    const int most = ledger_.capacity_tokens(), all = ledger_.free_tokens();
    int held = at_once(most);
    note(broken_, ledger_.grow(0, held), "cache: a sequence can grow to the capacity at once");
    SeqId other = 0;
    const auto fill = [&] {
      while (ledger_.free_tokens() > 0 && ledger_.grow(++other, 1)) {
      }
    };
    for (int cached = 0; cached < most; ++cached) {
      fill();
      if (held == cached)
        note(broken_, ledger_.grow(0, 1), "cache: a sequence that holds held_at_most grows even if nothing is free");
      held = std::max(held, cached + 1);
      pass(0, cached + 1);
    }
    for (SeqId seq = 0; seq <= other; ++seq) ledger_.release(seq);
    note(broken_, ledger_.free_tokens() == all, "cache: release gives everything back");
  }

  void random_life(Random& random, int rounds) {
    const int all = ledger_.free_tokens(), most = ledger_.capacity_tokens();
    for (int round = 0; round < rounds; ++round) {
      const auto next = static_cast<SeqId>(round + 1);
      const bool fresh = live_.empty() || random.between(0, 2) == 0;
      const SeqId seq = fresh ? next : pick(random);
      const int before = ledger_.free_tokens();
      if (random.between(0, 4) == 0) {
        ledger_.release(seq);
        note(broken_, live_.erase(seq) > 0 || ledger_.free_tokens() == before,
             "cache: releasing an unknown sequence does nothing");
      } else if (TrimsSequences<Ledger> && random.between(0, 2) == 0) {
        trim(random, seq);
      } else if (ShrinksSequences<Ledger> && random.between(0, 3) == 0) {
        shrink(random, seq);
      } else {
        grow(seq, random.between(0, 9) == 0 ? ledger_.capacity_tokens() : random.between(1, 40));
      }
      if (live_.empty()) note(broken_, ledger_.free_tokens() == all, "cache: release gives everything back");
      note(broken_, ledger_.capacity_tokens() == most, "cache: capacity_tokens never changes");
      check_view();
    }
    for (const auto& [seq, held] : live_) ledger_.release(seq);
    note(broken_, ledger_.free_tokens() == all, "cache: release gives everything back");
  }

 private:
  SeqId pick(Random& random) const {
    return std::next(live_.begin(), random.between(0, static_cast<int>(live_.size()) - 1))->first;
  }

  // Tokens of a text of `tokens` that a sequence holds room for at once.
  int at_once([[maybe_unused]] int tokens) const {
    if constexpr (TrimsSequences<Ledger>) return ledger_.held_at_most(tokens);
    return tokens;
  }
  // The first position that the last of `tokens` rows sees.
  int first_seen(int tokens) const {
    const bool trims = TrimsSequences<Ledger> && shape_.window > 0;
    return trims ? std::max(0, tokens - shape_.window) : 0;
  }
  // `cached` tokens are cached, and every later row comes after them.
  void pass([[maybe_unused]] SeqId seq, [[maybe_unused]] int cached) {
    if constexpr (TrimsSequences<Ledger>) {
      if (shape_.window > 0) ledger_.trim(seq, cached - shape_.window + 1);
    }
  }

  // Trims as much as is allowed, or less, or positions that are already passed. An unknown sequence has nothing to
  // trim.
  void trim([[maybe_unused]] Random& random, [[maybe_unused]] SeqId seq) {
    if constexpr (TrimsSequences<Ledger>) {
      const int before = ledger_.free_tokens();
      const auto found = live_.find(seq);
      const int most = found == live_.end() ? shape_.positions : first_seen(found->second);
      ledger_.trim(seq, random.between(0, 3) > 0 ? most : random.between(-1, most));
      note(broken_, ledger_.free_tokens() >= before, "cache: trim takes nothing from what is free");
      note(broken_, found != live_.end() || ledger_.free_tokens() == before,
           "cache: trimming an unknown sequence does nothing");
      note(broken_, most > 0 || ledger_.free_tokens() == before, "cache: trim passes nothing that a row sees");
    }
  }

  // Shrinks a sequence to as many tokens as it holds, or fewer. It may take the room again.
  void shrink([[maybe_unused]] Random& random, [[maybe_unused]] SeqId seq) {
    if constexpr (ShrinksSequences<Ledger>) {
      const int before = ledger_.free_tokens();
      const auto found = live_.find(seq);
      if (found == live_.end()) {
        ledger_.shrink(seq, 1);
        note(broken_, ledger_.free_tokens() == before, "cache: shrinking an unknown sequence does nothing");
        return;
      }
      // A shorter text would see positions that the longer one has trimmed.
      const int held = found->second, kept = random.between(TrimsSequences<Ledger> ? held : 1, held);
      ledger_.shrink(seq, kept);
      found->second = kept;
      note(broken_, ledger_.free_tokens() >= before, "cache: shrink takes nothing from what is free");
      if (random.between(0, 1) == 0) return;
      note(broken_, ledger_.grow(seq, held - kept), "cache: a sequence grows into the room that it gave back");
      note(broken_, ledger_.free_tokens() == before, "cache: room that was given back is taken once");
      found->second = held;
      if (P::keeps_tokens) tag(seq, kept);
    }
  }

  void grow(SeqId seq, int tokens) {
    const int before = ledger_.free_tokens();
    const int held = live_.contains(seq) ? live_[seq] : 0;
    const bool grown = ledger_.grow(seq, tokens);
    if (held + tokens > ledger_.capacity_tokens()) {
      note(broken_, !grown, "cache: a sequence cannot grow beyond the capacity");
    } else if (tokens <= before && held + tokens <= at_once(held + tokens)) {
      note(broken_, grown, "cache: what free_tokens promises, grow keeps");
    }
    note(broken_, grown || ledger_.free_tokens() == before, "cache: grow is all or nothing");
    if (!grown) return;
    live_[seq] = held + tokens;
    if (P::keeps_tokens) tag(seq, held);
  }

  // A view of all living sequences, in a table of exactly the announced size.
  View view() {
    rows_.clear();
    int first = 0;
    for (const auto& [seq, held] : live_) {
      const int start = P::keeps_tokens ? held - 1 : 0;
      rows_.push_back({seq, first, held - start, start, static_cast<int>(rows_.size())});
      first += held - start;
    }
    const std::size_t entries = P::table_entries(shape_, rows_);
    constexpr std::size_t kGuards = 4096;  // a view that counts wrongly is caught before it harms the heap
    table_.assign(entries + kGuards, kGuard);
    const View v = P::view(shape_, tokens_, ledger_, rows_, memory_.data(), std::span(table_).first(entries));
    note(broken_,
         std::all_of(table_.begin() + static_cast<std::ptrdiff_t>(entries), table_.end(),
                     [](std::int32_t word) { return word == kGuard; }),
         "cache: a view writes no more table entries than it announced");
    return v;
  }

  // Calls f(element, tag) for every element of every live position, and for its scales. Tags of neighbours differ.
  template <class F>
  void each(const View& v, int sequence, SeqId seq, int from, int to, F&& f) {
    for (int layer = 0; layer < shape_.layers; ++layer) {
      for (int head = 0; head < shape_.heads; ++head) {
        for (int position = from; position < to; ++position) {
          const auto tile = v.tile(layer, sequence, head, position / kTilePositions);
          const int p = position % kTilePositions;
          auto key = static_cast<unsigned>(((layer * 31 + head) * 31 + position) * 31) * 2 + seq * 7919U;
          const auto tag = [&key] { return static_cast<unsigned char>(Random(key++).next()); };
          for (int d = 0; d < shape_.head_dim; ++d) {
            f(tile.keys[d * kTilePositions + p], tag());
            f(tile.values[p * shape_.value_stride() + d], tag());
          }
          if constexpr (has_scales<Element>) {
            f(tile.key_scales[p], tag());
            f(tile.value_scales[p], tag());
          }
        }
      }
    }
  }

  void tag(SeqId seq, int from) {
    const View v = view();
    if (!inside(v)) return;
    const auto sequence = static_cast<int>(std::distance(live_.begin(), live_.find(seq)));
    each(v, sequence, seq, std::max(from, first_seen(live_[seq])), live_[seq],
         [](auto& e, unsigned char t) { std::memset(static_cast<void*>(&e), t, sizeof e); });
  }

  void check_view() {
    const View v = view();
    if (!inside(v) || !P::keeps_tokens) return;
    int sequence = 0;
    for (const auto& [seq, held] : live_) {
      each(v, sequence++, seq, first_seen(held), held, [&](const auto& e, unsigned char t) {
        unsigned char expected[sizeof e];
        std::memset(expected, t, sizeof e);
        note(broken_, std::memcmp(&e, expected, sizeof e) == 0, "cache: tokens stay as they were written");
      });
    }
  }

  // Whether all tiles lie within the storage and share no memory. Layers may share it if nothing outlives a step.
  bool inside(const View& v) {
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> spans;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data()), end = begin + bytes_;
    bool within = true, apart = true;
    for (int layer = 0; layer < shape_.layers; ++layer) {
      if (!P::keeps_tokens) spans.clear();
      for (std::size_t s = 0; s < rows_.size(); ++s) {
        const int tokens = rows_[s].start + rows_[s].rows;
        const int from = first_seen(tokens) / kTilePositions, to = (tokens + kTilePositions - 1) / kTilePositions;
        for (int i = 0; i < shape_.heads * (to - from); ++i) {
          const auto tile = v.tile(layer, static_cast<int>(s), i / (to - from), from + i % (to - from));
          spans.push_back(extent(tile.keys, shape_.head_dim));
          spans.push_back(extent(tile.values, shape_.value_stride()));
          if constexpr (has_scales<Element>) {
            spans.push_back(extent(tile.key_scales, 1));
            spans.push_back(extent(tile.value_scales, 1));
          }
        }
      }
      std::sort(spans.begin(), spans.end());
      for (std::size_t i = 0; i < spans.size(); ++i) {
        within = within && spans[i].first >= begin && spans[i].second <= end;
        apart = apart && (i == 0 || spans[i - 1].second <= spans[i].first);
      }
    }
    note(broken_, within, "cache: every tile lies within the storage");
    note(broken_, apart, "cache: no two tiles share memory");
    return within && apart;
  }
  template <class T>
  static std::pair<std::uintptr_t, std::uintptr_t> extent(const T* part /* [16, columns] */, int columns) {
    const auto first = reinterpret_cast<std::uintptr_t>(part);
    return {first, first + sizeof(T) * static_cast<std::size_t>(kTilePositions * columns)};
  }

  static constexpr std::int32_t kGuard = 0x5a5a5a5a;
  KvShape shape_;
  int tokens_;
  Violations& broken_;
  Ledger ledger_;
  std::size_t bytes_;
  std::vector<std::max_align_t> memory_;
  std::vector<std::int32_t> table_;
  std::vector<SequenceRows> rows_;
  std::map<SeqId, int> live_;  // number of tokens of each
};

}  // namespace detail

/// Runs a cache through random lives of sequences, on the host: its ledger, addresses, and tags that must stay. Pass a
/// shape with a window for a cache whose ledger trims; other caches keep all positions.
template <class P>
Violations cache_laws(KvShape shape = {2, 2, 5, 70}, int tokens = 400) {
  detail::must_fit<Cache<P>>();
  Violations broken;
  if constexpr (detail::fits<Cache<P>>) {
    try {
      detail::CacheTrial<P>(shape, tokens, broken).capacity();
      detail::CacheTrial<P>(shape, tokens, broken).promise();
      Random random(7);
      for (int life = 0; life < 4; ++life) detail::CacheTrial<P>(shape, tokens, broken).random_life(random, 120);
    } catch (const std::exception& e) {
      broken.push_back(std::string("cache: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

}  // namespace tenon::testing
