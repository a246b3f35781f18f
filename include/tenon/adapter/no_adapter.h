// Plain models: no request carries a low-rank update.
#pragma once
#include "tenon/core/concepts.h"

namespace tenon {

struct NoAdapter {
  static constexpr bool adds_at_runtime = false;
  void arrange(std::span<const AdapterSet* const> /*rows*/, AdapterGroups& out) const { out.clear(); }
};
static_assert(AdapterPolicy<NoAdapter>);

}  // namespace tenon
