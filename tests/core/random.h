// Random numbers with fixed seeds.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/core/hash.h"

namespace tenon::test {

// Plain integers and exact scaling: the same numbers under every compiler and flag.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15); }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  bool once_in(int n) { return below(n) == 0; }
  template <class List>
  const auto& of(const List& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }
  float uniform() {  // in [-1, 1), a multiple of 2^-23
    return static_cast<float>(static_cast<int>(next() >> 40) - (1 << 23)) * 0x1p-23f;
  }

 private:
  std::uint64_t state_;
};

}  // namespace tenon::test
