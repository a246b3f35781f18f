// Multiplies all rows of one adapter in one product, so that its factors are read once (SGMV of Punica; Chen et al.,
// 2023).
#pragma once
#include <algorithm>

#include "tenon/core/concepts.h"

namespace tenon {

/// Adapter policy: one group per adapter.
struct SegmentedLoRA {
  static constexpr bool adds_at_runtime = true;

  /// Writes one group for each adapter, and the rows of each group. rows: the adapters of each row of the batch; null:
  /// none. Groups are in the order of their first rows, so that the result does not depend on the adapters' addresses.
  void arrange(std::span<const AdapterSet* const> rows, AdapterGroups& out) const {
    out.clear();
    for (const AdapterSet* set : rows) {
      if (!set) continue;
      // Searches from the last group, because rows of a sequence are adjacent.
      const auto found = std::find_if(out.groups.rbegin(), out.groups.rend(),
                                      [&](const AdapterGroup& g) { return g.adapters == set; });
      if (found != out.groups.rend())
        ++found->count;
      else
        out.groups.push_back({set, 0, 1});
    }
    int first = 0;
    for (AdapterGroup& group : out.groups) {
      group.first = first;
      first += group.count;
    }
    out.rows.resize(static_cast<std::size_t>(first));
    for (AdapterGroup& group : out.groups) group.count = 0;
    std::size_t last = 0;  // group of the previous row
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (!rows[r]) continue;
      if (out.groups[last].adapters != rows[r]) {
        last = 0;
        while (out.groups[last].adapters != rows[r]) ++last;
      }
      AdapterGroup& group = out.groups[last];
      out.rows[static_cast<std::size_t>(group.first + group.count++)] = static_cast<int>(r);
    }
  }
};
static_assert(AdapterPolicy<SegmentedLoRA>);

}  // namespace tenon
