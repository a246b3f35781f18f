// Shared by the tests of the ops: matrices with fixed seeds, in memory that faults on reads past its end; every
// instruction set and thread count. Also a weight format with at() alone, and a cache view that knows which tiles
// exist.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../core/random.h"
#include "tenon/core/concepts.h"
#include "tenon/device/cpu.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernel_sets.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/weights/float32.h"

namespace tenon::test {

// Both sides of every threshold of an op (kernels.cpp checks that), and of likely future ones.
inline constexpr int kRows[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12, 13,  15,  16, 17,
                                18, 19, 23, 24, 25, 31, 32, 33, 63, 64, 65, 127, 128, 129};
inline constexpr int kMostRows = 129;
inline constexpr int kWidths[] = {1, 4, 15, 16, 17, 64, 77, 768};
inline constexpr int kOutputs[] = {1, 5, 16, 31, 48, 131};

// Floats that end at a protected page: reading one too many faults, in masked and in plain code.
class GuardedFloats {
 public:
  GuardedFloats() = default;
  explicit GuardedFloats(std::size_t count, float fill = 0) : count_(count) {
    constexpr std::size_t page = 4096;
    bytes_ = (count * sizeof(float) + page - 1) / page * page + page;
    mapped_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::runtime_error("mmap");
    char* end = static_cast<char*>(mapped_) + bytes_ - page;
    if (::mprotect(end, page, PROT_NONE) != 0) throw std::runtime_error("mprotect");
    data_ = reinterpret_cast<float*>(end - count * sizeof(float));
    for (std::size_t i = 0; i < count; ++i) data_[i] = fill;
  }
  GuardedFloats(const GuardedFloats& other) : GuardedFloats(other.count_) {
    if (count_) std::memcpy(data_, other.data_, count_ * sizeof(float));
  }
  GuardedFloats(GuardedFloats&& other) noexcept { swap(other); }
  GuardedFloats& operator=(GuardedFloats other) noexcept {
    swap(other);
    return *this;
  }
  ~GuardedFloats() {
    if (mapped_) ::munmap(mapped_, bytes_);
  }
  float* data() const { return data_; }
  std::size_t size() const { return count_; }

 private:
  void swap(GuardedFloats& other) noexcept {
    std::swap(mapped_, other.mapped_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }
  void* mapped_ = nullptr;
  std::size_t bytes_ = 0;
  float* data_ = nullptr;
  std::size_t count_ = 0;
};

// The gap value between rows, which no op may read or change.
inline constexpr float kGap = -12345.5f;

struct Matrix {
  int rows, cols, stride;
  GuardedFloats values;  // [rows, stride], the last row without its gap

  Matrix(int r, int c, int s, float fill = kGap)
      : rows(r),
        cols(c),
        stride(s),
        values(r > 0 ? static_cast<std::size_t>(r - 1) * static_cast<std::size_t>(s) + static_cast<std::size_t>(c) : 0,
               fill) {}

  float* row(int r) const { return values.data() + std::ptrdiff_t{r} * stride; }
  MatrixView<float> view() const { return {values.data(), rows, cols, stride}; }
  MatrixView<float> view(int first, int count) const { return view().rows_from(first, count); }
};

inline Matrix random_matrix(int rows, int cols, std::uint64_t seed, int stride = 0, float scale = 1.0f) {
  Matrix m(rows, cols, stride ? stride : cols);
  Random random(seed);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c)
      m.row(r)[c] = scale * random.uniform();  // scale: a power of two, or a single rounding
  }
  return m;
}

inline bool same_bits(const float* a, const float* b, int n) {
  return std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof(float)) == 0;
}
// Compares values and gaps.
inline bool same_bits(const Matrix& a, const Matrix& b) {
  return a.values.size() == b.values.size() &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

// First row in which two matrices differ, -1 if none: the comparison of every equivalence test here.
inline int first_difference(MatrixView<const float> a, MatrixView<const float> b) {
  if (a.rows != b.rows || a.cols != b.cols) return 0;
  for (int r = 0; r < a.rows; ++r) {
    if (!same_bits(a.row(r), b.row(r), a.cols)) return r;
  }
  return -1;
}
inline bool gaps_untouched(const Matrix& m) {
  for (int r = 0; r + 1 < m.rows; ++r) {
    for (int c = m.cols; c < m.stride; ++c) {
      if (m.row(r)[c] != kGap) return false;
    }
  }
  return true;
}

// Instruction sets of this processor. Names the missing ones on standard output.
inline const std::vector<Isa>& isas() {
  static const std::vector<Isa> all = [] {
    std::vector<Isa> found;
    for (const Isa isa : kIsas) {
      if (has_isa(isa))
        found.push_back(isa);
      else
        std::printf("skipped: instruction set %s, which this processor has not\n", to_string(isa));
    }
    std::fflush(stdout);
    return found;
  }();
  return all;
}

// Calls body(device) for every instruction set and 1..most_threads threads. More threads than cores make a test slow.
template <class Body>
void for_each_cpu(Body&& body, int most_threads = 4) {
  for (const Isa isa : isas()) {
    for (int threads = 1; threads <= most_threads; ++threads) {
      if (isa == Isa::portable && threads != most_threads) continue;  // it takes a hundred times as long
      Cpu device({.threads = threads, .isa = isa});
      body(device);
    }
  }
}
inline std::string name_of(const Cpu& device) {
  return std::string(to_string(device.isa())) + ", " + std::to_string(device.threads()) + " threads";
}

// A weight format with the smallest contract, in a layout that no kernel expects.
struct ColumnMajor {
  struct View {
    const float* values;  // [cols, rows]
    int rows, cols;
    float at(int row, int col) const { return values[std::ptrdiff_t{col} * rows + row]; }
  };
  static std::size_t bytes(Shape shape) {
    return static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols) * sizeof(float);
  }
  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    float* out = reinterpret_cast<float*>(packed.data());
    const int count = static_cast<int>(rows.size()) / shape.cols;
    for (int r = 0; r < count; ++r) {
      for (int c = 0; c < shape.cols; ++c) {
        out[std::ptrdiff_t{c} * shape.rows + first_row + r] =
            rows[static_cast<std::size_t>(r) * static_cast<std::size_t>(shape.cols) + static_cast<std::size_t>(c)];
      }
    }
  }
  static View view(Shape shape, std::span<const std::byte> stored) {
    return {reinterpret_cast<const float*>(stored.data()), shape.rows, shape.cols};
  }
};
static_assert(WeightPolicy<ColumnMajor> && !HasPanels<ColumnMajor::View> && !DecodesPanels<ColumnMajor::View>);

// A matrix in the format P.
template <class P>
struct Packed {
  Shape shape;
  GuardedFloats stored;

  explicit Packed(const Matrix& m) : shape{m.rows, m.cols}, stored(P::bytes(shape) / sizeof(float)) {
    const std::span<const float> rows(m.values.data(), m.values.size());  // stride == cols
    const auto packed = std::as_writable_bytes(std::span(stored.data(), stored.size()));
    if constexpr (EncodesWithRange<P>) {
      ValueRange range;
      range.add(rows);
      P::encode(shape, 0, rows, packed, range);
    } else {
      P::encode(shape, 0, rows, packed);
    }
  }
  typename P::View view() const {
    return P::view(shape, std::as_bytes(std::span<const float>(stored.data(), stored.size())));
  }
};

// Bits that are NaN as float32 and bfloat16, and -1 as int8, whose scales are then NaN.
inline const float kGarbage = std::bit_cast<float>(0xffffffffu);

// Keys and values in tiles in an order of their own, filled with garbage. A sequence has the tiles that `see` gives it.
// A read of another tile ends the program.
template <class E>
class TestKvOf {
 public:
  struct View {
    using Element = E;
    float* data;       // [layers, heads, tiles, sequences] of tiles, the last one first: scales, values, keys
    const int* tiles;  // [sequences] that exist, or did
    const int* gone;   // [sequences] of them, the first ones
    int sequences;
    KvShape shape;

    KvTile<E> tile(int layer, int sequence, int head, int t) const {
      if (layer < 0 || layer >= shape.layers || sequence < 0 || sequence >= sequences || head < 0 ||
          head >= shape.heads || t < gone[sequence] || t >= tiles[sequence]) {
        std::fprintf(stderr, "an op asked for a tile that does not exist: layer %d sequence %d head %d tile %d\n",
                     layer, sequence, head, t);
        std::abort();
      }
      const int most = (shape.positions + kTilePositions - 1) / kTilePositions;
      const std::ptrdiff_t index =
          ((std::ptrdiff_t{layer} * shape.heads + head) * most + (most - 1 - t)) * sequences + sequence;
      float* scales = data + index * static_cast<std::ptrdiff_t>(shape.tile_bytes<E>() / sizeof(float));
      E* values = reinterpret_cast<E*>(scales + (has_scales<E> ? 2 * kTilePositions : 0));
      E* keys = values + kTilePositions * shape.value_stride();
      if constexpr (has_scales<E>)
        return {keys, values, scales, scales + kTilePositions};
      else
        return {keys, values};
    }
  };
  static_assert(CacheView<View>);

  TestKvOf(KvShape shape, int sequences)
      : shape_(shape),
        tiles_(static_cast<std::size_t>(sequences), 0),
        gone_(tiles_),
        values_(floats(shape, sequences), kGarbage) {}

  // The sequence has tiles for this many positions from now on.
  void see(int sequence, int positions) {
    tiles_[static_cast<std::size_t>(sequence)] = (positions + kTilePositions - 1) / kTilePositions;
  }
  void see(const BatchView& batch) {
    for (int s = 0; s < batch.sequence_count; ++s)
      see(batch.sequences[s].slot, batch.sequences[s].start + batch.sequences[s].rows);
  }
  // Positions below `before` become garbage. Tiles without other positions are gone.
  void forget(int sequence, int before) {
    int& gone = gone_[static_cast<std::size_t>(sequence)];
    for (int t = gone * kTilePositions; t < before; ++t) {
      for (int i = 0; i < shape_.layers * shape_.heads; ++i) {
        const auto tile = view().tile(i / shape_.heads, sequence, i % shape_.heads, t / kTilePositions);
        const int lane = t % kTilePositions;
        for (int d = 0; d < shape_.head_dim; ++d) std::memset(tile.keys + d * kTilePositions + lane, 0xff, sizeof(E));
        std::memset(tile.values + lane * shape_.value_stride(), 0xff,
                    sizeof(E) * static_cast<std::size_t>(shape_.value_stride()));
        if (tile.key_scales) tile.key_scales[lane] = tile.value_scales[lane] = kGarbage;
      }
    }
    gone = std::max(gone, before / kTilePositions);
  }
  View view() const { return {values_.data(), tiles_.data(), gone_.data(), static_cast<int>(tiles_.size()), shape_}; }
  const GuardedFloats& values() const { return values_; }
  const KvShape& shape() const { return shape_; }

 private:
  static std::size_t floats(const KvShape& shape, int sequences) {
    const int tiles = (shape.positions + kTilePositions - 1) / kTilePositions * shape.layers * shape.heads * sequences;
    return static_cast<std::size_t>(tiles) * shape.tile_bytes<E>() / sizeof(float);
  }
  KvShape shape_;
  std::vector<int> tiles_, gone_;
  GuardedFloats values_;
};
using TestKv = TestKvOf<float>;

// Appends rows of a sequence whose first `start` positions ran before.
inline void append(Batch& batch, int slot, int start, int rows) {
  batch.sequences.push_back({static_cast<SeqId>(slot), static_cast<int>(batch.tokens.size()), rows, start, slot});
  for (int i = 0; i < rows; ++i) {
    batch.tokens.push_back(i);
    batch.positions.push_back(start + i);
  }
}

}  // namespace tenon::test
