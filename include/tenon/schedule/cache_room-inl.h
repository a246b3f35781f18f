#pragma once
#include "tenon/core/require.h"
#include "tenon/schedule/cache_room.h"

namespace tenon {

TENON_INLINE std::span<const TokenId> CacheRoom::reusable(const Sequence& s) {
  return std::span(s.tokens).first(static_cast<std::size_t>(std::min(s.known() - 1, std::max(s.reuse_limit, 0))));
}

}  // namespace tenon
