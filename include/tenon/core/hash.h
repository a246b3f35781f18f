/// Hashes that are the same in every build: for fingerprints and indexes, never for secrets.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the result depends on every bit of x.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Hashes bytes four words at a time, each into a lane of its own, so that hashing runs about as fast as memory: whole
/// weights are hashed.
inline std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0) {
  std::array<std::uint64_t, 4> lanes = {seed, seed ^ 1, seed ^ 2, seed ^ 3};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  const auto block = [&](const std::byte* from) {
    for (auto& lane : lanes) {
      std::uint64_t word = 0;
      std::memcpy(&word, from, sizeof word);
      from += sizeof word;
      lane = (lane ^ word) * 0x9e3779b97f4a7c15U;
      lane ^= lane >> 32;
    }
  };
  for (; left >= sizeof lanes; at += sizeof lanes, left -= sizeof lanes) block(at);
  if (left > 0) {
    std::array<std::byte, sizeof lanes> rest{};
    std::memcpy(rest.data(), at, left);
    block(rest.data());
  }
  std::uint64_t hash = mix64(bytes.size());
  for (const auto lane : lanes) hash = mix64(hash ^ lane);
  return hash;
}
inline std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) {
  return hash64(std::as_bytes(std::span(text.data(), text.size())), seed);
}

}  // namespace tenon
