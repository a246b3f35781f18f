/// Parts that the laws share: the list of broken laws, and a generator with fixed seeds, so that a failure repeats.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tenon/core/hash.h"

namespace tenon::testing {

/// Broken laws, one sentence each.
using Violations = std::vector<std::string>;

/// SplitMix64 (Steele, Lea and Flood, 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15U); }
  /// A whole number in low .. high.
  int between(int low, int high) { return low + static_cast<int>(next() % static_cast<unsigned>(high - low + 1)); }

 private:
  std::uint64_t state_;
};

namespace detail {

// Each broken law is listed once.
inline void note(Violations& violations, bool holds, const char* law) {
  if (!holds && std::find(violations.begin(), violations.end(), law) == violations.end()) violations.push_back(law);
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace detail
}  // namespace tenon::testing
