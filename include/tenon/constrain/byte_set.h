// Sets of bytes.
#pragma once
#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenon/core/require.h"

namespace tenon::constrain {

/// A set of bytes, as a bitmap.
struct ByteSet {
  std::array<std::uint64_t, 4> words{};  ///< bit b % 64 of word b / 64 stands for byte b

  static constexpr ByteSet all() { return {{~0ull, ~0ull, ~0ull, ~0ull}}; }
  /// first..last, both included.
  static constexpr ByteSet range(int first, int last) {
    ByteSet set;
    for (int b = first; b <= last; ++b) set.add(b);
    return set;
  }
  /// The set of one byte.
  static constexpr ByteSet of(int byte) { return range(byte, byte); }

  constexpr void add(int byte) { words[static_cast<std::size_t>(byte >> 6)] |= 1ull << (byte & 63); }
  constexpr bool has(int byte) const { return words[static_cast<std::size_t>(byte >> 6)] >> (byte & 63) & 1; }
  constexpr bool empty() const { return *this == ByteSet{}; }
  constexpr int count() const {
    int n = 0;
    for (const std::uint64_t w : words) n += std::popcount(w);
    return n;
  }
  /// The lowest byte of a nonempty set.
  constexpr int first() const {
    int at = 0;
    for (std::size_t i = 0; i < 4; ++i, at += 64) {
      if (words[i]) return at + std::countr_zero(words[i]);
    }
    return -1;
  }

  /// Calls visit(byte) in ascending order.
  template <class Visit>
  constexpr void for_each(Visit&& visit) const {
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::uint64_t left = words[i]; left; left &= left - 1)
        visit(static_cast<int>(i) * 64 + std::countr_zero(left));
    }
  }

  friend constexpr ByteSet operator|(ByteSet a, const ByteSet& b) {
    for (std::size_t i = 0; i < 4; ++i) a.words[i] |= b.words[i];
    return a;
  }
  friend constexpr ByteSet operator&(ByteSet a, const ByteSet& b) {
    for (std::size_t i = 0; i < 4; ++i) a.words[i] &= b.words[i];
    return a;
  }
  friend constexpr ByteSet operator~(ByteSet a) {
    for (std::uint64_t& w : a.words) w = ~w;
    return a;
  }
  friend constexpr bool operator==(const ByteSet&, const ByteSet&) = default;
  friend constexpr auto operator<=>(const ByteSet&, const ByteSet&) = default;
};

/// Splits classes, which partition all bytes, where `set` contains only part of a class.
inline void refine(std::vector<ByteSet>& classes, const ByteSet& set) {
  for (std::size_t i = 0, n = classes.size(); i < n; ++i) {
    const ByteSet in = classes[i] & set, out = classes[i] & ~set;
    if (in.empty() || out.empty()) continue;
    classes[i] = in;
    classes.push_back(out);
  }
}

}  // namespace tenon::constrain
