// Attention over any cache: online softmax in linear memory, or with all scores materialised.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/attention.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon {

namespace cpu {

// The tiles of view V as kernels read them.
template <class V>
struct KernelTiles {
  using Element = typename V::Element;
  const V& kv;

  KernelTiles(const AttentionArgs<V>& args, float* /*room*/) : kv(args.kv) {}
  static std::size_t floats(int /*head_dim*/) { return 0; }

  static void read(const void* self, int layer, int sequence, int head, int first, int count,
                   KvTile<const Element>* out) {
    for (int i = 0; i < count; ++i) {
      const auto tile = static_cast<const KernelTiles*>(self)->kv.tile(layer, sequence, head, first + i);
      out[i] = {tile.keys, tile.values, tile.key_scales, tile.value_scales};
    }
  }
};

// Tiles of a user's own element, decoded to float32 into a thread's room: [kHeldTiles] of keys [head_dim, 16] and
// values [16, value_stride]. The user's code is compiled once, not for each instruction set, so all sets read the same
// bits.
template <class V>
requires OwnKvElement<typename V::Element>
struct KernelTiles<V> {
  using Element = float;
  const V& kv;
  int head_dim;
  float* room;

  KernelTiles(const AttentionArgs<V>& args, float* memory) : kv(args.kv), head_dim(args.head_dim), room(memory) {}
  static std::size_t floats(int head_dim) { return kHeldTiles * tile_floats(head_dim); }

  static void read(const void* self, int layer, int sequence, int head, int first, int count,
                   KvTile<const float>* out) {
    const auto& tiles = *static_cast<const KernelTiles*>(self);
    for (int i = 0; i < count; ++i) {
      out[i] = tiles.decoded(tiles.kv.tile(layer, sequence, head, first + i),
                             tiles.room + static_cast<std::size_t>(i) * tile_floats(tiles.head_dim));
    }
  }

 private:
  static int width(int head_dim) { return KvShape{.head_dim = head_dim}.value_stride(); }
  static std::size_t tile_floats(int head_dim) {
    return static_cast<std::size_t>(kTilePositions) * static_cast<std::size_t>(head_dim + width(head_dim));
  }

  KvTile<const float> decoded(const KvTile<typename V::Element>& tile, float* keys) const {
    float* const values = keys + kTilePositions * head_dim;
    const int stride = width(head_dim);
    for (int lane = 0; lane < kTilePositions; ++lane) {
      float key_scale = 1, value_scale = 1;
      if constexpr (has_scales<typename V::Element>) {
        key_scale = tile.key_scales[lane];
        value_scale = tile.value_scales[lane];
      }
      for (int d = 0; d < head_dim; ++d) {
        const int key = d * kTilePositions + lane, value = lane * stride + d;
        keys[key] = tile.keys[key].decode() * key_scale;
        values[value] = tile.values[value].decode() * value_scale;
      }
      std::fill(values + lane * stride + head_dim, values + (lane + 1) * stride, 0.0f);
    }
    return {keys, values};
  }
};

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

// Items of at most `most_rows` rows and `most_heads` heads each, in the order of the memory that they read. Heads of a
// block of the cache lie side by side, and items of one sequence and key/value head read the same.
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

// `tiles` must outlive the job.
template <class V>
FlashJob<typename KernelTiles<V>::Element> flash_job(const AttentionArgs<V>& args, const AttentionItem& item,
                                                     const KernelTiles<V>& tiles) {
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
          .view = &tiles,
          .tiles = KernelTiles<V>::read,
          .layer = args.layer,
          .sequence = part.slot,
          .head = item.kv_head,
          .out = args.out.row(part.first_row + item.first_row) + item.first_head * args.head_dim,
          .out_stride = args.out.stride,
          .soft_cap = args.soft_cap,
          .key_biases = args.key_biases ? args.key_biases + item.first_head * args.key_bias_stride : nullptr,
          .key_bias_stride = args.key_bias_stride,
          .sinks = args.sinks ? args.sinks + item.first_head : nullptr};
}

// body(item, thread)
template <class Body>
void share_items(Cpu& device, std::size_t count, Body&& body) {
  device.pool().share(static_cast<int>(count), 1, [&](int begin, int end, int thread) {
    for (int i = begin; i < end; ++i) body(static_cast<std::size_t>(i), thread);
  });
}

// Online softmax. job(item, tiles) makes the argument of a kernel.
template <class V, class Kernels, class Job>
void flash_attention(Cpu& device, const AttentionArgs<V>& args, const Kernels& kernels, Job&& job) {
  const int group = args.heads / args.kv_heads;
  const int rows = std::clamp(kAttentionQueries / group, 1, kAttentionRows);
  int blocks = 0;
  for (int s = 0; s < args.batch.sequence_count; ++s) blocks += (args.batch.sequences[s].rows + rows - 1) / rows;
  const int heads = heads_together(blocks * args.kv_heads, group, device.threads());
  const auto items = attention_items(args, rows, heads);
  const std::size_t of_tiles = KernelTiles<V>::floats(args.head_dim);
  const std::size_t floats = of_tiles + attention_scratch(kAttentionQueries, args.head_dim);
  float* scratch = device.scratch(floats * static_cast<std::size_t>(device.threads()));
  share_items(device, items.size(), [&](std::size_t i, int thread) {
    float* const mine = scratch + static_cast<std::size_t>(thread) * floats;
    const KernelTiles<V> tiles(args, mine);
    kernels.flash_rows(job(items[i], tiles), mine + of_tiles);
  });
}

// All scores in memory.
template <class V, class Kernels, class Job>
void direct_attention(Cpu& device, const AttentionArgs<V>& args, const Kernels& kernels, Job&& job) {
  const auto items = attention_items(args, 1, 1);
  std::vector<std::size_t> offsets;  // of the item's scores
  std::size_t total = 0;
  for (const auto& item : items) {
    offsets.push_back(total);
    const int end = args.batch.sequences[item.sequence].start + item.first_row + 1;  // of what the row sees
    const int begin = args.window > 0 ? std::max(0, end - args.window) : 0;
    total += static_cast<std::size_t>((end + 63) / 64 - begin / 64) * 64;
  }
  const std::size_t of_tiles = KernelTiles<V>::floats(args.head_dim);
  const std::size_t floats = of_tiles + attention_scratch(1, args.head_dim);
  float* scores = device.scratch(total + floats * static_cast<std::size_t>(device.threads()));
  share_items(device, items.size(), [&](std::size_t i, int thread) {
    float* const mine = scores + total + static_cast<std::size_t>(thread) * floats;
    const KernelTiles<V> tiles(args, mine);
    kernels.direct_row(job(items[i], tiles), scores + offsets[i], mine + of_tiles);
  });
}

// VariantHooks::apply of a variant. It is not inlined and not vectorised. If the compiler fuses a product and a sum in
// a user's hook, it therefore does so for every position and every instruction set.
template <AttentionVariant A>
[[gnu::noinline]] std::uint64_t apply_hooks(const void* erased, [[maybe_unused]] int row, int first,
                                            [[maybe_unused]] int head, int begin, int end, float* scores /* [64] */) {
  [[maybe_unused]] const A& variant = *static_cast<const A*>(erased);
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  if constexpr (ScoresTiles<A>) {
    for (int t = begin / kTilePositions * kTilePositions; t < end; t += kTilePositions)
      variant.scores(row, first + t, head, std::span<float, kTilePositions>(scores + t, kTilePositions));
  }
  std::uint64_t seen = 0;
  for (int t = begin; t < end; ++t) {
    asm volatile("" ::: "memory");  // prevents vectorising: the tail of a vectorised loop is other code than its body
    bool sees = true;
    if constexpr (MasksKeys<A>) sees = variant.mask(row, first + t);
    if constexpr (!ScoresTiles<A> && ScoresKeys<A>) {
      if (sees) scores[t] = variant.score(row, first + t, head, scores[t]);
    }
    if (!sees) scores[t] = hidden;
    seen |= std::uint64_t{scores[t] != hidden} << t;
  }
  return seen;
}

}  // namespace cpu

template <CacheView V>
void attention(Cpu& device, FlashAttention, const AttentionArgs<V>& args) {
  cpu::flash_attention(device, args, cpu::attention_kernels_for<typename cpu::KernelTiles<V>::Element>(device.isa()),
                       [&](const auto& item, const auto& tiles) { return cpu::flash_job(args, item, tiles); });
}

template <CacheView V>
void attention(Cpu& device, DirectAttention, const AttentionArgs<V>& args) {
  cpu::direct_attention(device, args, cpu::attention_kernels_for<typename cpu::KernelTiles<V>::Element>(device.isa()),
                        [&](const auto& item, const auto& tiles) { return cpu::flash_job(args, item, tiles); });
}

/// Applies the hooks of a variant within the algorithm that its materialises_scores picks.
template <AttentionVariant A, CacheView V>
void attention(Cpu& device, const A& variant, const AttentionArgs<V>& args) {
  using Element = typename cpu::KernelTiles<V>::Element;
  using Job = cpu::VariantJob<Element>;
  const auto& kernels = cpu::attention_kernels_for<Element, Job>(device.isa());
  const auto job = [&](const cpu::AttentionItem& item, const cpu::KernelTiles<V>& tiles) {
    return Job{cpu::flash_job(args, item, tiles), {&variant, cpu::apply_hooks<A>}, item.first_head};
  };
  if constexpr (A::materialises_scores)
    cpu::direct_attention(device, args, kernels, job);
  else
    cpu::flash_attention(device, args, kernels, job);
}

}  // namespace tenon
