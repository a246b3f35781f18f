// The hint by which a model tells a device which keys and values it reads next.
#pragma once
#include <array>
#include <cstddef>
#include <span>

#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"

namespace tenon {

/// Keys and values that store_kv and attention read after the next product. No bit depends on a hint. The memory that
/// `batch` and `view` refer to must live until that product has been made.
struct KvPrefetchHint {
  /// Memory of one tile: keys, values, and the scales of each (empty where elements have none).
  using Tile = std::array<std::span<const std::byte>, 4>;

  BatchView batch = {};        ///< in the host's memory
  const void* view = nullptr;  ///< of the cache, passed to tile_of
  Tile (*tile_of)(const void* view, int layer, int sequence, int head, int tile, int head_dim) = nullptr;
  int layer = 0, kv_heads = 0, head_dim = 0;
  int window = 0;  ///< positions that a row sees, its own included; 0: all
};

/// The hint for a cache view of any type.
template <CacheView V>
KvPrefetchHint kv_prefetch_hint(const BatchView& batch, const V& view, int layer, int kv_heads, int head_dim,
                                int window) {
  const auto tile_of = [](const void* kv, int of_layer, int sequence, int head, int number,
                          int width) -> KvPrefetchHint::Tile {
    const auto tile = static_cast<const V*>(kv)->tile(of_layer, sequence, head, number);
    const auto bytes = [](const auto* data, std::size_t count) {
      return std::span(reinterpret_cast<const std::byte*>(data), count * sizeof *data);
    };
    const auto padded = static_cast<std::size_t>((width + kTilePositions - 1) / kTilePositions * kTilePositions);
    const std::size_t scales = has_scales<typename V::Element> ? kTilePositions : 0;
    return {bytes(tile.keys, static_cast<std::size_t>(width) * kTilePositions),
            bytes(tile.values, padded * kTilePositions), bytes(tile.key_scales, scales),
            bytes(tile.value_scales, scales)};
  };
  return {batch, &view, tile_of, layer, kv_heads, head_dim, window};
}
template <CacheView V>
KvPrefetchHint kv_prefetch_hint(const BatchView&, const V&&, int, int, int, int) = delete;  ///< the view would dangle

}  // namespace tenon
