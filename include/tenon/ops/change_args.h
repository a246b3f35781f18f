// The arguments of the ops for rows whose adapters change more than linears by low-rank updates.
#pragma once
#include "tenon/ops/args.h"

namespace tenon {

/// y[r] = x[r] * gains[r], by elements. A null row is copied.
struct ScaleRowsArgs {
  MatrixView<const float> x;  ///< [rows, n]
  const float* const* gains;  ///< [rows] of [n]
  MatrixView<float> y;        ///< [rows, n]
};

/// Replaces the embeddings of rows whose adapters change them by x[r] = scale * row + position_table[positions[r]]. The
/// row is the adapter's own row of the token t. If it has none, column c is gain[c] * (table[t][c] + delta[c]):
/// - u[j] = TableChange::scale * a[t][j];
/// - delta[c] = fma(b[j][c], u[j], delta[c]) for j = 0, 1, ..., from 0 on.
template <class W>
struct ChangeEmbeddingsArgs {
  EmbedArgs<W> embedding;
  const TableChange* const* changes;  ///< [rows]; null: the row is left as it is
};

/// Replaces the logits of rows whose adapters change the head, before finish_logits. A token with an own row gets its
/// product with the hidden row. Others get gain[t] * (logit + b[t] . u), with u[j] = TableChange::scale * (a[j] .
/// hidden). All products are in 16 strips and the tree of sum().
struct ChangeLogitsArgs {
  MatrixView<const float> hidden;     ///< [rows, width]
  const TableChange* const* changes;  ///< [rows]; null: the row is left as it is
  MatrixView<float> logits;           ///< [rows, vocab]
};

/// Refinement: the ops scale_rows, change_embeddings and change_logits, for adapters that are more than low-rank
/// updates. Engines on other devices refuse such adapters. The device's products also apply LinearArgs::changes, and
/// its norms accept some of a step's rows.
template <class D>
concept ChangesProducts = requires(D& device, const ScaleRowsArgs& products, const ChangeLogitsArgs& head) {
  scale_rows(device, products);
  change_logits(device, head);
};

}  // namespace tenon
