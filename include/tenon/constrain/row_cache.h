// A cache of rows by state, with least-recently-used eviction.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "tenon/core/require.h"

namespace tenon::constrain {

/// Row has size(), its bytes. Holds at most `most` rows and, with more than one row, most_bytes.
template <class Row>
class RowCache {
 public:
  using State = std::int32_t;

  /// `most`: rows; `most_bytes`: of all rows.
  RowCache(std::size_t most, std::size_t most_bytes) : most_(most), most_bytes_(most_bytes) {}

  /// The row of a state, or null. Valid until the next keep().
  const Row* find(State state) {
    const auto found = rows_.find(state);
    if (found == rows_.end()) return nullptr;
    found->second.used = ++clock_;
    return &found->second.row;
  }
  /// Adds the row of a state that has none.
  const Row& keep(State state, Row row) {
    bytes_ += row.size();
    while (!rows_.empty() && (rows_.size() >= most_ || bytes_ > most_bytes_)) {
      const auto sooner = [](const auto& a, const auto& b) { return a.second.used < b.second.used; };
      const auto oldest = std::min_element(rows_.begin(), rows_.end(), sooner);
      bytes_ -= oldest->second.row.size();
      rows_.erase(oldest);
    }
    return rows_.emplace(state, Kept{std::move(row), ++clock_}).first->second.row;
  }
  /// Size of the cache, in bytes.
  std::size_t bytes() const { return bytes_ + rows_.size() * (sizeof(Kept) + 32); }

 private:
  struct Kept {
    Row row;
    std::uint64_t used;
  };

  const std::size_t most_, most_bytes_;
  std::unordered_map<State, Kept> rows_;
  std::size_t bytes_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace tenon::constrain
