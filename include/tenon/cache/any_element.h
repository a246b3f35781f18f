/// A cache whose element of keys and values is chosen at run time: one engine serves float32, bfloat16, float16, int8.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/cache/contiguous.h"
#include "tenon/cache/no_cache.h"
#include "tenon/cache/paged.h"
#include "tenon/cache/window.h"
#include "tenon/core/any_element_view.h"

namespace tenon {

/// The cache policy Of<E>, where the engine's option `cache_element` says E. Engines with it have the bits, and the
/// fingerprints, of engines with Of<E>. Choose it where each element would be another engine to compile.
template <template <class> class Of>
struct AnyElementKV {
  static constexpr bool keeps_tokens = Of<float>::keeps_tokens;
  using Ledger = typename Of<float>::Ledger;
  using View = AnyElementView<typename Of<float>::View, typename Of<bfloat16>::View, typename Of<float16>::View,
                              typename Of<std::int8_t>::View>;

  static Ledger ledger(const KvShape& shape, int tokens) { return Of<float>::ledger(shape, tokens); }
  static std::size_t bytes(const KvShape& shape, int tokens) {
    return with_kv_type(shape.element, [&]<class E>(std::type_identity<E>) { return Of<E>::bytes(shape, tokens); });
  }
  static BlockLayout block_layout(const KvShape& shape, int tokens) requires LaysOutBlocks<Of<float>> {
    return with_kv_type(shape.element,
                        [&]<class E>(std::type_identity<E>) { return Of<E>::block_layout(shape, tokens); });
  }
  static int sequence_tokens(const KvShape& shape) requires BoundsSequences<Of<float>> {
    return Of<float>::sequence_tokens(shape);
  }
  static std::size_t table_entries(const KvShape& shape, std::span<const SequenceRows> rows) {
    return Of<float>::table_entries(shape, rows);
  }
  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    return with_kv_type(shape.element, [&]<class E>(std::type_identity<E>) {
      return View{Of<E>::view(shape, tokens, ledger, rows, storage, table)};
    });
  }
};

/// Caches for AnyElementKV, by element.
template <class E>
using PagedOf = PagedKVOf<16, E>;
template <class E>
using PagedBy32 = PagedKVOf<32, E>;
template <class E>
using PagedBy64 = PagedKVOf<64, E>;
template <class E>
using WindowOf = WindowKVOf<16, E>;

static_assert(CachePolicy<AnyElementKV<PagedOf>> && CachePolicy<AnyElementKV<WindowOf>> &&
              CachePolicy<AnyElementKV<ContiguousKVOf>> && CachePolicy<AnyElementKV<NoCacheOf>>);

}  // namespace tenon
