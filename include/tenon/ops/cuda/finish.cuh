// What follows a matrix product's sum, as finish_tile of ops/cpu/kernels/linear.inc has it.
#pragma once
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cuda/lanes.cuh"

namespace tenon::cuda {

// Bias, delta, activation and residual of one output; none behind the last. A call: a copy for every sum of a thread would be
// most of a kernel, and of the time to compile it.
template <class = void>
__device__ __noinline__ void finish(const cpu::PanelJob& job, int token, int output, float sum) {
  if (output >= job.outputs) return;
  float value = sum;
  if (job.bias) value = __fadd_rn(value, job.bias[output]);
  if (job.delta && job.delta[token]) value = __fadd_rn(value, job.delta[token][output]);
  value = lanes::activate({value}, job.activation).v;
  if (job.residual) value = __fadd_rn(value, job.residual[token * job.residual_stride + output]);
  job.y[token * job.y_stride + output] = value;
}

}  // namespace tenon::cuda
