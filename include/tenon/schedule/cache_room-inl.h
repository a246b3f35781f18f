#pragma once
#include "tenon/core/require.h"
#include "tenon/schedule/cache_room.h"

namespace tenon {

TENON_INLINE std::span<const TokenId> CacheRoom::reusable(const Sequence& s) {
  const int most = std::min({s.known() - 1, s.reuse_limit, s.share_limit});
  return std::span(s.tokens).first(static_cast<std::size_t>(std::max(most, 0)));
}

}  // namespace tenon
