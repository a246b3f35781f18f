// Embeddings and logits of rows whose adapters have tables of their own: replaced rows, low-rank updates, DoRA.
#pragma once
#include <algorithm>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/change_args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/rows.h"

namespace tenon {

template <class W>
void change_embeddings(Cpu& device, const ChangeEmbeddingsArgs<W>& args) {
  const EmbedArgs<W>& e = args.embedding;
  const auto& kernels = cpu::kernels_for(device.isa());
  const int width = e.x.cols;
  cpu::split_rows(device, e.batch.rows, [&](int begin, int end) {
    std::vector<float> delta;
    for (int r = begin; r < end; ++r) {
      if (!args.changes[r]) continue;
      const TableChange& change = *args.changes[r];
      const TokenId token = token_of(e.batch, r);
      float* const x = e.x.row(r);
      if (const int own = change.own_row(token); own >= 0) {
        std::copy_n(change.rows + static_cast<std::ptrdiff_t>(own) * width, width, x);
      } else if (change.a) {
        delta.assign(static_cast<std::size_t>(width), 0);
        const float* const a = change.a + std::ptrdiff_t{token} * change.rank;
        for (int j = 0; j < change.rank; ++j)
          kernels.add_row(change.b + static_cast<std::ptrdiff_t>(j) * width, change.scale * a[j], width, delta.data());
        for (int c = 0; c < width; ++c) x[c] = e.table.at(token, c) + delta[static_cast<std::size_t>(c)];
        for (int c = 0; change.gain && c < width; ++c) x[c] *= change.gain[c];
      } else {
        continue;
      }
      for (int c = 0; e.scale != 1 && c < width; ++c) x[c] *= e.scale;
      if (!e.position_table) continue;
      const float* const p = e.position_table + static_cast<std::ptrdiff_t>(e.batch.positions[r]) * width;
      for (int c = 0; c < width; ++c) x[c] += p[c];
    }
  });
}

void change_logits(Cpu& device, const ChangeLogitsArgs& args);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/change_tables-inl.h"
#endif
