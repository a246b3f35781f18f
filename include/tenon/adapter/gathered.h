// Each row is its own group and groups run in parallel on the threads (BGMV of Punica; Chen et al., 2023).
#pragma once
#include "tenon/core/concepts.h"

namespace tenon {

/// Adapter policy: one group per row that has an adapter, in the order of the rows.
struct GatheredLoRA {
  static constexpr bool adds_at_runtime = true;

  void arrange(std::span<const AdapterSet* const> rows, AdapterGroups& out) const {
    out.clear();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (!rows[r]) continue;
      out.groups.push_back({rows[r], static_cast<int>(out.rows.size()), 1});
      out.rows.push_back(static_cast<int>(r));
    }
  }
};
static_assert(AdapterPolicy<GatheredLoRA>);

}  // namespace tenon
