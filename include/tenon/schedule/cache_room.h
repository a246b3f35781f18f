// A sequence's room in the cache: how it moves in, grows and moves out.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/schedule/sequence.h"

namespace tenon {

/// Whether the ledger forks sequences: a ForksSequences that was not chosen at run time, or whose chosen ledger is one.
template <CacheLedger L>
bool forks_sequences([[maybe_unused]] const L& ledger) {
  if constexpr (ChoosesLedger<L>) return ledger.forks();
  return ForksSequences<L>;
}

/// Likewise for ShrinksSequences.
template <CacheLedger L>
bool shrinks_sequences([[maybe_unused]] const L& ledger) {
  if constexpr (ChoosesLedger<L>) return ledger.shrinks();
  return ShrinksSequences<L>;
}

/// The rules by which sequences take and return cache.
struct CacheRoom {
  bool keeps_tokens = true;     ///< CachePolicy::keeps_tokens
  bool reuses_prefixes = true;  ///< a newcomer may begin with cached prefixes of others
  int window = 0;               ///< positions that a row of the model sees, its own included; 0: all before it

  /// Free tokens that running all pending tokens of the sequence would use. parent: null if it has ended.
  template <CacheLedger L>
  int need(const L& ledger, const Sequence& s, const Sequence* parent) const {
    const int end = at_once(ledger, s.preemptible() || !keeps_tokens ? s.known() : s.cache_end());
    if (s.state == Sequence::State::running) return std::max(0, end - s.reserved);
    if (const int shared = shared_with(ledger, s, parent); shared > 0) return end - shared;
    if constexpr (ReusesPrefixes<L>) {
      if (reuses_prefixes) {
        const PrefixMatch match = ledger.match(reusable(s), s.identity);
        return end - match.tokens + match.idle;
      }
    }
    return end;
  }

  /// Gives a newcomer its parent's prompt, or a cached prefix. A sequence beyond the bound on preemptions gets room to
  /// its end, too. False, and nothing is held, if the cache lacks that room.
  template <CacheLedger L>
  bool move_in(L& ledger, Sequence& s, const Sequence* parent) const {
    if (!keeps_tokens) return true;
    if (!fork(ledger, s, parent)) {
      if constexpr (ReusesPrefixes<L>) {
        if (reuses_prefixes) s.reused = s.cached = s.reserved = ledger.reuse(s.seq, reusable(s), s.identity);
      }
    }
    const int to_its_end = at_once(ledger, s.cache_end() - s.cached);
    if (s.preemptible() || reserve(ledger, s, to_its_end) >= to_its_end) return true;
    give_back(ledger, s);
    return false;
  }

  /// Reserves room for up to `wanted` tokens after the cached ones; returns the number of tokens that have room.
  template <CacheLedger L>
  int reserve(L& ledger, Sequence& s, int wanted) const {
    const int missing = wanted - (s.reserved - s.cached);
    if (missing > 0 && ledger.grow(s.seq, missing)) {
      s.reserved += missing;
    } else if (missing > 0 && keeps_tokens) {
      // `grow` is all or nothing: halving finds all that fits without knowledge of blocks.
      for (int part = static_cast<int>(std::bit_floor(static_cast<unsigned>(missing))); part > 0; part /= 2) {
        if (ledger.grow(s.seq, part)) s.reserved += part;
      }
    } else if (missing > 0) {
      return 0;
    }
    return s.reserved - s.cached;
  }

  /// Gives back positions before the window of the row at position `next`.
  template <CacheLedger L>
  void trim([[maybe_unused]] L& ledger, [[maybe_unused]] const Sequence& s, [[maybe_unused]] int next) const {
    if constexpr (TrimsSequences<L>) {
      if (window > 0 && next >= window) ledger.trim(s.seq, next - window + 1);
    }
  }

  /// Gives back the room of wrong guesses. A sequence beyond the bound on preemptions keeps its room to its end.
  template <CacheLedger L>
  void shrink([[maybe_unused]] L& ledger, [[maybe_unused]] Sequence& s) const {
    if constexpr (ShrinksSequences<L>) {
      if (!shrinks_sequences(ledger) || s.reserved <= s.known() || !s.preemptible()) return;
      ledger.shrink(s.seq, s.known());
      s.reserved = s.known();
    }
  }

  /// Lets other sequences find the first `tokens` tokens of this one, which are cached, from now on.
  template <CacheLedger L>
  void publish([[maybe_unused]] L& ledger, [[maybe_unused]] const Sequence& s, [[maybe_unused]] int tokens) const {
    if constexpr (ReusesPrefixes<L>) {
      if (reuses_prefixes)
        ledger.publish(s.seq, std::span(s.tokens).first(static_cast<std::size_t>(std::min(tokens, s.share_limit))),
                       s.identity);
    }
  }

  /// Gives all cache of the sequence back.
  template <CacheLedger L>
  void give_back(L& ledger, Sequence& s) const {
    if (s.reserved > 0) ledger.release(s.seq);
    s.cached = s.reserved = s.reused = 0;
  }

 private:
  // The number of tokens, of `tokens`, that a sequence holds room for at once. With a window that is at most a ring,
  // which belongs to the sequence until it ends. So even a text longer than the whole cache can have room to its end,
  // and needs no free tokens from then on.
  template <CacheLedger L>
  static int at_once([[maybe_unused]] const L& ledger, int tokens) {
    if constexpr (TrimsSequences<L>) return ledger.held_at_most(tokens);
    return tokens;
  }

  // Tokens that may come from the cache. The last known token is computed, for its logits, and so are all tokens from
  // the first position whose logits the request asks for, and those beyond share_limit.
  static std::span<const TokenId> reusable(const Sequence& s);

  // Tokens to take over from the parent: the prompt without its last token, once the parent has computed it; else 0.
  template <CacheLedger L>
  static int shared_with(const L& ledger, const Sequence& s, const Sequence* parent) {
    if (!forks_sequences(ledger)) return 0;
    const int shared = s.prompt_tokens - 1;
    const bool computed = parent && parent->cached >= shared && parent->read_again == 0;  // not keys of a longer text
    return computed && s.generated() == 0 && shared <= s.reuse_limit ? shared : 0;
  }

  template <CacheLedger L>
  static bool fork([[maybe_unused]] L& ledger, Sequence& s, const Sequence* parent) {
    if constexpr (ForksSequences<L>) {
      const int shared = shared_with(ledger, s, parent);
      if (shared == 0 || !ledger.fork(parent->seq, s.seq, shared)) return false;
      s.cached = s.reserved = shared;
      return true;
    }
    return false;
  }
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/schedule/cache_room-inl.h"
#endif
