/// Parts of a cache: where the tiles of keys and values lie in the storage. All built-in caches share one
/// layout, [layer][block][kv head][tile of the block][keys, values, scales], so that the tiles of one head in one block
/// are contiguous. Caches differ in what a block is, and in which sequence owns which block. A cache of your own may
/// use this layout or another one.
///
/// Nothing is padded: a tile begins at a multiple of 64 bytes if head_dim * sizeof(Element) is a multiple of 4, and of
/// 16 bytes always. Storage begins zeroed (the device's memory does). Positions after the end of a sequence hold
/// whatever was there: a kernel must not even multiply them by zero, because they may be NaN.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"

namespace tenon {

/// Number of blocks of `block_tokens` tokens that hold `tokens` tokens: rounded up.
inline constexpr int blocks_of(int tokens, int block_tokens) {
  return tokens / block_tokens + (tokens % block_tokens != 0);
}
/// Number of tiles that hold `tokens` tokens: rounded up.
inline constexpr int tiles_of(int tokens) { return blocks_of(tokens, kTilePositions); }

/// Number of blocks of a cache of `tokens` tokens: blocks_of, but at most as many as have their tokens fit an int.
inline constexpr int block_count(int tokens, int block_tokens) {
  return std::min(blocks_of(tokens, block_tokens), std::numeric_limits<int>::max() / block_tokens);
}

/// Throws Error capacity unless layers, heads, head_dim, positions and tokens are 1 or more.
void check_cache(const KvShape& shape, int tokens);

/// The error (internal) to throw from `view` if the ledger has reserved no room for the rows.
Error no_room(const SequenceRows& rows);

/// The product of sizes. Throws Error capacity if it is 2^64 or more: sizes come from a configuration and may be
/// anything.
std::size_t checked_product(std::initializer_list<std::size_t> factors);

/// Bytes of `layers` x `tiles` tiles for all heads of keys and values. Throws Error capacity as checked_product does.
template <KvElement Element>
std::size_t storage_bytes(const KvShape& shape, int layers, std::size_t tiles) {
  return checked_product(
      {static_cast<std::size_t>(layers), tiles, static_cast<std::size_t>(shape.heads), shape.tile_bytes<Element>()});
}

/// The parts of one tile: keys, then values, then scales. Trivially copyable.
template <class Element>
struct TileParts {
  int keys = 0, values = 0;  ///< number of elements of each

  TileParts() = default;
  explicit TileParts(const KvShape& shape)
      : keys(kTilePositions * shape.head_dim), values(kTilePositions * shape.value_stride()) {}

  /// The tile that begins at `tile`.
  TENON_HD KvTile<Element> at(std::byte* tile) const {
    auto* elements = reinterpret_cast<Element*>(tile);  // [head_dim, 16], then [16, value_stride]
    if constexpr (has_scales<Element>) {
      auto* scales = reinterpret_cast<float*>(elements + keys + values);  // [2, 16]
      return {elements, elements + keys, scales, scales + kTilePositions};
    } else {
      return {elements, elements + keys};
    }
  }
};

/// The tiles of a storage of blocks, [layers, blocks, heads, block_tiles]. Trivially copyable: a part of a view.
template <class Element>
struct TileGrid {
  std::byte* storage = nullptr;
  std::size_t layer_stride = 0, block_stride = 0, head_stride = 0, tile_stride = 0;  ///< in bytes
  TileParts<Element> parts;

  TileGrid() = default;
  /// memory: the device's, of storage_bytes(shape, shape.layers, blocks * block_tiles) bytes; not owned.
  TileGrid(const KvShape& shape, std::size_t blocks, int block_tiles, void* memory)
      : storage(static_cast<std::byte*>(memory)), tile_stride(shape.tile_bytes<Element>()), parts(shape) {
    head_stride = tile_stride * static_cast<std::size_t>(block_tiles);
    block_stride = head_stride * static_cast<std::size_t>(shape.heads);
    layer_stride = block_stride * blocks;
  }

  /// A tile of a head in a block; tile_in_block counts from the block's first.
  TENON_HD KvTile<Element> at(int layer, std::int32_t block, int head, int tile_in_block) const {
    return parts.at(storage + static_cast<std::size_t>(layer) * layer_stride +
                    static_cast<std::size_t>(block) * block_stride + static_cast<std::size_t>(head) * head_stride +
                    static_cast<std::size_t>(tile_in_block) * tile_stride);
  }
};

/// Sizes of a storage in blocks of BlockTokens tokens, a multiple of 16, of which sequences own any.
template <int BlockTokens, class Element>
struct BlockStorage {
  static_assert(BlockTokens > 0 && BlockTokens % kTilePositions == 0,
                "tenon: BlockStorage<BlockTokens, Element> needs a multiple of 16 tokens; see docs/policies.md#cache");
  static constexpr int block_tiles = BlockTokens / kTilePositions;

  /// For CachePolicy's `bytes`. Throws Error capacity as check_cache and checked_product do.
  static std::size_t bytes(const KvShape& shape, int tokens) {
    check_cache(shape, tokens);
    return storage_bytes<Element>(shape, shape.layers, blocks(tokens) * block_tiles);
  }
  /// For `block_layout`.
  static BlockLayout layout(const KvShape& shape, int tokens) {
    return {blocks(tokens), storage_bytes<Element>(shape, 1, block_tiles)};
  }
  /// For a view. storage: bytes(shape, tokens) bytes of the device's memory; not owned.
  static TileGrid<Element> grid(const KvShape& shape, int tokens, void* storage) {
    return {shape, blocks(tokens), block_tiles, storage};
  }

 private:
  static std::size_t blocks(int tokens) { return static_cast<std::size_t>(block_count(tokens, BlockTokens)); }
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/cache/tiles-inl.h"
#endif
