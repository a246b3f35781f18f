// Philox4x32-10, a counter-based generator: a draw is a function of (seed, position) alone, with no state to
// share, save or advance. Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once
#include <array>
#include <cstdint>

#include "tenon/core/views.h"

namespace tenon {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Four 32-bit random words.
constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;  // the golden ratio and sqrt(3) - 1, as Weyl sequences
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// A number in [0, 1), a multiple of 2^-24: exact in a float, so that every machine draws the same. position: of the
/// token drawn.
constexpr float uniform(std::uint64_t seed, int position) {
  const PhiloxCounter counter = {static_cast<std::uint32_t>(position), 0, 0, 0};
  const PhiloxKey key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  return static_cast<float>(philox4x32_10(counter, key)[0] >> 8) * 0x1p-24f;
}

}  // namespace tenon
