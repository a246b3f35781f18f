// Products of sixteen-bit matrices in the canonical order of tensor cores: an output is one chain over k, sixteen columns an
// instruction, ascending, into one float. That order is the same in every tile, here and in linear_wgmma.cuh, so that no bit
// depends on the rows beside one (docs/numerics.md). This kernel is for few rows, or devices before sm_90.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/core/operand_tiles.h"
#include "tenon/ops/cuda/finish_pairs.cuh"
#include "tenon/ops/cuda/ring.cuh"
#include "tenon/ops/cuda/tensor_core.cuh"

namespace tenon::cuda {

inline constexpr int kChunkBytes = kCoreRows * kChunkColumns * 2;  // of eight rows

inline constexpr int kMostWarps = 8;  // of a block that multiply

// A stage of a block: a chunk of columns of its weights, then of its tokens.
struct StageShape {
  int weight_blocks, token_blocks;  // of eight rows
  int stages;                       // of the ring

  __host__ __device__ int bytes() const { return (weight_blocks + token_blocks) * kChunkBytes; }
};

// Lets the kernel behind this one be made ready, and fetch its weights, while this one runs. It waits for this one's end all the same.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// The tiles of a block, one behind the other: number `first`, and every `step`-th.
struct TileWalk {
  int first, step, count;      // of all blocks
  int across;                  // tiles of outputs side by side
  int outputs, tokens;         // of a tile, in blocks of eight rows

  __device__ int own() const { return first < count ? (count - first - 1) / step + 1 : 0; }
  __device__ int first_w(int i) const { return (first + i * step) % across * outputs; }
  __device__ int first_x(int i) const { return (first + i * step) / across * tokens; }
};

// Where one operand's chunks of a block's tiles lie, one behind the other.
template <class E>
class ChunkWalk {
 public:
  // first_of(i): the first eight-row block of tile i; at most `most` blocks belong to it.
  template <class First>
  __device__ ChunkWalk(const OperandTiles<const E>& all, int most, const First& first_of)
      : all_(all), most_(most), chunks_(chunk_count(all.cols)), step_(std::ptrdiff_t{all.row_blocks()} * kBlock) {
    begin(first_of(0));
  }
  __device__ const E* from() const { return from_; }
  __device__ int bytes() const { return bytes_; }
  template <class First>
  __device__ void next(const First& first_of) {
    from_ += step_;
    if (++chunk_ == chunks_) begin(first_of(++tile_));
  }

 private:
  static constexpr int kBlock = kCoreRows * kChunkColumns;

  __device__ void begin(int first) {
    chunk_ = 0;
    from_ = all_.data + std::ptrdiff_t{first} * kBlock;
    bytes_ = max(0, min(most_, all_.row_blocks() - first)) * kChunkBytes;
  }

  const OperandTiles<const E>& all_;
  const int most_, chunks_;
  const std::ptrdiff_t step_;
  const E* from_ = nullptr;
  int bytes_ = 0, chunk_ = 0, tile_ = 0;
};

// Brings the chunks of a block's tiles, weights and tokens. Weights are older than the kernel before, and do not wait for it.
template <Fill kFill, class E>
__device__ __forceinline__ void fill_ring(Ring& ring, std::byte* stages, const StageShape& shape, const OperandTiles<const E>& x,
                                          const OperandTiles<const E>& w, const TileWalk& walk) {
  const auto first_w = [&](int i) { return walk.first_w(i); };
  const auto first_x = [&](int i) { return walk.first_x(i); };
  ChunkWalk<E> weights(w, shape.weight_blocks, first_w), tokens(x, shape.token_blocks, first_x), expected(x, shape.token_blocks, first_x);
  const int all = walk.own() * chunk_count(x.cols), ahead = min(shape.stages, all), bytes = shape.bytes(), token_byte = shape.weight_blocks * kChunkBytes;
  const auto fill_weights = [&](int stage) {
    ring.full[stage].template expect<kFill>(weights.bytes() + expected.bytes());
    if (weights.bytes() > 0) ring.full[stage].template fill<kFill>(stages + stage * bytes, weights.from(), weights.bytes());
    weights.next(first_w);
    expected.next(first_x);
  };
  const auto fill_tokens = [&](int stage) {
    ring.full[stage].template fill<kFill>(stages + stage * bytes + token_byte, tokens.from(), tokens.bytes());
    ring.full[stage].template sent<kFill>();
    tokens.next(first_x);
  };
#pragma unroll 1
  for (int i = 0; i < ahead; ++i) fill_weights(i);
  wait_for_earlier();
#pragma unroll 1
  for (int i = 0; i < ahead; ++i) fill_tokens(i);
  RingPlace at{0, 1};
#pragma unroll 1
  for (int i = ahead; i < all; ++i, at.next(shape.stages)) {
    ring.empty[at.stage].wait(at.turn - 1);
    fill_weights(at.stage);
    fill_tokens(at.stage);
  }
}

// What a warp multiplies in two steps of sixteen columns, half a chunk.
template <int Tiles, int Blocks>
struct HalfChunk {
  std::uint32_t x[2][Tiles][4], w[Blocks][4];

  // tokens: addresses of this lane's rows; weights: of its part of the first block
  __device__ __forceinline__ void load(std::uint32_t stage, const int (&tokens)[Tiles], int weights) {
#pragma unroll
    for (int n = 0; n < Blocks; ++n) load_matrices(w[n], stage + weights + n * kChunkBytes);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int t = 0; t < Tiles; ++t) load_matrices(x[step][t], stage + tokens[t] + step * kCoreElements * 4);
    }
  }
  template <class E>
  __device__ __forceinline__ void multiply(float (&sums)[Tiles][Blocks][4]) const {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int t = 0; t < Tiles; ++t) {
#pragma unroll
        for (int n = 0; n < Blocks; ++n) multiply_add<E>(sums[t][n], x[step][t], w[n][2 * step], w[n][2 * step + 1]);
      }
    }
  }
};

// A block has up to 16 Tiles tokens; each warp but the last, which fills the ring, multiplies them with 8 Blocks rows of weights. Half a
// chunk is read while the one before is multiplied: a step waits for the step before it alone.
template <class E, int Tiles, int Blocks, class Y>
__global__ void __launch_bounds__(32 * (kMostWarps + 1))
    mma_kernel(PairJob<Y> job, OperandTiles<const E> x, OperandTiles<const E> w, StageShape shape, bool early) {
  extern __shared__ __align__(128) std::byte ring_stages[];
  __shared__ Ring ring;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, warps = static_cast<int>(blockDim.x) / 32 - 1;
  const int first_w = static_cast<int>(blockIdx.x) * shape.weight_blocks, first_x = static_cast<int>(blockIdx.y) * 2 * Tiles;
  ring.begin<Fill::by_lanes>(shape.stages, warps);
  if (early) let_next_begin();
  if (warp == warps) {
    const int across = static_cast<int>(gridDim.x), tile = static_cast<int>(blockIdx.y) * across + static_cast<int>(blockIdx.x);
    fill_ring<Fill::by_lanes>(ring, ring_stages, shape, x, w, TileWalk{tile, 1, tile + 1, across, shape.weight_blocks, 2 * Tiles});
    return;
  }

  float sums[Tiles][Blocks][4] = {};
  const int own = warp * Blocks, last_block = min(shape.token_blocks, x.row_blocks() - first_x) - 1, weights = own * kChunkBytes + lane * 16;
  // Of a step's four matrices of tokens, two blocks and two core matrices, where this lane's rows lie. A block that is not there is the
  // one before it: nobody reads its sums.
  int tokens[Tiles];
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
    tokens[t] = (shape.weight_blocks + min(2 * t + lane / 8 % 2, last_block)) * kChunkBytes + lane / 16 * kCoreElements * 2 + lane % 8 * 16;
  }
  const std::uint32_t first_stage = shared_address(ring_stages);
  const int chunks = chunk_count(x.cols);
  HalfChunk<Tiles, Blocks> low, high;
  RingPlace at;
  ring.full[0].wait(0);
  low.load(first_stage, tokens, weights);
  for (int c = 0; c < chunks; ++c) {
    const int stage = at.stage;
    at.next(shape.stages);
    const bool has_next = c + 1 < chunks, is_there = has_next && ring.full[at.stage].has_ended(at.turn);  // asked early: the answer takes time
    high.load(first_stage + stage * shape.bytes() + kChunkBytes / 2, tokens, weights);
    low.template multiply<E>(sums);
    if (has_next) {
      if (!is_there) ring.full[at.stage].wait(at.turn);
      low.load(first_stage + at.stage * shape.bytes(), tokens, weights);
    }
    high.template multiply<E>(sums);
    __syncwarp();
    if (lane == 0) ring.empty[stage].arrive();
  }
  wait_for_earlier();
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
    finish_pairs(job, (first_x + 2 * t) * kCoreRows + lane / 4, (first_w + own) * kCoreRows + 2 * (lane % 4), sums[t]);
  }
}

}  // namespace tenon::cuda
