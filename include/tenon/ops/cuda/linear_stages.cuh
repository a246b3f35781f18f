// A ring of stages in shared memory for a matrix product. Each stage holds some columns of a block's panels and of its
// rows of x.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/cuda/columns.cuh"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/staged.cuh"

namespace tenon::cuda {

/// Shared memory of a block of 128 threads: a ring of stages. A stage has some columns of the block's panels, as they
/// lie in memory, and of its tokens. The stride of x is an odd number of sixteen bytes, so that two half-warps read
/// different banks. Columns: groups take 128. Otherwise more rows take fewer columns, so that two blocks or more fit a
/// processor.
template <int Panels, int Tokens, class Source,
          int Columns = (Source::kLeastGroup > 0 ? 128
                         : Tokens == 1           ? 256
                         : Tokens < 8            ? 64
                                                 : 32),
          int Stages = (Tokens == 1 && Source::column_bytes(Columns) <= 8192 ? 6 : 3)>
struct LinearTile {
  static constexpr int kPanels = Panels, kTokens = Tokens * lanes::kRowsABlock;
  static constexpr bool kFewRows = Tokens == 1;
  static constexpr int kKept = 0;  ///< chunks still read after the next one is taken
  static constexpr int kColumns = Columns, kStages = Stages;
  static constexpr int kStride = kColumns + 4;
  static constexpr int kPanelBytes = Source::column_bytes(kColumns);
  using Scale = typename Source::Scale;
  static constexpr int kGroupBytes = kPanelRows * static_cast<int>(sizeof(Scale));  ///< of the scales of a group
  static constexpr int kScaleBytes = Source::kLeastGroup > 0 ? kColumns / Source::kLeastGroup* kGroupBytes : 0;

  int rows;  ///< most rows of x of a block

  __host__ __device__ explicit LinearTile(int all_rows) : rows(all_rows < kTokens ? all_rows : kTokens) {}
  __host__ __device__ int stage_bytes() const { return Panels * (kPanelBytes + kScaleBytes) + rows * kStride * 4; }
  __host__ __device__ int bytes() const { return kStages * stage_bytes(); }
  __device__ std::byte* codes(std::byte* stage, int panel) const { return stage + panel * kPanelBytes; }
  __device__ Scale* scales(std::byte* stage, int panel) const {
    return reinterpret_cast<Scale*>(stage + Panels * kPanelBytes + panel * kScaleBytes);
  }
  __device__ float* x(std::byte* stage, int row) const {
    return reinterpret_cast<float*>(stage + Panels * (kPanelBytes + kScaleBytes)) + row * kStride;
  }
};

/// Starts copies of columns begin .. begin + n - 1 of a block's panels into a stage.
template <class Tile, class Source>
__device__ void stage_weights(const Tile& tile, const Source& weight, int first_panel, int begin, int n,
                              std::byte* stage) {
  constexpr int Panels = Tile::kPanels;
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (Source::kBytes) {
    constexpr int kUnits = Tile::kPanelBytes / 16;
    const int bytes = Source::column_bytes(n);
    for (int i = thread; i < Panels * kUnits; i += lanes::kThreads) {
      const int p = i / kUnits, at = i % kUnits * 16, panel = min(first_panel + p, weight.panels() - 1);
      if (at < bytes)
        copy_16_bytes(tile.codes(stage, p) + at, static_cast<const std::byte*>(weight.columns(panel, begin)) + at);
    }
  } else {
    for (int i = thread; i < Panels * n * kPanelRows; i += lanes::kThreads) {
      const int p = i / (n * kPanelRows), at = i % (n * kPanelRows), panel = min(first_panel + p, weight.panels() - 1);
      reinterpret_cast<float*>(tile.codes(stage, p))[at] =
          weight.weight_at(panel, begin + at / kPanelRows, at % kPanelRows);
    }
  }
  if constexpr (Source::kLeastGroup > 0) {
    constexpr int kUnit = 16 / static_cast<int>(sizeof(typename Tile::Scale));  // scales of a copy of sixteen bytes
    const int units = (n + weight.group() - 1) / weight.group() * (kPanelRows / kUnit);
    for (int i = thread; i < Panels * units; i += lanes::kThreads) {
      const int p = i / units, at = i % units * kUnit, panel = min(first_panel + p, weight.panels() - 1);
      copy_16_bytes(tile.scales(stage, p) + at, weight.group_scales(panel, begin) + at);
    }
  }
}

/// Whether x allows copies of sixteen bytes.
inline bool copies_whole(MatrixView<const float> x) { return is_whole(x.data) && x.stride % 4 == 0 && x.cols % 4 == 0; }

/// Starts copies of rows first .. first + rows - 1 of x. whole: copies_whole(x).
template <class Tile, class Source>
__device__ void stage_tokens(const Tile& tile, MatrixView<const float> x, int first, int rows, int begin, int n,
                             bool whole, std::byte* stage) {
  const int thread = static_cast<int>(threadIdx.x);
  if (Source::kPairs || !whole) {
    for (int i = thread; i < rows * Tile::kColumns; i += lanes::kThreads) {
      const int row = i / Tile::kColumns, k = i % Tile::kColumns;
      if (k >= n) continue;
      const float* from = x.row(first + row) + begin;
      if constexpr (Source::kPairs)
        tile.x(stage, row)[k] = (k ^ 1) < x.cols - begin ? Source::rounded(from[k ^ 1]) : 0.0f;
      else
        copy_float(tile.x(stage, row) + k, from + k);
    }
  } else {
    for (int i = thread; i < rows * (Tile::kColumns / 4); i += lanes::kThreads) {
      const int row = i / (Tile::kColumns / 4), k = i % (Tile::kColumns / 4) * 4;
      if (k < n) copy_16_bytes(tile.x(stage, row) + k, x.row(first + row) + begin + k);
    }
  }
}

inline constexpr int kStagesBarrier = 1;  ///< barrier of the staging threads; later numbers are free

/// The ring of a block. Since sm_90, the last warp copies a panel's columns by one instruction, and a row's part if
/// rows are few. Data that is not aligned for it, and earlier devices, take small copies by every thread.
template <class Tile, class Source>
class LinearStages {
 public:
  /// Starts the first stages. The block has rows first_row .. first_row + rows - 1 of x. Weights do not wait for the
  /// kernel that makes x.
  __device__ LinearStages(const Tile& tile, const Source& weight, MatrixView<const float> x, int first_panel,
                          int first_row, int rows, bool whole)
      : tile_(tile),
        weight_(weight),
        x_(x),
        first_panel_(first_panel),
        first_row_(first_row),
        rows_(rows),
        whole_(whole),
        columns_(columns_of_row(x.cols)) {
#if __CUDA_ARCH__ >= 900
    for (int s = 0; threadIdx.x == kFiller && s < Tile::kStages; ++s) arrival_of(s).begin();
    sync();
#endif
    for (int chunk = 0; chunk < kAhead; ++chunk) fetch_weights(chunk);
    wait_for_earlier();
    for (int chunk = 0; chunk < kAhead; ++chunk) fetch_tokens(chunk);
  }

  __device__ static int columns_of_row(int cols) { return Source::kPairs ? (cols + 1) / 2 * 2 : cols; }
  /// The ring; a block's own shared memory follows it.
  __device__ static std::byte* shared() {
    extern __shared__ __align__(16) std::byte stages[];
    return stages;
  }
  __device__ static std::byte* stage_of(const Tile& tile, int chunk) {
    return shared() + chunk % Tile::kStages * tile.stage_bytes();
  }

  __device__ static int chunks_of(int columns) { return (columns + Tile::kColumns - 1) / Tile::kColumns; }
  __device__ static int columns_of(int columns, int chunk) {
    return min(Tile::kColumns, columns - chunk * Tile::kColumns);
  }
  __device__ int chunks() const { return chunks_of(columns_); }
  __device__ int columns_of(int chunk) const { return columns_of(columns_, chunk); }

  /// Waits for the next chunk and returns it. All threads have then read the chunks that are not kept, so their stage
  /// is filled again.
  __device__ std::byte* next() {
    if (!copies_rows()) wait_for_copies<kAhead - 1>();
#if __CUDA_ARCH__ >= 900
    arrival_of(chunk_).wait(chunk_ / Tile::kStages);
#endif
    sync();
    fetch_weights(chunk_ + kAhead);
    fetch_tokens(chunk_ + kAhead);
    return stage_of(chunk_++);
  }

 private:
  static constexpr int kAhead = Tile::kStages - 1 - Tile::kKept;  // chunks in flight
  static constexpr unsigned kFiller = lanes::kThreads - 32;       // and its warp, the last one to have rows

  __device__ static void sync() { sync_threads(kStagesBarrier, lanes::kThreads); }
  __device__ std::byte* stage_of(int chunk) const { return stage_of(tile_, chunk); }
  // Whether one instruction copies a row's part. With many rows, small copies by many threads are faster.
  __device__ bool copies_rows() const {
#if __CUDA_ARCH__ >= 900
    return Tile::kFewRows && !Source::kPairs && whole_;
#else
    return false;
#endif
  }

  __device__ void fetch_weights(int chunk) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == kFiller && chunk < chunks()) copy_weights(chunk);
    if constexpr (Source::kBytes) return;
#endif
    if (chunk >= chunks()) return;
    stage_weights(tile_, weight_, first_panel_, chunk * Tile::kColumns, columns_of(chunk), stage_of(chunk));
  }

  __device__ void fetch_tokens(int chunk) {
#if __CUDA_ARCH__ >= 900
    if (copies_rows()) {
      if (threadIdx.x >= kFiller && chunk < chunks()) copy_rows(chunk);
      return;
    }
#endif
    if (chunk < chunks()) {
      stage_tokens<Tile, Source>(tile_, x_, first_row_, rows_, chunk * Tile::kColumns, columns_of(chunk), whole_,
                                 stage_of(chunk));
    }
    end_copies();  // also without a copy, because groups are counted
  }

#if __CUDA_ARCH__ >= 900
  // Barrier of the chunk's stage, for its turn chunk / kStages.
  __device__ static Arrival& arrival_of(int chunk) {
    __shared__ Arrival arrivals[Tile::kStages];
    return arrivals[chunk % Tile::kStages];
  }

  // Called by one thread, which expects all bytes of the chunk.
  __device__ void copy_weights(int chunk) {
    constexpr int Panels = Tile::kPanels;
    Arrival& arrival = arrival_of(chunk);
    std::byte* stage = stage_of(chunk);
    const int begin = chunk * Tile::kColumns, n = columns_of(chunk), rows = copies_rows() ? rows_ * n * 4 : 0;
    if constexpr (Source::kBytes) {
      const int codes = Source::column_bytes(n),
                scales = weight_.group() > 0 ? (n + weight_.group() - 1) / weight_.group() * Tile::kGroupBytes : 0;
      arrival.expect(Panels * (codes + scales) + rows);
      for (int p = 0; p < Panels; ++p) {
        const int panel = min(first_panel_ + p, weight_.panels() - 1);
        arrival.copy(tile_.codes(stage, p), weight_.columns(panel, begin), codes);
        if constexpr (Source::kLeastGroup > 0)
          arrival.copy(tile_.scales(stage, p), weight_.group_scales(panel, begin), scales);
      }
    } else {
      arrival.expect(rows);
    }
  }
  __device__ void copy_rows(int chunk) {
    const int row = static_cast<int>(threadIdx.x - kFiller);
    if (row >= rows_) return;
    arrival_of(chunk).copy(tile_.x(stage_of(chunk), row), x_.row(first_row_ + row) + chunk * Tile::kColumns,
                           columns_of(chunk) * 4);
  }
#endif

  const Tile& tile_;
  const Source& weight_;
  const MatrixView<const float> x_;
  const int first_panel_, first_row_, rows_;
  const bool whole_;
  const int columns_;
  int chunk_ = 0;  // the next chunk
};

}  // namespace tenon::cuda
