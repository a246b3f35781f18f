// The laws of AdapterPolicy: every row that has an adapter stands in exactly one group, whose adapter is its own.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/testing/fits.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

using RowSets = std::vector<const AdapterSet*>;  // [rows of a step], null where a row has no adapter

inline bool same_groups(const AdapterGroups& a, const AdapterGroups& b) {
  const auto same = [](const AdapterGroup& x, const AdapterGroup& y) {
    return x.adapters == y.adapters && x.first == y.first && x.count == y.count;
  };
  return a.rows == b.rows && a.one_by_one == b.one_by_one &&
         std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(), b.groups.end(), same);
}

inline void group_laws(const RowSets& rows, const AdapterGroups& out, Violations& broken) {
  std::vector<int> times(rows.size(), 0);  // number of groups that hold a row
  bool inside = true, own = true, ascending = true;
  for (const AdapterGroup& group : out.groups) {
    const auto end = static_cast<std::int64_t>(group.first) + group.count;
    if (group.first < 0 || group.count < 0 || end > static_cast<std::int64_t>(out.rows.size())) {
      inside = false;
      continue;
    }
    int last = -1;
    for (int i = group.first; i < group.first + group.count; ++i) {
      const int row = out.rows[static_cast<std::size_t>(i)];
      ascending = ascending && row > last;
      last = row;
      if (row < 0 || static_cast<std::size_t>(row) >= rows.size()) {
        inside = false;
        continue;
      }
      ++times[static_cast<std::size_t>(row)];
      own = own && group.adapters != nullptr && group.adapters == rows[static_cast<std::size_t>(row)];
    }
  }
  bool once = true, none = true;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    once = once && (!rows[r] || times[r] == 1);
    none = none && (rows[r] || times[r] == 0);
  }
  note(broken, inside, "adapter: groups lie within AdapterGroups::rows, and rows within the step");
  note(broken, once, "adapter: every row that has an adapter stands in exactly one group");
  note(broken, none, "adapter: a row that has no adapter stands in no group");
  note(broken, own || !none, "adapter: a group's adapter is that of each of its rows");
  note(broken, ascending, "adapter: the rows of a group ascend");
}

}  // namespace detail

/// Arranges steps of random rows. Returns the broken laws; none if the policy adds no adapters at run time.
template <class P>
Violations adapter_laws(const P& policy = {}) {
  detail::must_fit<Adapter<P>>();
  Violations broken;
  if constexpr (detail::fits<Adapter<P>>) {
    if (!P::adds_at_runtime) return broken;
    try {
      Random random(5);
      std::array<AdapterSet, 64> sets;
      AdapterGroups out;  // holds the groups of the step before, as in an engine
      for (int step = 0; step < 400; ++step) {
        detail::RowSets rows;
        const bool crowd = step % 20 == 0;
        const int kinds = random.between(0, crowd ? 64 : 4);
        for (int i = random.between(0, crowd ? 200 : 6); i > 0; --i) {  // sequences of one row or several
          const int set = random.between(0, kinds);
          const int count = random.between(0, 2) == 0 ? random.between(2, 20) : 1;
          rows.insert(rows.end(), static_cast<std::size_t>(count),
                      set == 0 ? nullptr : &sets[static_cast<std::size_t>(set - 1)]);
        }
        policy.arrange(rows, out);
        detail::group_laws(rows, out, broken);
        AdapterGroups fresh;
        P(policy).arrange(rows, fresh);
        detail::note(broken, detail::same_groups(out, fresh),
                     "adapter: copies arrange the same rows alike, whatever was arranged before");
      }
    } catch (const std::exception& e) {
      broken.push_back(std::string("adapter: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

}  // namespace tenon::testing
