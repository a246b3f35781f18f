// The hash of packed weights, for fingerprints.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/core/require.h"

namespace tenon::detail {

// hash64 of each MiB, by several threads, and of these hashes. threads: 0: all cores.
std::uint64_t hash_of_leaves(std::span<const std::byte> bytes, std::uint64_t seed, int threads);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/model/weight_hash-inl.h"
#endif
