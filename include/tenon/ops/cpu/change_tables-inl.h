#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "tenon/core/require.h"
#include "tenon/ops/cpu/change_tables.h"

namespace tenon::cpu {

// Logits begin..end-1 of one row. u: [rank], of the row's update; scratch: [end - begin]
TENON_INLINE void change_row(const Kernels& kernels, const TableChange& change, const float* hidden, int width,
                             const float* u, int begin, int end, float* scratch, float* logits) {
  if (change.a) {
    kernels.products_row(u, change.b + static_cast<std::ptrdiff_t>(begin) * change.rank, change.rank, end - begin,
                         scratch);
    for (int t = begin; t < end; ++t) logits[t] += scratch[t - begin];
    for (int t = begin; change.gain && t < end; ++t) logits[t] *= change.gain[t];
  }
  if (!change.rows) return;
  if (!change.tokens) {
    const int last = std::min(end, change.count);
    if (begin < last)
      kernels.products_row(hidden, change.rows + static_cast<std::ptrdiff_t>(begin) * width, width, last - begin,
                           logits + begin);
    return;
  }
  const auto* const from = std::lower_bound(change.tokens, change.tokens + change.count, begin);
  for (const auto* token = from; token != change.tokens + change.count && *token < end; ++token)
    kernels.products_row(hidden, change.rows + (token - change.tokens) * width, width, 1, logits + *token);
}

}  // namespace tenon::cpu

namespace tenon {

TENON_INLINE void change_logits(Cpu& device, const ChangeLogitsArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  const auto rows = static_cast<std::size_t>(args.logits.rows);
  std::vector<std::vector<float>> updates(rows);  // u of each row
  for (std::size_t r = 0; r < rows; ++r) {
    if (!args.changes[r] || !args.changes[r]->a) continue;
    const TableChange& change = *args.changes[r];
    updates[r].resize(static_cast<std::size_t>(change.rank));
    kernels.products_row(args.hidden.row(static_cast<int>(r)), change.a, args.hidden.cols, change.rank,
                         updates[r].data());
    for (float& u : updates[r]) u *= change.scale;
  }
  constexpr int kBlock = 64;  // tokens: their rows stay in the cache for the next row of the step
  const int blocks = (args.logits.cols + kBlock - 1) / kBlock;
  device.pool().share(blocks, 1, [&](int first, int last, int) {
    float scratch[kBlock];
    for (int block = first; block < last; ++block) {
      const int begin = block * kBlock, end = std::min(begin + kBlock, args.logits.cols);
      for (std::size_t r = 0; r < rows; ++r) {
        if (!args.changes[r]) continue;
        const int row = static_cast<int>(r);
        cpu::change_row(kernels, *args.changes[r], args.hidden.row(row), args.hidden.cols, updates[r].data(), begin,
                        end, scratch, args.logits.row(row));
      }
    }
  });
}

}  // namespace tenon
