#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

#include "tenon/core/require.h"
#include "tenon/schedule/cache_room.h"

namespace tenon {

namespace detail {

// Tokens that may come from the cache. The last known token is computed, for its logits, and so are all tokens from the
// first position whose logits the request asks for, and those beyond share_limit.
TENON_INLINE std::span<const TokenId> reusable_tokens(const Sequence& s) {
  const int most = std::min({s.known() - 1, s.reuse_limit, s.share_limit});
  return std::span(s.tokens).first(static_cast<std::size_t>(std::max(most, 0)));
}

// Tokens to take over from the parent: the prompt without its last token, once the parent has computed it; else 0.
TENON_INLINE int tokens_shared_with(LedgerRef ledger, const Sequence& s, const Sequence* parent) {
  if (!ledger.forks()) return 0;
  const int shared = s.prompt_tokens - 1;
  const bool computed = parent && parent->cached >= shared && parent->read_again == 0;  // not keys of a longer text
  return computed && s.generated() == 0 && shared <= s.reuse_limit ? shared : 0;
}

TENON_INLINE bool fork_prompt(LedgerRef ledger, Sequence& s, const Sequence* parent) {
  const int shared = tokens_shared_with(ledger, s, parent);
  if (shared == 0 || !ledger.fork(parent->seq, s.seq, shared)) return false;
  s.cached = s.reserved = shared;
  return true;
}

}  // namespace detail

TENON_INLINE int CacheRoom::need(LedgerRef ledger, const Sequence& s, const Sequence* parent) const {
  const int end = ledger.held_at_most(s.preemptible() || !keeps_tokens ? s.known() : s.cache_end());
  if (s.state == Sequence::State::running) return std::max(0, end - s.reserved);
  if (const int shared = detail::tokens_shared_with(ledger, s, parent); shared > 0) return end - shared;
  if (!reuses_prefixes) return end;
  const PrefixMatch match = ledger.match(detail::reusable_tokens(s), s.identity);
  return end - match.tokens + match.idle;
}

TENON_INLINE bool CacheRoom::move_in(LedgerRef ledger, Sequence& s, const Sequence* parent) const {
  if (!keeps_tokens) return true;
  if (!detail::fork_prompt(ledger, s, parent) && reuses_prefixes) {
    // None is found for a sequence that holds room already, after a step that threw.
    const int found = ledger.reuse(s.seq, detail::reusable_tokens(s), s.identity);
    if (found > 0) s.reused = s.cached = s.reserved = found;
  }
  const int to_its_end = ledger.held_at_most(s.cache_end() - s.cached);
  if (s.preemptible() || reserve(ledger, s, to_its_end) >= to_its_end) return true;
  give_back(ledger, s);
  return false;
}

TENON_INLINE int CacheRoom::reserve(LedgerRef ledger, Sequence& s, int wanted) const {
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

TENON_INLINE void CacheRoom::trim(LedgerRef ledger, const Sequence& s, int next) const {
  if (window > 0 && next >= window) ledger.trim(s.seq, next - window + 1);
}

TENON_INLINE void CacheRoom::shrink(LedgerRef ledger, Sequence& s) const {
  if (!ledger.shrinks() || s.reserved <= s.known() || !s.preemptible()) return;
  ledger.shrink(s.seq, s.known());
  s.reserved = s.known();
}

TENON_INLINE void CacheRoom::publish(LedgerRef ledger, const Sequence& s, int tokens) const {
  if (!reuses_prefixes) return;
  const auto shared = static_cast<std::size_t>(std::min(tokens, s.share_limit));
  ledger.publish(s.seq, std::span(s.tokens).first(shared), s.identity);
}

TENON_INLINE void CacheRoom::give_back(LedgerRef ledger, Sequence& s) const {
  if (s.reserved > 0) ledger.release(s.seq);
  s.cached = s.reserved = s.reused = 0;
}

}  // namespace tenon
