// Attention over any cache: online softmax in linear memory, or with all scores materialised.
#pragma once
#include <algorithm>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/attention.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon {

namespace cpu {

template <class V>
void tiles_of(const void* view, int layer, int sequence, int head, int first, int count,
              KvTile<const typename V::Element>* out) {
  for (int i = 0; i < count; ++i) {
    const auto tile = static_cast<const V*>(view)->tile(layer, sequence, head, first + i);
    out[i] = {tile.keys, tile.values, tile.key_scales, tile.value_scales};
  }
}

// Rows of one sequence that are attended together at most.
inline constexpr int kAttentionRows = 16;

// Consecutive rows of a sequence, and heads of a group: those that read key/value head `kv_head`.
struct AttentionItem {
  int sequence, first_row, rows, kv_head, first_head, heads;
};

// Heads of a group that are attended together, where `items` would be the number of items if all were: all, so that
// their keys and values are read once, unless that leaves threads without work. Eight heads at a time are bound by
// arithmetic, not by reading, and so lose nothing by being parted from the rest. No bit depends on it.
inline int heads_together(int items, int group, int threads) {
  const auto parts = [&](int together) { return items * ((group + together - 1) / together); };
  int together = std::min(group, kAttentionQueries);
  while (together >= 16 && parts(together) < 4 * threads) together = (together + 1) / 2;
  while (together > 1 && parts(together) < threads) together = (together + 1) / 2;
  return together;
}

// Of at most so many rows and heads each, in the order in which memory holds what they read: heads of a block of the
// cache lie side by side, and items of one sequence and key/value head read the same.
template <class V>
std::vector<AttentionItem> attention_items(const AttentionArgs<V>& args, int most_rows, int most_heads) {
  std::vector<AttentionItem> items;
  const int group = args.heads / args.kv_heads;
  for (int s = 0; s < args.batch.sequence_count; ++s) {
    const int rows = args.batch.sequences[s].rows;
    for (int kv_head = 0; kv_head < args.kv_heads; ++kv_head) {
      for (int row = 0; row < rows; row += most_rows) {
        for (int head = kv_head * group, end = head + group; head < end; head += most_heads) {
          items.push_back({s, row, std::min(most_rows, rows - row), kv_head, head, std::min(most_heads, end - head)});
        }
      }
    }
  }
  return items;
}

template <class V>
FlashJob<typename V::Element> flash_job(const AttentionArgs<V>& args, const AttentionItem& item) {
  const SequenceRows& part = args.batch.sequences[item.sequence];
  const int width = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions;
  return {.q = args.q.row(part.first_row + item.first_row) + item.first_head * args.head_dim,
          .q_stride = args.q.stride,
          .rows = item.rows,
          .heads = item.heads,
          .first_position = part.start + item.first_row,
          .window = args.window,
          .slopes = args.slopes ? args.slopes + item.first_head : nullptr,
          .head_dim = args.head_dim,
          .value_stride = width,
          .scale = args.scale,
          .view = &args.kv,
          .tiles = tiles_of<V>,
          .layer = args.layer,
          .sequence = part.slot,
          .head = item.kv_head,
          .out = args.out.row(part.first_row + item.first_row) + item.first_head * args.head_dim,
          .out_stride = args.out.stride};
}

// body(item, thread)
template <class Body>
void share_items(Cpu& device, std::size_t count, Body&& body) {
  device.pool().share(static_cast<int>(count), 1, [&](int begin, int end, int thread) {
    for (int i = begin; i < end; ++i) body(static_cast<std::size_t>(i), thread);
  });
}

}  // namespace cpu

template <CacheView V>
void attention(Cpu& device, FlashAttention, const AttentionArgs<V>& args) {
  const auto& kernels = cpu::attention_kernels_for<typename V::Element>(device.isa());
  const int group = args.heads / args.kv_heads;
  const int rows = std::clamp(cpu::kAttentionQueries / group, 1, cpu::kAttentionRows);
  int blocks = 0;
  for (int s = 0; s < args.batch.sequence_count; ++s) blocks += (args.batch.sequences[s].rows + rows - 1) / rows;
  const int heads = cpu::heads_together(blocks * args.kv_heads, group, device.threads());
  const auto items = cpu::attention_items(args, rows, heads);
  const std::size_t floats = cpu::attention_scratch(cpu::kAttentionQueries, args.head_dim);
  float* scratch = device.scratch(floats * static_cast<std::size_t>(device.threads()));
  cpu::share_items(device, items.size(), [&](std::size_t i, int thread) {
    kernels.flash_rows(cpu::flash_job(args, items[i]), scratch + static_cast<std::size_t>(thread) * floats);
  });
}

template <CacheView V>
void attention(Cpu& device, DirectAttention, const AttentionArgs<V>& args) {
  const auto& kernels = cpu::attention_kernels_for<typename V::Element>(device.isa());
  const auto items = cpu::attention_items(args, 1, 1);
  std::vector<std::size_t> offsets;  // of the item's scores
  std::size_t total = 0;
  for (const auto& item : items) {
    offsets.push_back(total);
    const int end = args.batch.sequences[item.sequence].start + item.first_row + 1;  // of what the row sees
    const int begin = args.window > 0 ? std::max(0, end - args.window) : 0;
    total += static_cast<std::size_t>((end + 63) / 64 - begin / 64) * 64;
  }
  const std::size_t floats = cpu::attention_scratch(1, args.head_dim);
  float* scores = device.scratch(total + floats * static_cast<std::size_t>(device.threads()));
  cpu::share_items(device, items.size(), [&](std::size_t i, int thread) {
    float* scratch = scores + total + static_cast<std::size_t>(thread) * floats;
    kernels.direct_row(cpu::flash_job(args, items[i]), scores + offsets[i], scratch);
  });
}

}  // namespace tenon
