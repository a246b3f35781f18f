/// Layouts of packed matrices: plain data that weight formats make and devices have kernels for. Rows come in panels of
/// 16, so that one load feeds sixteen outputs and no sum is split across lanes. The last panel is padded. A layout owns
/// nothing.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/core/elements.h"
#include "tenon/core/float16.h"
#include "tenon/core/float8.h"
#include "tenon/core/views.h"

namespace tenon {

/// Rows of a panel.
inline constexpr int kPanelRows = 16;

/// The number of panels that hold `rows` rows.
constexpr std::size_t panel_count(int rows) { return (static_cast<std::size_t>(rows) + kPanelRows - 1) / kPanelRows; }

/// Sixteen rows side by side: a weight is (code - zero_point) * scale, of its row. Codes are float, bfloat16, float16,
/// float8<E4M3>, float8<E5M2> or std::int8_t.
template <class Code>
struct CodePanels {
  const Code* codes = nullptr;         ///< [panels, cols, 16]
  const float* scales = nullptr;       ///< [panels, 16], or [16] for all panels; null: 1
  const float* zero_points = nullptr;  ///< shaped as scales; null: 0
  int scale_stride = kPanelRows;       ///< of both, from panel to panel; 0 if all panels have the same
  int rows = 0, cols = 0;

  TENON_HD const Code* panel(int p) const { return codes + static_cast<std::ptrdiff_t>(p) * cols * kPanelRows; }
  TENON_HD std::ptrdiff_t scale_at(int row) const {
    return static_cast<std::ptrdiff_t>(row / kPanelRows) * scale_stride + row % kPanelRows;
  }
};

/// Sixteen rows side by side, eight columns a word: a weight is (code - 8) * scale, of its row's group of `group`
/// columns (32, 64 or 128; the last may be short).
struct Int4Panels {
  /// [panels, ceil(cols / 8), 16]: column 8 w + i of a row in bits 4 i .. 4 i + 3
  const std::uint32_t* codes = nullptr;
  const float16* scales = nullptr;  ///< [panels, ceil(cols / group), 16]
  int group = 32;
  int rows = 0, cols = 0;

  TENON_HD int words() const { return (cols + 7) / 8; }
  TENON_HD int groups() const { return (cols + group - 1) / group; }
};

/// Sixteen rows side by side, eight columns a word: a weight is kNormalFloat4[code] * scale, of its row's
/// group of 64 columns (the last may be short).
struct NormalFloat4Panels {
  static constexpr int group = 64;
  /// [panels, ceil(cols / 8), 16]: column 8 w + i of a row in bits 4 i .. 4 i + 3
  const std::uint32_t* codes = nullptr;
  const float* scales = nullptr;  ///< [panels, ceil(cols / group), 16]
  int rows = 0, cols = 0;

  TENON_HD int words() const { return (cols + 7) / 8; }
  TENON_HD int groups() const { return (cols + group - 1) / group; }
};

/// Sixteen rows side by side, four columns a word: a weight is code * scale, of its row's group of 32 columns (the last
/// may be short).
struct GroupInt8Panels {
  static constexpr int group = 32;
  const std::int8_t* codes = nullptr;  ///< [panels, 4 ceil(cols / 4), 16]; 0 after cols
  const float16* scales = nullptr;     ///< [panels, ceil(cols / group), 16]
  int rows = 0, cols = 0;

  TENON_HD int words() const { return (cols + 3) / 4; }
  TENON_HD int groups() const { return (cols + group - 1) / group; }
};

/// For kernels that multiply integers: four columns of a row side by side, unsigned, as the instructions take them. A
/// weight is (code - zero_point) * scale, of its row.
struct Int8Quads {
  const std::uint8_t* codes = nullptr;        ///< [panels, ceil(cols / 4), 16, 4]; 0 after cols
  const float* scales = nullptr;              ///< [panels, 16]
  const std::int32_t* zero_points = nullptr;  ///< [panels, 16], 0 .. 255
  int rows = 0, cols = 0;

  TENON_HD int quads() const { return (cols + 3) / 4; }
};

/// The same with four-bit codes, two quads in the low and high halves of the same bytes. A weight is (code - 8) *
/// scale, of its row's group of `group` columns (32, 64 or 128; the last may be short). Kernels take any multiple of 8,
/// those of AMX's tiles only these three.
struct Int4Quads {
  /// [panels, ceil(cols / 8), 16, 4]: column 8 w + i low, column 8 w + 4 + i high
  const std::uint8_t* codes = nullptr;
  const float16* scales = nullptr;  ///< [panels, ceil(cols / group), 16]
  int group = 32;
  int rows = 0, cols = 0;

  TENON_HD int words() const { return (cols + 7) / 8; }
  TENON_HD int groups() const { return (cols + group - 1) / group; }
};

/// An int8 copy of a matrix, for kernels that also round activations x to values y. Such a kernel sums w y over the
/// copy. The matrix's own kernels sum w x, in any order and rounding. The two sums of a row differ by at most
/// errors[row] * |x|_1 + lengths[row] * |x - y|_2.
struct Int8Approximation {
  Int8Quads panels;
  const float* errors = nullptr;   ///< [panels, 16]
  const float* lengths = nullptr;  ///< [panels, 16], of the copy's rows: sqrt(sum of squares)
};

/// For kernels that multiply pairs of bfloat16: two columns of a row side by side.
struct BFloat16Pairs {
  const bfloat16* codes = nullptr;  ///< [panels, ceil(cols / 2), 16, 2]; 0 after cols
  int rows = 0, cols = 0;

  TENON_HD int pairs() const { return (cols + 1) / 2; }
};

/// The same codes, but summed in the order of AMX's tiles, which is a numeric class of its own.
struct BFloat16Blocks {
  const bfloat16* codes = nullptr;  ///< [panels, ceil(cols / 2), 16, 2]; 0 after cols
  int rows = 0, cols = 0;

  TENON_HD int pairs() const { return (cols + 1) / 2; }
};

/// Rows as they are, for a GPU library that multiplies them in its own order. The CPU refuses them.
struct BFloat16Rows {
  static constexpr bool on_tensor_cores = true;
  const bfloat16* codes = nullptr;  ///< [rows, stride()]; 0 after cols
  int rows = 0, cols = 0;

  TENON_HD int stride() const { return (cols + 7) / 8 * 8; }  ///< elements; rows begin at multiples of 16 bytes
  TENON_HD float at(int row, int col) const { return static_cast<float>(codes[std::ptrdiff_t{row} * stride() + col]); }
};

}  // namespace tenon
