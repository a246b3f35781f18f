// How packed matrices lie in memory: plain data that weight formats make and devices have kernels for. Rows come in
// panels of 16, so that one load feeds sixteen outputs and no sum is ever split across lanes; the last panel is padded.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/core/elements.h"
#include "tenon/core/float16.h"
#include "tenon/core/float8.h"
#include "tenon/core/views.h"

namespace tenon {

inline constexpr int kPanelRows = 16;

constexpr std::size_t panel_count(int rows) { return (static_cast<std::size_t>(rows) + kPanelRows - 1) / kPanelRows; }

// Sixteen rows side by side: a weight is (code - zero_point) * scale, of its row. Codes are float, bfloat16, float16,
// float8<E4M3>, float8<E5M2> or std::int8_t.
template <class Code>
struct CodePanels {
  const Code* codes = nullptr;         // [panels, cols, 16]
  const float* scales = nullptr;       // [panels, 16], or [16] for all panels; null: 1
  const float* zero_points = nullptr;  // as scales; null: 0
  int scale_stride = kPanelRows;       // of both, from panel to panel: 0 where all have the same
  int rows = 0, cols = 0;

  TENON_HD const Code* panel(int p) const { return codes + static_cast<std::ptrdiff_t>(p) * cols * kPanelRows; }
  TENON_HD std::ptrdiff_t scale_at(int row) const {
    return static_cast<std::ptrdiff_t>(row / kPanelRows) * scale_stride + row % kPanelRows;
  }
};

// Sixteen rows side by side, eight columns a word: a weight is (code - 8) * scale, of its row's group of `group`
// columns (32, 64 or 128; the last may be short).
struct Int4Panels {
  const std::uint32_t* codes = nullptr;  // [panels, ceil(cols / 8), 16]: column 8 w + i of a row in bits 4 i .. 4 i + 3
  const float16* scales = nullptr;       // [panels, ceil(cols / group), 16]
  int group = 32;
  int rows = 0, cols = 0;

  TENON_HD int words() const { return (cols + 7) / 8; }
  TENON_HD int groups() const { return (cols + group - 1) / group; }
};

// For kernels that multiply integers: four columns of a row side by side, unsigned, so that an instruction takes them
// as they are. A weight is (code - zero_point) * scale, of its row.
struct Int8Quads {
  const std::uint8_t* codes = nullptr;        // [panels, ceil(cols / 4), 16, 4]; 0 behind cols
  const float* scales = nullptr;              // [panels, 16]
  const std::int32_t* zero_points = nullptr;  // [panels, 16], 0 .. 255
  int rows = 0, cols = 0;

  TENON_HD int quads() const { return (cols + 3) / 4; }
};

// The same of four-bit codes, two quads in the low and high halves of the same bytes: a weight is (code - 8) * scale,
// of its row's group of `group` columns (32, 64 or 128; the last may be short). Kernels take any multiple of 8, those
// of AMX's tiles these three.
struct Int4Quads {
  const std::uint8_t* codes = nullptr;  // [panels, ceil(cols / 8), 16, 4]: column 8 w + i low, column 8 w + 4 + i high
  const float16* scales = nullptr;      // [panels, ceil(cols / group), 16]
  int group = 32;
  int rows = 0, cols = 0;

  TENON_HD int words() const { return (cols + 7) / 8; }
  TENON_HD int groups() const { return (cols + group - 1) / group; }
};

// A rough copy of a matrix, for kernels that round activations, too. Where they make y of x, the sum of w x of the
// matrix itself, however its kernels order and round it, lies within errors[row] * |x|_1 + lengths[row] * |x - y|_2 of
// what they make of the copy.
struct Int8Approximation {
  Int8Quads panels;
  const float* errors = nullptr;   // [panels, 16]
  const float* lengths = nullptr;  // [panels, 16], of the copy's rows: sqrt(sum of squares)
};

// For kernels that multiply pairs of bfloat16: two columns of a row side by side.
struct BFloat16Pairs {
  const bfloat16* codes = nullptr;  // [panels, ceil(cols / 2), 16, 2]; 0 behind cols
  int rows = 0, cols = 0;

  TENON_HD int pairs() const { return (cols + 1) / 2; }
};

// The same where sums are those of AMX's tiles, and their own class.
struct BFloat16Blocks {
  const bfloat16* codes = nullptr;  // [panels, ceil(cols / 2), 16, 2]; 0 behind cols
  int rows = 0, cols = 0;

  TENON_HD int pairs() const { return (cols + 1) / 2; }
};

// Rows as they are, for a library that multiplies them in an order of its own: nothing for a CPU.
struct BFloat16Rows {
  static constexpr bool on_tensor_cores = true;
  const bfloat16* codes = nullptr;  // [rows, stride()]; 0 behind cols
  int rows = 0, cols = 0;

  TENON_HD int stride() const { return (cols + 7) / 8 * 8; }  // rows begin where 16 bytes do
  TENON_HD float at(int row, int col) const { return static_cast<float>(codes[std::ptrdiff_t{row} * stride() + col]); }
};

}  // namespace tenon
