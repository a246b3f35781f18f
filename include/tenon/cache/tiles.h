// The layout that all caches share: storage [layer][block][kv head][tile within block][keys, values], so that the tiles
// of one head in one block are contiguous. Caches differ in what a block is and who owns which.
//
// Storage starts zeroed (the device's memory does), which keeps values behind head_dim zero. Positions behind the end
// of a sequence hold whatever was there: a kernel must not even multiply them by zero, for they may be NaN.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"

namespace tenon::detail {

inline constexpr int tiles_of(int tokens) { return tokens / kTilePositions + (tokens % kTilePositions != 0); }

inline void check_cache(const KvShape& shape, int tokens) {
  if (shape.layers < 1 || shape.heads < 1 || shape.head_dim < 1 || shape.positions < 1 || tokens < 1) {
    throw Error(Error::Kind::capacity, "cache",
                "needs layers, heads, head_dim, positions and tokens of 1 or more; got " +
                    std::to_string(shape.layers) + ", " + std::to_string(shape.heads) + ", " +
                    std::to_string(shape.head_dim) + ", " + std::to_string(shape.positions) + " and " +
                    std::to_string(tokens));
  }
}

// A view was asked for rows that nobody reserved room for.
inline Error no_room(const SequenceRows& rows) {
  return Error(Error::Kind::internal, "cache",
               "has no room reserved for " + std::to_string(rows.start + rows.rows) + " tokens of sequence " +
                   std::to_string(rows.seq));
}

// Sizes come from a configuration: their product may be anything.
inline std::size_t checked_product(std::initializer_list<std::size_t> factors) {
  std::size_t product = 1;
  for (const std::size_t factor : factors) {
    if (factor != 0 && product > std::numeric_limits<std::size_t>::max() / factor) {
      throw Error(Error::Kind::capacity, "cache", "would need 2^64 bytes or more; ask for fewer tokens");
    }
    product *= factor;
  }
  return product;
}

// Bytes of `layers` x `tiles` tiles for all heads.
template <class Element>
std::size_t tile_bytes(const KvShape& shape, int layers, std::size_t tiles) {
  return checked_product({static_cast<std::size_t>(layers), tiles, static_cast<std::size_t>(shape.heads),
                          shape.tile_elements(), sizeof(Element)});
}

// Blocks of `block_tiles` tiles, and how to get from one tile to any other.
template <class Element>
struct TileGrid {
  Element* storage = nullptr;  // [layers, blocks, heads, block_tiles, tile_elements]
  std::size_t layer_stride = 0, block_stride = 0, head_stride = 0, tile_stride = 0;  // in elements
  int key_elements = 0;  // of one tile; its values follow

  TileGrid() = default;
  TileGrid(const KvShape& shape, std::size_t blocks, int block_tiles, void* memory)
      : storage(static_cast<Element*>(memory)),
        tile_stride(shape.tile_elements()),
        key_elements(kTilePositions * shape.head_dim) {
    head_stride = tile_stride * static_cast<std::size_t>(block_tiles);
    block_stride = head_stride * static_cast<std::size_t>(shape.heads);
    layer_stride = block_stride * blocks;
  }

  TENON_HD KvTile<Element> at(int layer, std::int32_t block, int head, int tile_in_block) const {
    Element* keys = storage + static_cast<std::size_t>(layer) * layer_stride +
                    static_cast<std::size_t>(block) * block_stride + static_cast<std::size_t>(head) * head_stride +
                    static_cast<std::size_t>(tile_in_block) * tile_stride;
    return {keys, keys + key_elements};
  }
};

}  // namespace tenon::detail
