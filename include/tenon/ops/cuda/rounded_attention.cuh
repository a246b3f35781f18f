// Attention in floats before a product that reads rounded rows.
#pragma once
#include "tenon/core/operand_tiles.h"
#include "tenon/ops/args.h"
#include "tenon/ops/attention.h"
#include "tenon/ops/cuda/attention.cuh"
#include "tenon/ops/cuda/operand.cuh"

namespace tenon {

template <class Attend, cuda::ViewOnDevice V, class E>
requires(!OnTensorCores<Attend> &&
         !AttentionVariant<Attend>) void attention(Cuda& device, Attend attend,
                                                   const AttentionArgs<V, OperandTiles<E>>& args) {
  const int rows = args.q.rows, cols = args.heads * args.head_dim;
  const MatrixView<float> out{
      device.scratch(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols), cuda::ScratchUse::rounded), rows,
      cols, cols};
  attention(device, attend,
            AttentionArgs<V>{args.batch, args.q, args.kv, args.layer, args.heads, args.kv_heads, args.head_dim,
                             args.scale, out, args.window, args.slopes, args.soft_cap, args.key_biases,
                             args.key_bias_stride, args.sinks});
  cuda::round_operand(device, out, args.out);
}

}  // namespace tenon
