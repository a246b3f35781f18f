#pragma once
#include <type_traits>

#include "tenon/cache/any_cache.h"
#include "tenon/core/require.h"

namespace tenon {

namespace detail {

// Calls f(std::type_identity<AnyElementKV<Of>>{}) with the cache of that kind.
template <class F>
decltype(auto) with_cache_kind(CacheKind kind, F&& f) {
  switch (kind) {
    case CacheKind::paged32:
      return f(std::type_identity<AnyElementKV<PagedBy32>>{});
    case CacheKind::paged64:
      return f(std::type_identity<AnyElementKV<PagedBy64>>{});
    case CacheKind::contiguous:
      return f(std::type_identity<AnyElementKV<ContiguousKVOf>>{});
    case CacheKind::window:
      return f(std::type_identity<AnyElementKV<WindowOf>>{});
    case CacheKind::none:
      return f(std::type_identity<AnyElementKV<NoCacheOf>>{});
    case CacheKind::paged16:
      break;
  }
  return f(std::type_identity<AnyElementKV<PagedOf>>{});
}

}  // namespace detail

TENON_INLINE int AnyLedger::free_tokens() const {
  return std::visit([](const auto& l) { return l.free_tokens(); }, ledger_);
}

TENON_INLINE int AnyLedger::capacity_tokens() const {
  return std::visit([](const auto& l) { return l.capacity_tokens(); }, ledger_);
}

TENON_INLINE bool AnyLedger::grow(SeqId seq, int tokens) {
  return std::visit([&](auto& l) { return l.grow(seq, tokens); }, ledger_);
}

TENON_INLINE void AnyLedger::release(SeqId seq) {
  std::visit([&](auto& l) { l.release(seq); }, ledger_);
}

TENON_INLINE bool AnyLedger::forks() const {
  return std::visit([]<class L>(const L&) { return ForksSequences<L>; }, ledger_);
}

TENON_INLINE bool AnyLedger::shrinks() const {
  return std::visit([]<class L>(const L&) { return ShrinksSequences<L>; }, ledger_);
}

TENON_INLINE void AnyLedger::shrink(SeqId seq, int tokens) {
  std::visit(
      [&]<class L>(L& l) {
        if constexpr (ShrinksSequences<L>) l.shrink(seq, tokens);
      },
      ledger_);
}

TENON_INLINE void AnyLedger::trim(SeqId seq, int before) {
  std::visit(
      [&]<class L>(L& l) {
        if constexpr (TrimsSequences<L>) l.trim(seq, before);
      },
      ledger_);
}

TENON_INLINE int AnyLedger::held_at_most(int tokens) const {
  return std::visit(
      [&]<class L>(const L& l) {
        if constexpr (TrimsSequences<L>) return l.held_at_most(tokens);
        return tokens;
      },
      ledger_);
}

TENON_INLINE PrefixMatch AnyLedger::match(std::span<const TokenId> tokens, std::string_view identity) const {
  return std::visit(
      [&]<class L>(const L& l) {
        if constexpr (ReusesPrefixes<L>) return l.match(tokens, identity);
        return PrefixMatch{};
      },
      ledger_);
}

TENON_INLINE int AnyLedger::reuse(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) {
  return std::visit(
      [&]<class L>(L& l) {
        if constexpr (ReusesPrefixes<L>) return l.reuse(seq, tokens, identity);
        return 0;
      },
      ledger_);
}

TENON_INLINE void AnyLedger::publish(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) {
  std::visit(
      [&]<class L>(L& l) {
        if constexpr (ReusesPrefixes<L>) l.publish(seq, tokens, identity);
      },
      ledger_);
}

TENON_INLINE void AnyLedger::forget_prefixes() {
  std::visit(
      []<class L>(L& l) {
        if constexpr (ForgetsPrefixes<L>) l.forget_prefixes();
      },
      ledger_);
}

TENON_INLINE bool AnyLedger::fork(SeqId parent, SeqId child, int tokens) {
  return std::visit(
      [&]<class L>(L& l) {
        if constexpr (ForksSequences<L>) return l.fork(parent, child, tokens);
        return false;
      },
      ledger_);
}

TENON_INLINE std::span<const BlockCopy> AnyLedger::copies() const {
  return std::visit(
      []<class L>(const L& l) {
        if constexpr (ForksSequences<L>) return l.copies();
        return std::span<const BlockCopy>{};
      },
      ledger_);
}

TENON_INLINE void AnyLedger::clear_copies() {
  std::visit(
      []<class L>(L& l) {
        if constexpr (ForksSequences<L>) l.clear_copies();
      },
      ledger_);
}

TENON_INLINE bool AnyKV::keeps(const KvShape& shape) {
  return detail::with_cache_kind(shape.kind, []<class C>(std::type_identity<C>) { return bool{C::keeps_tokens}; });
}

TENON_INLINE AnyLedger AnyKV::ledger(const KvShape& shape, int tokens) {
  return detail::with_cache_kind(shape.kind,
                                 [&]<class C>(std::type_identity<C>) { return Ledger(C::ledger(shape, tokens)); });
}

TENON_INLINE std::size_t AnyKV::bytes(const KvShape& shape, int tokens) {
  return detail::with_cache_kind(shape.kind, [&]<class C>(std::type_identity<C>) { return C::bytes(shape, tokens); });
}

TENON_INLINE BlockLayout AnyKV::block_layout(const KvShape& shape, int tokens) {
  return detail::with_cache_kind(shape.kind, [&]<class C>(std::type_identity<C>) {
    if constexpr (LaysOutBlocks<C>) return C::block_layout(shape, tokens);
    return BlockLayout{};
  });
}

TENON_INLINE int AnyKV::sequence_tokens(const KvShape& shape) {
  return detail::with_cache_kind(shape.kind, [&]<class C>(std::type_identity<C>) {
    if constexpr (BoundsSequences<C>) return C::sequence_tokens(shape);
    return shape.positions;
  });
}

TENON_INLINE std::size_t AnyKV::table_entries(const KvShape& shape, std::span<const SequenceRows> rows) {
  return detail::with_cache_kind(shape.kind,
                                 [&]<class C>(std::type_identity<C>) { return C::table_entries(shape, rows); });
}

TENON_INLINE AnyKV::View AnyKV::view(const KvShape& shape, int tokens, const Ledger& ledger,
                                     std::span<const SequenceRows> rows, void* storage, std::span<std::int32_t> table) {
  return detail::with_cache_kind(shape.kind, [&]<class C>(std::type_identity<C>) {
    const auto chosen = C::view(shape, tokens, ledger.as<typename C::Ledger>(), rows, storage, table);
    return std::visit([](const auto& view) { return View{view}; }, chosen.view);
  });
}

}  // namespace tenon
