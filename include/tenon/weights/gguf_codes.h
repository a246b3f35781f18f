// Matrices of GGUF files whose blocks are codes of a weight format here. Q4_0 is int4 with groups of 32 columns: its
// codes and scales are kept as they are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tenon/checkpoint/gguf_blocks.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/weights/coded_tensor.h"
#include "tenon/weights/int4_code.h"

namespace tenon {

/// Whether rows of the tensor are codes of C. `transposed`: the model reads it transposed, as Conv1D of GPT-2.
template <WeightCode C>
bool holds_gguf_codes(const TensorInfo& tensor, bool transposed) {
  return std::is_same_v<C, Int4Code<32>> && tensor.dtype == DType::q4_0 && tensor.shape.size() == 2 &&
         tensor.order.plus == 0 && tensor.order.transposed == transposed;
}

/// Reads rows [first, first + count) of such a tensor into rows from `at` of the block, which is large enough. Error
/// invalid_file for a scale that is not finite.
inline void read_gguf_codes(const Checkpoint& checkpoint, const TensorInfo& tensor, int first, int count, int at,
                            CodeBlock& block) {
  using Rules = CodeRules<Int4Code<32>>;
  const auto size = static_cast<std::size_t>(block_layout(DType::q4_0).bytes);
  const auto groups = static_cast<std::size_t>(block.cols / 32);
  std::vector<std::byte> row(groups * size);
  for (int r = 0; r < count; ++r) {
    const std::uint64_t stored = tensor.order.row(static_cast<std::uint64_t>(first + r));
    checkpoint.read_bytes(tensor, stored * row.size(), row);
    const std::size_t begin = static_cast<std::size_t>(at + r) * groups;
    for (std::size_t g = 0; g < groups; ++g) {
      const std::byte* const from = row.data() + g * size;
      std::uint16_t half;
      std::memcpy(&half, from, sizeof half);
      float& scale = block.scales[begin + g];
      scale = float_of_f16(half);
      if (!Rules::sound_scale(scale))
        detail::refuse_file(checkpoint.where(tensor),
                            "holds a value that is not finite in row " + std::to_string(first + r));
      // Byte i of a block has values i and i + 16; here a byte has two neighbours, the even one low.
      std::byte* const to = block.codes.data() + (begin + g) * 16;
      const auto code = [&](std::size_t i) { return from[2 + i % 16] >> (i / 16 * 4) & std::byte{15}; };
      for (std::size_t i = 0; i < 16; ++i) to[i] = code(2 * i) | code(2 * i + 1) << 4;
    }
  }
}

}  // namespace tenon
