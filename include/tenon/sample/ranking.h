// Tokens in order of (value descending, id ascending), the order in which candidates are kept and drawn. Only the ranks
// that are used are sorted. The first k of a long row cost about one pass over it.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

/// A value and an id as one integer: ascending integers are (value descending, id ascending). -0 counts as 0.
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

/// The ranks of one row, sorted lazily. Values of -inf are no candidates. Keeps its buffers between rows.
class RankedRow {
 public:
  /// row: must outlive the other calls.
  void reset(std::span<const float> row);

  /// Whether there are more than `rank` candidates. Sorts further if needed: each time 8 times as many candidates.
  bool has(std::size_t rank);
  /// The candidate of a rank that has() or sort_first() has sorted.
  TokenId id(std::size_t rank) const { return rank_id(keys_[rank]); }

  /// Sorts the first `count` candidates, or all if there are fewer.
  void sort_first(std::size_t count);

 private:
  // Gathers values above the floor. At twice `count` of them it drops half and raises the floor. Ids ascend, so a later
  // value equal to the floor ranks after all that are kept.
  void select(std::size_t count);

  // Least significant digit first, on the value's 32 bits; stable, so ids stay ascending among equals.
  void sort_all();

  std::span<const float> row_;
  std::vector<RankKey> keys_, spare_;  // the first ranks, sorted; spare_ holds nothing between calls
  bool complete_ = false;              // keys_ holds every candidate
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/sample/ranking-inl.h"
#endif
