#pragma once
#include <string>

#include "tenon/cache/tiles.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE void check_cache(const KvShape& shape, int tokens) {
  if (shape.layers < 1 || shape.heads < 1 || shape.head_dim < 1 || shape.positions < 1 || tokens < 1) {
    throw Error(Error::Kind::capacity, "cache",
                "needs layers, heads, head_dim, positions and tokens of 1 or more; got " +
                    std::to_string(shape.layers) + ", " + std::to_string(shape.heads) + ", " +
                    std::to_string(shape.head_dim) + ", " + std::to_string(shape.positions) + " and " +
                    std::to_string(tokens));
  }
}

TENON_INLINE Error no_room(const SequenceRows& rows) {
  return Error(Error::Kind::internal, "cache",
               "has no room reserved for " + std::to_string(rows.start + rows.rows) + " tokens of sequence " +
                   std::to_string(rows.seq));
}

TENON_INLINE std::size_t checked_product(std::initializer_list<std::size_t> factors) {
  std::size_t product = 1;
  for (const std::size_t factor : factors) {
    if (factor != 0 && product > std::numeric_limits<std::size_t>::max() / factor) {
      throw Error(Error::Kind::capacity, "cache", "would need 2^64 bytes or more; ask for fewer tokens");
    }
    product *= factor;
  }
  return product;
}

}  // namespace tenon
