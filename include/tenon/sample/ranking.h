// Tokens in order of (value descending, id ascending), as many as somebody asks for: the order in which candidates are
// kept and drawn. The first k of a long row cost about one pass over it.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/sample/strips.h"

namespace tenon {

// A value and an id as one integer: ascending integers are (value descending, id ascending). -0 counts as 0.
using RankKey = std::uint64_t;

inline RankKey rank_key(float value, TokenId id) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value + 0.0f);
  const std::uint32_t descending = (bits >> 31) != 0 ? bits : ~bits ^ 0x80000000u;
  return (RankKey{descending} << 32) | static_cast<std::uint32_t>(id);
}
inline TokenId rank_id(RankKey key) { return static_cast<TokenId>(static_cast<std::uint32_t>(key)); }
inline float rank_value(RankKey key) {
  const std::uint32_t descending = static_cast<std::uint32_t>(key >> 32);
  return std::bit_cast<float>((descending >> 31) != 0 ? descending : ~(descending ^ 0x80000000u));
}

// The ranks of one row, sorted lazily. Values of -inf are no candidates. Keeps its buffers between rows.
class RankedRow {
 public:
  // `row` must outlive the ranks asked for.
  void reset(std::span<const float> row) {
    row_ = row;
    keys_.clear();
    complete_ = false;
  }

  // Whether there are more than `rank` candidates. Sorts further if need be: 8 times as many each time.
  bool has(std::size_t rank) {
    if (rank >= keys_.size() && !complete_) sort_first(std::max({rank + 1, 8 * keys_.size(), std::size_t{64}}));
    return rank < keys_.size();
  }
  TokenId id(std::size_t rank) const { return rank_id(keys_[rank]); }

  // Sorts the first `count` candidates, or all if there are fewer.
  void sort_first(std::size_t count) {
    if (complete_ || count <= keys_.size()) return;
    // Of 50,257 normal values (g++ 12 -O2, Zen 4) 1,024 are selected in 0.06 ms, 2,048 in 0.1 to 0.3 (as branches are
    // predicted), 4,096 in 0.5; radix sorts all in 0.29.
    if (count >= row_.size() / 16) {
      sort_all();
    } else {
      select(count);
    }
    complete_ = complete_ || keys_.size() < count;
  }

 private:
  // Gathers whatever is above the floor; when there are twice as many as wanted, throws half away and raises the floor.
  // Ids ascend, so a later value equal to the floor ranks behind all that are kept.
  void select(std::size_t count) {
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

  // Least significant digit first, on the value's 32 bits; stable, so ids stay ascending among equals.
  void sort_all() {
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

  std::span<const float> row_;
  std::vector<RankKey> keys_, spare_;  // the first ranks, sorted; spare_ holds nothing between calls
  bool complete_ = false;              // keys_ holds every candidate
};

}  // namespace tenon
