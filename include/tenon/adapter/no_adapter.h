// The adapter policy of plain models.
#pragma once
#include "tenon/core/concepts.h"

namespace tenon {

/// Adapter policy without low-rank updates; its groups are always empty.
struct NoAdapter {
  static constexpr bool adds_at_runtime = false;
  void arrange(std::span<const AdapterSet* const> /*rows*/, AdapterGroups& out) const { out.clear(); }
};
static_assert(AdapterPolicy<NoAdapter>);

}  // namespace tenon
