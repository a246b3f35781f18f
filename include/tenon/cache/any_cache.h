/// A cache that is chosen at run time, with its element: one engine serves all caches of the library.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "tenon/cache/any_element.h"

namespace tenon {

/// The ledger of one of the caches (ChoosesLedger).
class AnyLedger {
 public:
  template <CacheLedger L>
  explicit AnyLedger(L ledger) : ledger_(std::move(ledger)) {}

  /// The ledger itself, which must be an L.
  template <CacheLedger L>
  const L& as() const {
    return std::get<L>(ledger_);
  }

  int free_tokens() const;
  int capacity_tokens() const;
  bool grow(SeqId seq, int tokens);
  void release(SeqId seq);

  // ---- ChoosesLedger
  bool forks() const;
  bool shrinks() const;

  // ---- ShrinksSequences, TrimsSequences
  void shrink(SeqId seq, int tokens);
  void trim(SeqId seq, int before);
  int held_at_most(int tokens) const;

  // ---- ReusesPrefixes, ForgetsPrefixes
  PrefixMatch match(std::span<const TokenId> tokens, std::string_view identity) const;
  int reuse(SeqId seq, std::span<const TokenId> tokens, std::string_view identity);
  void publish(SeqId seq, std::span<const TokenId> tokens, std::string_view identity);
  void forget_prefixes();

  // ---- ForksSequences
  bool fork(SeqId parent, SeqId child, int tokens);
  std::span<const BlockCopy> copies() const;
  void clear_copies();

 private:
  std::variant<BlockLedger<16>, BlockLedger<32>, BlockLedger<64>, ContiguousLedger, WindowLedger<16>, NoCacheLedger>
      ledger_;
};
static_assert(ReusesPrefixes<AnyLedger> && ForgetsPrefixes<AnyLedger> && ForksSequences<AnyLedger> &&
              TrimsSequences<AnyLedger> && ShrinksSequences<AnyLedger> && ChoosesLedger<AnyLedger>);

namespace detail {

template <template <class> class... Of>
using AnyViewOf = AnyElementView<typename Of<float>::View..., typename Of<bfloat16>::View...,
                                 typename Of<float16>::View..., typename Of<std::int8_t>::View...>;

}  // namespace detail

/// The cache policy that EngineOptions::cache_kind names, with the element of `cache_element`. Engines with it have the
/// bits, and the fingerprints, of engines with that cache as a type. Choose it where each cache would be another engine
/// to compile.
struct AnyKV {
  static constexpr bool keeps_tokens = true;  // not read: keeps()
  using Ledger = AnyLedger;
  using View = detail::AnyViewOf<PagedOf, PagedBy32, PagedBy64, ContiguousKVOf, WindowOf, NoCacheOf>;

  static bool keeps(const KvShape& shape);
  static Ledger ledger(const KvShape& shape, int tokens);
  static std::size_t bytes(const KvShape& shape, int tokens);
  /// Empty for a cache that copies no blocks.
  static BlockLayout block_layout(const KvShape& shape, int tokens);
  static int sequence_tokens(const KvShape& shape);
  static std::size_t table_entries(const KvShape& shape, std::span<const SequenceRows> rows);
  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table);
};
static_assert(CachePolicy<AnyKV> && ChoosesCache<AnyKV>);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/cache/any_cache-inl.h"
#endif
