/// Low-rank updates of single requests: y += scale * B (A x) (Hu et al., 2021).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

/// The matrices of a layer, as the model multiplies with them. One may hold several linears of the checkpoint. The last
/// two belong to no layer and count as those of layer 0.
enum class Site : std::uint8_t { qkv, attn_out, mlp_up, mlp_down, embedding_in, embedding_out };
inline constexpr int kSites = 6;

/// Type of an adapter's factors, the one of their file. All three widen to float32 exactly.
enum class FactorType : std::uint8_t { float32, float16, bfloat16 };
/// Bytes of one factor.
constexpr std::size_t bytes_of(FactorType type) { return type == FactorType::float32 ? 4 : 2; }

/// Outputs whose factors b are contiguous, so that a pass over them reads memory in order.
inline constexpr int kFactorBlock = 64;

/// An update of some outputs of one matrix. It owns nothing.
struct LowRank {
  const void* a = nullptr;  ///< [rank, inputs]
  /// [outputs, rank] in blocks of kFactorBlock outputs (the last: the rest), each [rank, outputs of the block]. Block j
  /// begins at element j * kFactorBlock * rank.
  const void* b = nullptr;
  FactorType type = FactorType::float32;
  int rank = 0;
  float scale = 0;
  int first_output = 0, outputs = 0;
};

/// The adapter of a request, or several with their weights.
struct AdapterSet {
  const LowRank* updates = nullptr;
  const int* begins = nullptr;  ///< [layers * kSites + 1] into updates
  unsigned sites = ~0u;         ///< bit s: site s has updates in some layer, or may have

  TENON_HD std::span<const LowRank> at(int layer, Site site) const {
    const int* begin = begins + layer * kSites + static_cast<int>(site);
    return {updates + begin[0], static_cast<std::size_t>(begin[1] - begin[0])};
  }
  static constexpr unsigned bit(Site site) { return 1u << static_cast<int>(site); }
};

/// Rows of a step with the same adapters.
struct AdapterGroup {
  const AdapterSet* adapters = nullptr;
  int first = 0, count = 0;  ///< AdapterGroups::rows[first .. first + count)
};

/// Rows of a group that a device takes together, or rows without adapters, as its kernels read them.
struct AdapterTile {
  AdapterSet adapters;       ///< updates: null if the rows have none
  int first = 0, count = 0;  ///< AdapterTiles::rows[first .. first + count)
};

/// All rows of a step, in the device's memory; empty unless the device is TilesRows.
struct AdapterTiles {
  const AdapterTile* tiles = nullptr;  ///< [count]
  const int* rows = nullptr;           ///< [rows of the step]
  int count = 0;
  int most = 1;  ///< most rows of a tile that has adapters
};

/// The groups of the rows of a step that have adapters.
struct AdapterGroups {
  std::vector<AdapterGroup> groups;
  std::vector<int> rows;    ///< by group; ascending within one
  bool one_by_one = false;  ///< all threads work on one group after another; false: on groups side by side
  AdapterTiles tiles = {};

  void clear() {
    groups.clear();
    rows.clear();
    one_by_one = false;
    tiles = {};
  }
};

}  // namespace tenon
