// Low-rank updates of single requests: y += scale * B (A x) (Hu et al., 2021).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

// The matrices of a layer, as the model multiplies with them. One may hold several linears of the checkpoint.
enum class Site : std::uint8_t { qkv, attn_out, mlp_up, mlp_down };
inline constexpr int kSites = 4;

// Factors stay as their file has them: all three widen to float32 exactly.
enum class FactorType : std::uint8_t { float32, float16, bfloat16 };
constexpr std::size_t bytes_of(FactorType type) { return type == FactorType::float32 ? 4 : 2; }

// Outputs whose factors b lie together, so that a pass over them reads memory in order.
inline constexpr int kFactorBlock = 64;

// An update of some outputs of one matrix.
struct LowRank {
  const void* a = nullptr;  // [rank, inputs]
  const void* b = nullptr;  // [outputs, rank] by blocks of kFactorBlock outputs (the last: what is left), each
                            // [rank, outputs of the block]; block j begins at element j * kFactorBlock * rank
  FactorType type = FactorType::float32;
  int rank = 0;
  float scale = 0;
  int first_output = 0, outputs = 0;
};

// What a request runs under: an adapter, or several with their weights.
struct AdapterSet {
  const LowRank* updates = nullptr;
  const int* begins = nullptr;  // [layers * kSites + 1] into updates
  unsigned sites = ~0u;         // bit s: site s has updates in some layer, or may have

  TENON_HD std::span<const LowRank> at(int layer, Site site) const {
    const int* begin = begins + layer * kSites + static_cast<int>(site);
    return {updates + begin[0], static_cast<std::size_t>(begin[1] - begin[0])};
  }
  static constexpr unsigned bit(Site site) { return 1u << static_cast<int>(site); }
};

// Rows of a step that run under the same set.
struct AdapterGroup {
  const AdapterSet* adapters = nullptr;
  int first = 0, count = 0;  // AdapterGroups::rows[first .. first + count)
};

// Rows of a group that a device takes together, or rows without adapters, as its kernels read them.
struct AdapterTile {
  AdapterSet adapters;       // updates: null where the rows have none
  int first = 0, count = 0;  // AdapterTiles::rows[first .. first + count)
};

// All rows of a step, where kernels find them; none on devices that do not ask for tiles.
struct AdapterTiles {
  const AdapterTile* tiles = nullptr;  // [count]
  const int* rows = nullptr;           // [rows of the step]
  int count = 0;
  int most = 1;  // rows of a tile that has adapters
};

// How the rows of a step that have adapters are taken: groups beside one another on the device's threads, or one group
// after another, all threads at each.
struct AdapterGroups {
  std::vector<AdapterGroup> groups;
  std::vector<int> rows;  // by group; ascending within one
  bool one_by_one = false;
  AdapterTiles tiles = {};

  void clear() {
    groups.clear();
    rows.clear();
    one_by_one = false;
    tiles = {};
  }
};

}  // namespace tenon
