// Attention over any cache: online softmax in linear memory, or with all scores materialised.
#pragma once
#include <algorithm>
#include <atomic>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon {

// Online softmax over strides of 64 keys and splits of 256 (Dao et al., 2022): memory linear in the length.
struct FlashAttention {
  static constexpr bool materialises_scores = false;
};

// Scores of all rows, heads and keys in memory, then softmax: the baseline that flash attention is measured against.
struct DirectAttention {
  static constexpr bool materialises_scores = true;
};

namespace cpu {

template <class V>
void tiles_of(const void* view, int layer, int sequence, int head, int first, int count,
              KvTile<const typename V::Element>* out) {
  for (int i = 0; i < count; ++i) {
    const auto tile = static_cast<const V*>(view)->tile(layer, sequence, head, first + i);
    out[i] = {tile.keys, tile.values, tile.key_scales, tile.value_scales};
  }
}

// Rows of one sequence that are attended together; a multiple of every kernel's own block.
inline constexpr int kAttentionRows = 16;

struct RowBlock {
  int sequence, first, rows, head;
};

// In the order in which memory holds what they read: heads of a block of the cache lie side by side, and row blocks of one
// sequence and head read the same.
inline std::vector<RowBlock> row_blocks(const BatchView& batch, int heads, int most) {
  std::vector<RowBlock> blocks;
  for (int s = 0; s < batch.sequence_count; ++s) {
    for (int head = 0; head < heads; ++head) {
      for (int first = 0; first < batch.sequences[s].rows; first += most) {
        blocks.push_back({s, first, std::min(most, batch.sequences[s].rows - first), head});
      }
    }
  }
  return blocks;
}

template <class V>
FlashJob<typename V::Element> flash_job(const AttentionArgs<V>& args, const RowBlock& block) {
  const auto [sequence, first, rows, head] = block;
  const SequenceRows& part = args.batch.sequences[sequence];
  const int width = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions;
  return {args.q.row(part.first_row + first) + head * args.head_dim,
          args.q.stride,
          rows,
          part.start + first + 1,
          args.head_dim,
          width,
          args.scale,
          &args.kv,
          tiles_of<V>,
          args.layer,
          part.slot,
          head / (args.heads / args.kv_heads),
          args.out.row(part.first_row + first) + head * args.head_dim,
          args.out.stride};
}

}  // namespace cpu

template <CacheView V>
void attention(Cpu& device, FlashAttention, const AttentionArgs<V>& args) {
  const auto& kernels = cpu::attention_kernels_for<typename V::Element>(device.isa());
  const auto blocks = cpu::row_blocks(args.batch, args.heads, cpu::kAttentionRows);
  const std::size_t floats = cpu::attention_scratch(args.head_dim);
  float* scratch = device.scratch(floats * static_cast<std::size_t>(device.threads()));
  std::atomic<std::size_t> next{0};
  device.pool().run([&](int thread) {
    for (std::size_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < blocks.size();) {
      kernels.flash_rows(cpu::flash_job(args, blocks[b]), scratch + static_cast<std::size_t>(thread) * floats);
    }
  });
}

template <CacheView V>
void attention(Cpu& device, DirectAttention, const AttentionArgs<V>& args) {
  const auto& kernels = cpu::attention_kernels_for<typename V::Element>(device.isa());
  const auto blocks = cpu::row_blocks(args.batch, args.heads, 1);
  std::vector<std::size_t> offsets;  // of the block's scores
  std::size_t total = 0;
  for (const auto& block : blocks) {
    offsets.push_back(total);
    const auto seen = static_cast<std::size_t>(args.batch.sequences[block.sequence].start + block.first + 1);
    total += (seen + 63) / 64 * 64;
  }
  const std::size_t floats = cpu::attention_scratch(args.head_dim);
  float* scores = device.scratch(total + floats * static_cast<std::size_t>(device.threads()));
  std::atomic<std::size_t> next{0};
  device.pool().run([&](int thread) {
    for (std::size_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < blocks.size();) {
      kernels.direct_row(cpu::flash_job(args, blocks[b]), 0, scores + offsets[b],
                         scores + total + static_cast<std::size_t>(thread) * floats);
    }
  });
}

}  // namespace tenon
