// The view of a cache whose element, or whose kind, is chosen at run time (cache/any_element.h, cache/any_cache.h), for
// the ops that read it.
#pragma once
#include <cstdint>
#include <variant>

#include "tenon/core/kv_prefetch.h"

namespace tenon {

/// The view of AnyElementKV, or of AnyKV: one of `Views`. Ops take that one.
template <class... Views>
struct AnyElementView {
  using Alternatives = std::variant<Views...>;
  Alternatives view;

  void set_table(const std::int32_t* table) {
    std::visit([&](auto& of) { of.table = table; }, view);
  }
};

/// The hint for the view of the element.
template <class... Views>
KvPrefetchHint kv_prefetch_hint(const BatchView& batch, const AnyElementView<Views...>& view, int layer, int kv_heads,
                                int head_dim, int window) {
  return std::visit([&](const auto& of) { return kv_prefetch_hint(batch, of, layer, kv_heads, head_dim, window); },
                    view.view);
}

}  // namespace tenon
