#pragma once
#include <algorithm>
#include <array>
#include <limits>

#include "tenon/core/require.h"
#include "tenon/sample/ranking.h"
#include "tenon/sample/strips.h"

namespace tenon {

TENON_INLINE void RankedRow::reset(std::span<const float> row) {
  row_ = row;
  keys_.clear();
  complete_ = false;
}

TENON_INLINE bool RankedRow::has(std::size_t rank) {
  if (rank >= keys_.size() && !complete_) sort_first(std::max({rank + 1, 8 * keys_.size(), std::size_t{64}}));
  return rank < keys_.size();
}

TENON_INLINE void RankedRow::sort_first(std::size_t count) {
  if (complete_ || count <= keys_.size()) return;
  // A radix sort of all 50,257 values costs as much as selecting 2,000 to 4,000 of them (Zen 4).
  if (count >= row_.size() / 16) {
    sort_all();
  } else {
    select(count);
  }
  complete_ = complete_ || keys_.size() < count;
}

TENON_INLINE void RankedRow::select(std::size_t count) {
  keys_.clear();
  float floor = -std::numeric_limits<float>::infinity();
  const auto nth = static_cast<std::ptrdiff_t>(count);
  for (std::size_t i = first_above(row_, floor); i < row_.size(); i = first_above(row_, floor, i)) {
    for (const std::size_t end = std::min(i + kLanes, row_.size()); i < end; ++i)
      if (row_[i] > floor) keys_.push_back(rank_key(row_[i], static_cast<TokenId>(i)));
    if (keys_.size() < 2 * count) continue;
    std::nth_element(keys_.begin(), keys_.begin() + nth - 1, keys_.end());
    keys_.resize(count);
    floor = rank_value(keys_.back());
  }
  std::sort(keys_.begin(), keys_.end());
  if (keys_.size() > count) keys_.resize(count);
}

TENON_INLINE void RankedRow::sort_all() {
  constexpr std::array<int, 3> shift = {32, 43, 54};
  constexpr std::size_t digits = 2048;
  keys_.clear();
  std::array<std::array<std::uint32_t, digits>, 3> start{};
  for (std::size_t i = 0; i < row_.size(); ++i) {
    if (row_[i] == -std::numeric_limits<float>::infinity()) continue;
    const RankKey key = rank_key(row_[i], static_cast<TokenId>(i));
    keys_.push_back(key);
    for (std::size_t pass = 0; pass < 3; ++pass) ++start[pass][(key >> shift[pass]) % digits];
  }
  spare_.resize(keys_.size());
  for (std::size_t pass = 0; pass < 3; ++pass) {
    std::uint32_t before = 0;
    for (std::uint32_t& s : start[pass]) {
      const std::uint32_t here = s;
      s = before;
      before += here;
    }
    for (const RankKey key : keys_) spare_[start[pass][(key >> shift[pass]) % digits]++] = key;
    keys_.swap(spare_);
  }
  complete_ = true;
}

}  // namespace tenon
