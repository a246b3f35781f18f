// The arguments of a gate for whole rows.
#pragma once
#include "tenon/core/views.h"

namespace tenon {

/// y[r, i] *= 1 / (1 + exp(-(weights . x[r]))): the gate of a shared expert (Qwen2-MoE, Yang et al., 2024). The product
/// is that of the router of a mixture, 16 strips and the tree of sum(), in float32 whatever the weight format.
struct GateRowsArgs {
  MatrixView<const float> x;  ///< [rows, hidden]
  const float* weights;       ///< [hidden]
  MatrixView<float> y;        ///< [rows, n]; may not be x
};

/// Refinement: the op gate_rows, and a mixture that heeds all members of MixtureArgs. Families with a shared expert, or
/// with a router of sigmoids, need it.
template <class D>
concept GatesRows = requires(D& device, const GateRowsArgs& args) {
  gate_rows(device, args);
};

}  // namespace tenon
