/// Low-rank updates of single requests: y += scale * B (A x) (Hu et al., 2021).
#pragma once
#include <algorithm>
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

/// Changes of one product beside its low-rank update. Null: unchanged. LinearArgs defines the effect.
struct ProductChange {
  const float* input_gain = nullptr;  ///< [inputs], factors of x
  const float* gain = nullptr;        ///< [outputs], factors of the product
  const float* bias = nullptr;        ///< [outputs], in place of the model's bias
};

/// The norms of a decoder that an adapter may replace. The last two belong to no layer and count as those of layer 0.
enum class NormSite : std::uint8_t {
  attention,
  mlp,
  attention_out,
  mlp_out,
  query,
  key,
  after_attention,
  after_mlp,
  embedding,
  final_norm,
};
inline constexpr int kNormSites = 10;

/// An adapter's own norm. Null: the model's.
struct NormChange {
  const float* gain = nullptr;
  const float* bias = nullptr;
  friend bool operator==(const NormChange&, const NormChange&) = default;
};

/// Changes of the embedding or the head, a table [vocab, width]. Row t becomes the adapter's own, if it has one; else
/// gain * (row + scale * B A), where an embedding has one gain a column, and a head one a row.
struct TableChange {
  const float* rows = nullptr;           ///< [count, width], the adapter's own; null: none
  const std::int32_t* tokens = nullptr;  ///< [count], ascending: their ids; null: row t is that of id t
  int count = 0;
  const float* a = nullptr;     ///< embedding: [vocab, rank]; head: [rank, width]; null: no update
  const float* b = nullptr;     ///< embedding: [rank, width]; head: [vocab, rank]
  const float* gain = nullptr;  ///< embedding: [width]; head: [vocab]; null: 1
  int rank = 0;
  float scale = 0;

  /// Whether it changes anything.
  bool any() const { return rows || a; }
  /// The adapter's own row of a token; -1: it has none.
  int own_row(std::int32_t token) const {
    if (!rows) return -1;
    if (!tokens) return token < count ? token : -1;
    const std::int32_t* const found = std::lower_bound(tokens, tokens + count, token);
    return found != tokens + count && *found == token ? static_cast<int>(found - tokens) : -1;
  }
};

/// Changes of an adapter beside its low-rank updates, in the host's memory.
struct AdapterChanges {
  const ProductChange* products = nullptr;  ///< [layers * kSites]; null: none
  const NormChange* norms = nullptr;        ///< [layers * kNormSites]; null: none
  TableChange embedding = {}, head = {};

  /// Whether it changes anything.
  bool any() const { return products || norms || embedding.any() || head.any(); }
};

/// The low-rank updates of an adapter, as kernels read them.
struct LowRankTable {
  const LowRank* updates = nullptr;
  const int* begins = nullptr;  ///< [layers * kSites + 1] into updates
  unsigned sites = ~0u;         ///< bit s: site s has updates in some layer, or may have

  TENON_HD std::span<const LowRank> at(int layer, Site site) const {
    const int* begin = begins + layer * kSites + static_cast<int>(site);
    return {updates + begin[0], static_cast<std::size_t>(begin[1] - begin[0])};
  }
  static constexpr unsigned bit(Site site) { return 1u << static_cast<int>(site); }
};

/// The adapter of a request, or several with their weights.
struct AdapterSet : LowRankTable {
  const AdapterChanges* changes = nullptr;  ///< null: none

  /// The changes of a product; empty where there are none.
  ProductChange product(int layer, Site site) const {
    if (!changes || !changes->products) return {};
    return changes->products[layer * kSites + static_cast<int>(site)];
  }
  /// Likewise of a norm.
  NormChange norm(int layer, NormSite site) const {
    if (!changes || !changes->norms) return {};
    return changes->norms[layer * kNormSites + static_cast<int>(site)];
  }
  /// The changes of the embedding and the head; null where there are none.
  const TableChange* embedding() const { return changes && changes->embedding.any() ? &changes->embedding : nullptr; }
  const TableChange* head() const { return changes && changes->head.any() ? &changes->head : nullptr; }
};

/// Rows of a step with the same adapters.
struct AdapterGroup {
  const AdapterSet* adapters = nullptr;
  int first = 0, count = 0;  ///< AdapterGroups::rows[first .. first + count)
};

/// Rows of a group that a device takes together, or rows without adapters, as its kernels read them.
struct AdapterTile {
  LowRankTable adapters;     ///< updates: null if the rows have none
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
