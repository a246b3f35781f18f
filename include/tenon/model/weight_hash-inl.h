#pragma once
#include <algorithm>
#include <atomic>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "tenon/core/hash.h"
#include "tenon/core/require.h"
#include "tenon/model/weight_hash.h"

namespace tenon::detail {

TENON_INLINE std::uint64_t hash_of_leaves(std::span<const std::byte> bytes, std::uint64_t seed, int threads) {
  constexpr std::size_t kLeaf = 1 << 20;
  std::vector<std::uint64_t> leaves((bytes.size() + kLeaf - 1) / kLeaf);
  std::atomic<std::size_t> next{0};
  const auto hash_rest = [&] {
    for (std::size_t i = next++; i < leaves.size(); i = next++)
      leaves[i] = hash64(bytes.subspan(i * kLeaf, std::min(kLeaf, bytes.size() - i * kLeaf)), i);
  };
  const unsigned wanted =
      threads > 0 ? static_cast<unsigned>(threads) : std::max(1u, std::thread::hardware_concurrency());
  const std::size_t count = std::min(std::size_t{wanted}, leaves.size());
  std::vector<std::future<void>> others;
  try {
    for (std::size_t i = 1; i < count; ++i) others.push_back(std::async(std::launch::async, hash_rest));
  } catch (const std::system_error&) {  // the machine has no more threads: fewer do the same work
  }
  hash_rest();
  for (auto& each : others) each.get();
  return hash64(std::as_bytes(std::span(leaves)), seed ^ bytes.size());
}

}  // namespace tenon::detail
