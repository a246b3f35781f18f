// What the laws share: a generator with fixed seeds, so that what fails once fails always, and the list of broken laws.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::testing {

using Violations = std::vector<std::string>;

// SplitMix64 (Steele, Lea and Flood, 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  int between(int low, int high) { return low + static_cast<int>(next() % static_cast<unsigned>(high - low + 1)); }

 private:
  std::uint64_t state_;
};

namespace detail {

// Each broken law is listed once.
inline void note(Violations& violations, bool holds, const char* law) {
  if (!holds && std::find(violations.begin(), violations.end(), law) == violations.end()) violations.push_back(law);
}

}  // namespace detail
}  // namespace tenon::testing
