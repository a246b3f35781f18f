// Plain models: no request carries a low-rank update.
#pragma once
#include "tenon/core/concepts.h"

namespace tenon {

struct NoAdapter {
  static constexpr bool adds_at_runtime = false;
  struct View {
    TENON_HD LowRank factors(int /*row*/, int /*layer*/, Site) const { return {}; }
  };
};
static_assert(AdapterPolicy<NoAdapter>);

}  // namespace tenon
