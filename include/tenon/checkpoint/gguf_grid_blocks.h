// Decodes GGUF's types IQ1, IQ2 and IQ3. A block has 256 values: 32 runs of 8, which are entries of a grid
// (gguf_grids.h) under a scale and signs.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tenon/checkpoint/gguf_bytes.h"
#include "tenon/checkpoint/gguf_grids.h"

namespace tenon::detail {

// Value i of a run is `scale * (value + shift)`, less than 0 if bit i of `minus` is set.
struct GridRun {
  float scale;
  std::uint32_t entry;  // indices of the 8 values
  int minus = 0;
  float shift = 0;
};

// values: of an index. run(g): run g < 32. All products are exact in float32: a scale has at most 16 bits, a value 6.
template <int bits, std::size_t n, class Run>
void decode_grid(const float (&values)[n], float* out, Run run) {
  static_assert(n <= 1u << bits);
  for (int g = 0; g < 32; ++g) {
    const GridRun r = run(g);
    for (int i = 0; i < 8; ++i) {
      const std::size_t index = r.entry >> (bits * i) & ((1u << bits) - 1);
      out[8 * g + i] = (r.minus >> i & 1 ? -r.scale : r.scale) * (values[index] + r.shift);
    }
  }
}

// The signs of 8 values of which 7 bits are stored: an even number of them is set.
inline int even_signs(std::uint32_t seven) {
  return static_cast<int>(seven | (static_cast<std::uint32_t>(std::popcount(seven)) & 1u) << 7);
}

// d * (scale + 1/2) / 4, as IQ2 has it, or / 2.
inline float half_step(float d, int scale, float unit) { return d * (0.5f + static_cast<float>(scale)) * unit; }

// d, then for each 4 runs: codes [4], and a word of 32 bits: signs of 7 bits, scale of 4.
inline void decode_iq2_xxs(const std::byte* block, float* out) {
  const float d = half_at(block);
  decode_grid<2>(kIq2XxsValues, out, [&](int g) -> GridRun {
    const std::byte* const four = block + 2 + g / 4 * 8;
    const auto word = number_at<std::uint32_t>(four + 4);
    return {half_step(d, static_cast<int>(word >> 28), 0.25f), kIq2XxsGrid[byte_at(four, g % 4)],
            even_signs(word >> (7 * (g % 4)) & 127)};
  });
}

// d, codes of 9 bits with signs of 7 [32], scales of 4 bits [16].
inline void decode_iq2_xs(const std::byte* block, float* out) {
  const float d = half_at(block);
  decode_grid<2>(kIq2XsValues, out, [&](int g) -> GridRun {
    const std::uint32_t code = number_at<std::uint16_t>(block + 2 + 2 * g);
    return {half_step(d, packed_nibble_at(block + 66, g / 2), 0.25f), kIq2XsGrid[code & 511], even_signs(code >> 9)};
  });
}

// d, low bits of codes [32], signs [32], high pairs of bits [8], scales of 4 bits [16].
inline void decode_iq2_s(const std::byte* block, float* out) {
  const float d = half_at(block);
  decode_grid<2>(kIq2SValues, out, [&](int g) -> GridRun {
    const int high = byte_at(block + 66, g / 4) >> (g % 4 * 2) & 3;
    return {half_step(d, packed_nibble_at(block + 74, g / 2), 0.25f), kIq2SGrid[byte_at(block + 2, g) | high << 8],
            byte_at(block + 34, g)};
  });
}

// The indices of a run of two entries.
inline std::uint32_t two_entries(std::uint32_t first, std::uint32_t second) { return first | second << 16; }

// d, codes [64], a word of each 4 runs as in IQ2_XXS [8].
inline void decode_iq3_xxs(const std::byte* block, float* out) {
  const float d = half_at(block);
  decode_grid<4>(kIq3XxsValues, out, [&](int g) -> GridRun {
    const auto word = number_at<std::uint32_t>(block + 66 + g / 4 * 4);
    const auto entry = [&](int i) { return kIq3XxsGrid[byte_at(block + 2, 2 * g + i)]; };
    return {half_step(d, static_cast<int>(word >> 28), 0.5f), two_entries(entry(0), entry(1)),
            even_signs(word >> (7 * (g % 4)) & 127)};
  });
}

// d, low bits of codes [64], their high bits [8], signs [32], scales of 4 bits [8].
inline void decode_iq3_s(const std::byte* block, float* out) {
  const float d = half_at(block);
  decode_grid<4>(kIq3SValues, out, [&](int g) -> GridRun {
    const auto entry = [&](int i) {
      const int code = 2 * g + i, high = byte_at(block + 66, code / 8) >> (code % 8) & 1;
      return kIq3SGrid[byte_at(block + 2, code) | high << 8];
    };
    return {d * static_cast<float>(1 + 2 * packed_nibble_at(block + 106, g / 4)), two_entries(entry(0), entry(1)),
            byte_at(block + 74, g)};
  });
}

// A run of IQ1: `step` stands for the scale 2 step + 1, `high` for the high bits of the code and, at 8, a shift down.
inline GridRun iq1_run(float d, int step, int low, int high) {
  return {d * static_cast<float>(2 * step + 1), kIq1SGrid[low | (high & 7) << 8], 0, high & 8 ? -0.125f : 0.125f};
}

// d, low bits of codes [32], and of each 4 runs 16 bits [8]: high bits of 3, scale of 3, the shift.
inline void decode_iq1_s(const std::byte* block, float* out) {
  const float d = half_at(block);
  decode_grid<2>(kIq1SValues, out, [&](int g) {
    const int word = number_at<std::uint16_t>(block + 34 + g / 4 * 2);
    return iq1_run(d, word >> 12 & 7, byte_at(block, 2 + g), (word >> (3 * (g % 4)) & 7) | word >> 15 << 3);
  });
}

// low bits of codes [32], high bits with the shift [32 nibbles], 4 words of 16 bits: scales of 3, and a nibble of d.
inline void decode_iq1_m(const std::byte* block, float* out) {
  const auto word = [&](int i) { return static_cast<int>(number_at<std::uint16_t>(block + 48 + 2 * i)); };
  int bits = 0;
  for (int i = 0; i < 4; ++i) bits |= word(i) >> 12 << (4 * i);
  const float d = float_of_f16(static_cast<std::uint16_t>(bits));
  decode_grid<2>(kIq1SValues, out, [&](int g) {
    return iq1_run(d, word(g / 8) >> (g / 2 % 4 * 3) & 7, byte_at(block, g), packed_nibble_at(block + 32, g));
  });
}

inline void decode_grid_block(DType type, const std::byte* block, float* out) {
  switch (type) {
    case DType::iq2_xxs:
      return decode_iq2_xxs(block, out);
    case DType::iq2_xs:
      return decode_iq2_xs(block, out);
    case DType::iq2_s:
      return decode_iq2_s(block, out);
    case DType::iq3_xxs:
      return decode_iq3_xxs(block, out);
    case DType::iq3_s:
      return decode_iq3_s(block, out);
    case DType::iq1_s:
      return decode_iq1_s(block, out);
    case DType::iq1_m:
      return decode_iq1_m(block, out);
    default:
      return;
  }
}

}  // namespace tenon::detail
