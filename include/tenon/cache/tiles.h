// The layout that all caches share: storage [layer][block][kv head][tile within block][keys, values, scales], so that
// the tiles of one head in one block are contiguous. Caches differ in what a block is and who owns which. Nothing is
// padded: a tile begins at a multiple of 64 bytes where head_dim * sizeof(Element) is one of 4, and of 16 bytes always.
//
// Storage starts zeroed (the device's memory does), which keeps values behind head_dim zero. Positions behind the end
// of a sequence hold whatever was there: a kernel must not even multiply them by zero, for they may be NaN.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"

namespace tenon::detail {

inline constexpr int blocks_of(int tokens, int block_tokens) {
  return tokens / block_tokens + (tokens % block_tokens != 0);
}
inline constexpr int tiles_of(int tokens) { return blocks_of(tokens, kTilePositions); }

// Rounded up, but at most so many that their tokens fit an int.
inline constexpr int block_count(int tokens, int block_tokens) {
  return std::min(blocks_of(tokens, block_tokens), std::numeric_limits<int>::max() / block_tokens);
}

void check_cache(const KvShape& shape, int tokens);

// A view was asked for rows that nobody reserved room for.
Error no_room(const SequenceRows& rows);

// Sizes come from a configuration: their product may be anything.
std::size_t checked_product(std::initializer_list<std::size_t> factors);

// Bytes of `layers` x `tiles` tiles for all heads.
template <class Element>
std::size_t tile_bytes(const KvShape& shape, int layers, std::size_t tiles) {
  return checked_product(
      {static_cast<std::size_t>(layers), tiles, static_cast<std::size_t>(shape.heads), shape.tile_bytes<Element>()});
}

// What lies where within one tile.
template <class Element>
struct TileParts {
  int keys = 0, values = 0;  // elements of each

  TileParts() = default;
  explicit TileParts(const KvShape& shape)
      : keys(kTilePositions * shape.head_dim), values(kTilePositions * shape.value_stride()) {}

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

// Blocks of `block_tiles` tiles, and how to get from one tile to any other.
template <class Element>
struct TileGrid {
  std::byte* storage = nullptr;  // [layers, blocks, heads, block_tiles] of tiles
  std::size_t layer_stride = 0, block_stride = 0, head_stride = 0, tile_stride = 0;  // in bytes
  TileParts<Element> parts;

  TileGrid() = default;
  TileGrid(const KvShape& shape, std::size_t blocks, int block_tiles, void* memory)
      : storage(static_cast<std::byte*>(memory)), tile_stride(shape.tile_bytes<Element>()), parts(shape) {
    head_stride = tile_stride * static_cast<std::size_t>(block_tiles);
    block_stride = head_stride * static_cast<std::size_t>(shape.heads);
    layer_stride = block_stride * blocks;
  }

  TENON_HD KvTile<Element> at(int layer, std::int32_t block, int head, int tile_in_block) const {
    return parts.at(storage + static_cast<std::size_t>(layer) * layer_stride +
                    static_cast<std::size_t>(block) * block_stride + static_cast<std::size_t>(head) * head_stride +
                    static_cast<std::size_t>(tile_in_block) * tile_stride);
  }
};

// Storage of which sequences own blocks, anywhere in it.
template <int BlockTokens, class Element>
struct BlockStorage {
  static constexpr int block_tiles = BlockTokens / kTilePositions;

  static std::size_t bytes(const KvShape& shape, int tokens) {
    check_cache(shape, tokens);
    return tile_bytes<Element>(shape, shape.layers, blocks(tokens) * block_tiles);
  }
  static BlockLayout layout(const KvShape& shape, int tokens) {
    return {blocks(tokens), tile_bytes<Element>(shape, 1, block_tiles)};
  }
  static TileGrid<Element> grid(const KvShape& shape, int tokens, void* storage) {
    return {shape, blocks(tokens), block_tiles, storage};
  }

 private:
  static std::size_t blocks(int tokens) { return static_cast<std::size_t>(block_count(tokens, BlockTokens)); }
};

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/cache/tiles-inl.h"
#endif
