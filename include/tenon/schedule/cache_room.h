// A sequence's room in the cache: how it moves in, grows and moves out.
#pragma once
#include "tenon/schedule/ledger_ref.h"
#include "tenon/schedule/sequence.h"

namespace tenon {

/// The rules by which sequences take and return cache.
struct CacheRoom {
  bool keeps_tokens = true;     ///< CachePolicy::keeps_tokens
  bool reuses_prefixes = true;  ///< a newcomer may begin with cached prefixes of others
  int window = 0;               ///< positions that a row of the model sees, its own included; 0: all before it

  /// Free tokens that running all pending tokens of the sequence would use. parent: null if it has ended.
  int need(LedgerRef ledger, const Sequence& s, const Sequence* parent) const;

  /// Gives a newcomer its parent's prompt, or a cached prefix. A sequence beyond the bound on preemptions gets room to
  /// its end, too. False, and nothing is held, if the cache lacks that room.
  bool move_in(LedgerRef ledger, Sequence& s, const Sequence* parent) const;

  /// Reserves room for up to `wanted` tokens after the cached ones; returns the number of tokens that have room.
  int reserve(LedgerRef ledger, Sequence& s, int wanted) const;

  /// Gives back positions before the window of the row at position `next`.
  void trim(LedgerRef ledger, const Sequence& s, int next) const;

  /// Gives back the room of wrong guesses. A sequence beyond the bound on preemptions keeps its room to its end.
  void shrink(LedgerRef ledger, Sequence& s) const;

  /// Lets other sequences find the first `tokens` tokens of this one, which are cached, from now on.
  void publish(LedgerRef ledger, const Sequence& s, int tokens) const;

  /// Gives all cache of the sequence back.
  void give_back(LedgerRef ledger, Sequence& s) const;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/schedule/cache_room-inl.h"
#endif
