// Rows of one adapter as one product, so that its factors are read once for all of them (SGMV of Punica; Chen et al.,
// 2023).
#pragma once
#include <algorithm>

#include "tenon/core/concepts.h"

namespace tenon {

struct SegmentedLoRA {
  static constexpr bool adds_at_runtime = true;

  // Groups in the order of their first rows, so that nothing depends on where adapters lie in memory.
  void arrange(std::span<const AdapterSet* const> rows, AdapterGroups& out) const {
    out.clear();
    for (const AdapterSet* set : rows) {
      if (!set) continue;
      // Rows of a sequence follow one another: the last group is the likeliest.
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
    std::size_t last = 0;  // the group of the row before
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
