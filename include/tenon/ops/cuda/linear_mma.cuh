// Products of sixteen-bit matrices in the canonical order of tensor cores: an output is one chain over k, ascending by
// sixteen columns an instruction, into one float. The order is the same in every tile, here and in linear_wgmma.cuh, so
// that no bit depends on other rows (docs/numerics.md). This kernel is for few rows, and for devices before sm_90.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/core/operand_tiles.h"
#include "tenon/ops/cuda/finish_pairs.cuh"
#include "tenon/ops/cuda/ring.cuh"
#include "tenon/ops/cuda/tensor_core.cuh"

namespace tenon::cuda {

inline constexpr int kChunkBytes = kCoreRows * kChunkColumns * 2;  ///< eight rows

inline constexpr int kMostWarps = CudaTuning::product_warps;  ///< warps of a block that multiply
inline constexpr int kFewFillWarps = CudaTuning::fill_warps;  ///< warps that fill its ring

/// A stage of a block: chunks of columns one after another, each with its weights, then its tokens.
struct StageShape {
  int weight_blocks, token_blocks;  ///< in blocks of eight rows
  int stages;                       ///< of the ring

  __host__ __device__ int bytes() const { return (weight_blocks + token_blocks) * kChunkBytes; }  ///< of a chunk
};
/// chunks per stage of mma_kernel, so that the ring is checked once per eight dependent steps
inline constexpr int kFewChunks = CudaTuning::stage_chunks;

/// Lets the device prepare the next kernel, which may fetch its weights while this one runs. That kernel still waits
/// for this one's end.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// The tiles of a block: number `first` and every `step`-th after it.
struct TileWalk {
  int first, step, count;  ///< of all blocks
  int across;              ///< tiles of outputs in a row of tiles
  int outputs, tokens;     ///< of a tile, in blocks of eight rows

  __device__ int own() const { return first < count ? (count - first - 1) / step + 1 : 0; }
  __device__ int first_w(int i) const { return (first + i * step) % across * outputs; }
  __device__ int first_x(int i) const { return (first + i * step) / across * tokens; }
};

/// Fills the ring with the chunks of one operand of a block's tiles, one stage a call: eight-row blocks from
/// first_of(tile) on, at most `most`, to byte `offset` of the stages.
template <int StageChunks, class E, class First>
class ChunkFill {
 public:
  __device__ ChunkFill(StageRing& ring, std::byte* stages, const StageShape& shape, const OperandTiles<const E>& from,
                       int most, int offset, First first_of)
      : ring_(ring),
        from_(from),
        first_of_(first_of),
        stages_(stages + offset),
        to_(stages_),
        most_(most),
        count_(shape.stages),
        bytes_step_(shape.bytes()),
        chunks_(chunk_count(from.cols)),
        step_(std::ptrdiff_t{from.row_blocks()} * kBlock) {
    begin();
  }
  /// Fills a stage. Its last chunks may lie past the matrix.
  __device__ __forceinline__ void next() {
    if (at_.turn > 0) ring_.empty[at_.stage].wait(at_.turn - 1);
#pragma unroll
    for (int i = 0; i < StageChunks; ++i) {
      ring_.full[at_.stage].fill(to_, source_, chunk_ + i < chunks_ ? bytes_ : 0);
      to_ += bytes_step_;
      source_ += step_;
    }
    at_.next(count_);
    if (at_.stage == 0) to_ = stages_;
    if ((chunk_ += StageChunks) >= chunks_) begin();
  }

 private:
  static constexpr int kBlock = kCoreRows * kChunkColumns;

  __device__ void begin() {
    const int first = first_of_(tile_++);
    bytes_ = max(0, min(most_, from_.row_blocks() - first)) * kChunkBytes;
    source_ = from_.data + std::ptrdiff_t{first} * kBlock;
    chunk_ = 0;
  }

  StageRing& ring_;
  const OperandTiles<const E>& from_;
  const First first_of_;
  std::byte *const stages_, *to_;
  const int most_, count_, bytes_step_, chunks_;
  const std::ptrdiff_t step_;
  const E* source_ = nullptr;
  int bytes_ = 0, chunk_ = 0, tile_ = 0;
  RingPlace at_;
};

/// Fills a block's ring, by one warp, or by one for weights and one for tokens whose stages are small. Weights are not
/// written by earlier kernels and do not wait for them.
template <int FillWarps, int StageChunks, class E>
__device__ __forceinline__ void fill_ring(StageRing& ring, std::byte* stages, const StageShape& shape,
                                          const OperandTiles<const E>& x, const OperandTiles<const E>& w,
                                          const TileWalk& walk, int fill_warp) {
  if (!is_filler()) return;
  const int all = walk.own() * ((chunk_count(x.cols) + StageChunks - 1) / StageChunks);
  const auto first_w = [&](int i) { return walk.first_w(i); };
  const auto first_x = [&](int i) { return walk.first_x(i); };
  ChunkFill<StageChunks, E, decltype(first_w)> weights(ring, stages, shape, w, shape.weight_blocks, 0, first_w);
  ChunkFill<StageChunks, E, decltype(first_x)> tokens(ring, stages, shape, x, shape.token_blocks,
                                                      shape.weight_blocks * kChunkBytes, first_x);
  int both = 0;  // stages filled by both, after those that the ring has room for at first
  if constexpr (FillWarps == 1) both = max(0, all - shape.stages);
  if (FillWarps == 1 || fill_warp == 0) {
#pragma unroll 1
    for (int i = both; i < all; ++i) weights.next();
  }
  if (FillWarps == 1 || fill_warp == 1) {
    wait_for_earlier();
#pragma unroll 1
    for (int i = both; i < all; ++i) tokens.next();
  }
#pragma unroll 1
  for (int i = 0; i < both; ++i) {
    weights.next();
    tokens.next();
  }
}

/// Operands of a warp for two steps of sixteen columns, half a chunk.
template <int Tiles, int Blocks>
struct HalfChunk {
  std::uint32_t x[2][Tiles][4], w[Blocks][4];

  /// weights, tokens: this lane's addresses in the first block; rows: byte offsets of this lane's rows of tokens.
  __device__ __forceinline__ void load(std::uint32_t weights, std::uint32_t tokens, const int (&rows)[Tiles]) {
#pragma unroll
    for (int n = 0; n < Blocks; ++n) load_matrices(w[n], weights + n * kChunkBytes);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int t = 0; t < Tiles; ++t) load_matrices(x[step][t], tokens + rows[t] + step * kCoreElements * 4);
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

/// Sums all chunks of columns for a warp, one stage of the ring after another. weights, tokens, rows: as
/// HalfChunk::load takes them, of the first stage. Half a chunk is read while the previous half is multiplied, so that
/// a step waits only for the step before it.
template <class E, int Tiles, int Blocks>
__device__ __forceinline__ void multiply_chunks(StageRing& ring, const StageShape& shape, int chunks,
                                                std::uint32_t weights, std::uint32_t tokens, const int (&rows)[Tiles],
                                                float (&sums)[Tiles][Blocks][4]) {
  constexpr int kHalf = kChunkBytes / 2;
  const int chunk_bytes = shape.bytes();
  HalfChunk<Tiles, Blocks> low, high;
  RingPlace at;
  ring.full[0].wait(0);
  low.load(weights, tokens, rows);
  for (int c = 0; c < chunks; c += kFewChunks) {
    const int stage = at.stage, here = stage * kFewChunks * chunk_bytes;
    at.next(shape.stages);
    const bool has_next = c + kFewChunks < chunks,
               is_there = has_next && ring.full[at.stage].has_ended(at.turn);  // early, because the answer takes time
    high.load(weights + here + kHalf, tokens + here + kHalf, rows);
    low.template multiply<E>(sums);
    if (c + 1 < chunks) {
      low.load(weights + here + chunk_bytes, tokens + here + chunk_bytes, rows);
      high.template multiply<E>(sums);
      high.load(weights + here + chunk_bytes + kHalf, tokens + here + chunk_bytes + kHalf, rows);
      low.template multiply<E>(sums);
    }
    if (has_next) {
      if (!is_there) ring.full[at.stage].wait(at.turn);
      const int next = at.stage * kFewChunks * chunk_bytes;
      low.load(weights + next, tokens + next, rows);
    }
    high.template multiply<E>(sums);
    __syncwarp();
    if (threadIdx.x % 32 == 0) ring.empty[stage].arrive();
  }
}

/// A block has up to 16 Tiles tokens. Each warp but the last two, which fill the ring, multiplies them with 8 Blocks
/// rows of weights.
template <class E, int Tiles, int Blocks, class Y>
__global__ void __launch_bounds__(32 * (kMostWarps + kFewFillWarps))
    mma_kernel(const __grid_constant__ PairJob<Y> job, OperandTiles<const E> x, OperandTiles<const E> w,
               StageShape shape, bool early) {
  extern __shared__ __align__(128) std::byte ring_stages[];
  __shared__ StageRing ring;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32 - kFewFillWarps;
  const int first_w = static_cast<int>(blockIdx.x) * shape.weight_blocks,
            first_x = static_cast<int>(blockIdx.y) * 2 * Tiles;
  ring.begin(shape.stages, 2 * kFewChunks, warps);
  if (early) let_next_begin();
  if (warp >= warps) {
    const int across = static_cast<int>(gridDim.x),
              tile = static_cast<int>(blockIdx.y) * across + static_cast<int>(blockIdx.x);
    fill_ring<kFewFillWarps, kFewChunks>(ring, ring_stages, shape, x, w,
                                         TileWalk{tile, 1, tile + 1, across, shape.weight_blocks, 2 * Tiles},
                                         warp - warps);
    return;
  }

  float sums[Tiles][Blocks][4] = {};
  // Few sums leave registers for the terms of the epilogue.
  PairTerms<Y, Tiles * Blocks <= 4 ? Blocks : 0> terms[Tiles];
  const int own = warp * Blocks, output = (first_w + own) * kCoreRows + 2 * (lane % 4);
  const auto token = [&](int t) { return (first_x + 2 * t) * kCoreRows + lane / 4; };
  wait_for_earlier();
#pragma unroll
  for (int t = 0; t < Tiles; ++t) terms[t].load(job, token(t), output);

  // Places of this lane's rows in a step's four matrices of tokens: two blocks, two core matrices each. A missing block
  // repeats the one before it; its sums are never read.
  const int last_block = min(shape.token_blocks, x.row_blocks() - first_x) - 1;
  int rows[Tiles];
#pragma unroll
  for (int t = 0; t < Tiles; ++t)
    rows[t] = min(2 * t + lane / 8 % 2, last_block) * kChunkBytes + lane / 16 * kCoreElements * 2 + lane % 8 * 16;
  const std::uint32_t first_stage = shared_address(ring_stages), weights = first_stage + own * kChunkBytes + lane * 16;
  multiply_chunks<E>(ring, shape, chunk_count(x.cols), weights, first_stage + shape.weight_blocks * kChunkBytes, rows,
                     sums);
#pragma unroll
  for (int t = 0; t < Tiles; ++t) finish_pairs(job, token(t), output, sums[t], terms[t]);
}

}  // namespace tenon::cuda
