// The epilogue of a matrix product, like finish_tile of ops/cpu/kernels/linear.inc.
#pragma once
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cuda/lanes.cuh"

namespace tenon::cuda {

/// A call: one copy per sum would be most of a kernel, and of the time to compile it.
template <class = void>
__device__ __noinline__ float activated(float x, Activation activation) {
  return lanes::activate({x}, activation).v;
}

/// Applies bias, delta, activation and residual to one output of tokens token, token + step, ... below end. Bias and
/// residual are read before anything is written, because y may be the residual.
template <int Tokens>
__device__ __forceinline__ void finish_outputs(const cpu::PanelJob& job, int token, int step, int end, int output,
                                               const float (&sums)[Tokens]) {
  if (output >= job.outputs) return;
  const float bias = job.bias ? job.bias[output] : 0.0f;
  const float* deltas[Tokens];
  float residual[Tokens];
#pragma unroll
  for (int t = 0; t < Tokens; ++t) {
    const bool is_token = token + t * step < end;
    deltas[t] = job.delta && is_token ? job.delta[token + t * step] : nullptr;
    residual[t] = job.residual && is_token ? job.residual[(token + t * step) * job.residual_stride + output] : 0.0f;
  }
#pragma unroll
  for (int t = 0; t < Tokens; ++t) {
    float value = sums[t];
    if (job.bias) value = __fadd_rn(value, bias);
    if (deltas[t]) value = __fadd_rn(value, deltas[t][output]);
    if (job.activation != Activation::none) value = activated(value, job.activation);
    if (job.residual) value = __fadd_rn(value, residual[t]);
    if (token + t * step < end) job.y[(token + t * step) * job.y_stride + output] = value;
  }
}

/// The same for one token.
__device__ __forceinline__ void finish(const cpu::PanelJob& job, int token, int output, float sum) {
  finish_outputs(job, token, 1, token + 1, output, {sum});
}

}  // namespace tenon::cuda
