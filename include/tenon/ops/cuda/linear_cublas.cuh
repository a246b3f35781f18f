// Matrix products by cuBLASLt for BFloat16Rows, the layout of FastMathBFloat16. The library picks a kernel by the shape
// of a step, and the kernel decides the order of a sum. ops/cuda/all.cuh leaves this header out. A program that
// includes it links with cublasLt.
#pragma once
#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "tenon/core/panels.h"
#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/panel_work.h"
#include "tenon/ops/cuda/finish.cuh"

namespace tenon {
namespace cuda {

inline void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(Error::Kind::internal, std::string("cublas: ") + what, cublasLtGetStatusString(status));
}

/// Bytes that every row of results is aligned to, for rows of `outputs` floats after one another. With 4 cuBLASLt picks
/// kernels of sm_80 even on Hopper; 16 instead of 4 took 64 rows of GPT-2 on an H200 from 28,700 to 31,800 tokens/s.
constexpr std::uint32_t result_alignment(int outputs) { return outputs % 4 == 0 ? 16 : outputs % 2 == 0 ? 8 : 4; }

/// The handle of a device, its workspace, and the kernels that were picked so far.
class CublasLt {
 public:
  explicit CublasLt(Cuda& device) : current_(device.index()), workspace_(device.allocate(kWorkspace)) {
    cublasLtHandle_t handle = nullptr;
    check(cublasLtCreate(&handle), "handle");
    handle_.reset(handle);
  }

  /// y = x W^T, after all that was launched on the stream. x: [tokens, stride of weight]; y: [tokens, rows of weight].
  /// Both, and the weight, begin at multiples of 16 bytes.
  void multiply(cudaStream_t stream, const BFloat16Rows& weight, const bfloat16* x, int tokens, float* y) {
    const CurrentDevice current(current_);
    const ProductPlan& plan = plan_for(weight.rows, weight.stride(), tokens);
    const float one = 1, zero = 0;
    check(
        cublasLtMatmul(handle_.get(), plan.product.get(), &one, weight.codes, plan.weight.get(), x, plan.x.get(), &zero,
                       y, plan.y.get(), y, plan.y.get(), &plan.algorithm, workspace_.data(), kWorkspace, stream),
        "product");
  }

 private:
  static constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // NVIDIA's recommendation for sm_90

  template <auto destroy>
  struct Destroy {
    template <class T>
    void operator()(T* object) const {
      destroy(object);
    }
  };
  template <class Handle, auto destroy>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;
  using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  struct ProductPlan {
    Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
    Layout weight, x, y;
    cublasLtMatmulAlgo_t algorithm;
  };

  // The library's matrices are column by column: rows of ours are its columns.
  static Layout layout(cudaDataType_t type, int rows, int cols) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols),
                                     rows),
          "layout");
    return Layout(made);
  }

  const ProductPlan& plan_for(int outputs, int inputs, int tokens) {
    const auto key = std::tuple(outputs, inputs, tokens);
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    ProductPlan plan;
    cublasLtMatmulDesc_t product = nullptr;
    check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product");
    plan.product.reset(product);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
          "product");
    plan.weight = layout(CUDA_R_16BF, inputs, outputs);
    plan.x = layout(CUDA_R_16BF, inputs, tokens);
    plan.y = layout(CUDA_R_32F, outputs, tokens);
    plan.algorithm = picked(plan, outputs);
    return plans_.emplace(key, std::move(plan)).first->second;
  }

  cublasLtMatmulAlgo_t picked(const ProductPlan& plan, int outputs) {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublasLtMatmulPreferenceCreate(&made), "preference");
    const Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(made);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(made, which, &value, sizeof value), "preference");
    };
    const std::uint64_t workspace = kWorkspace;
    const std::uint32_t operands = 16, results = result_alignment(outputs);
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, operands);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, operands);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, results);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, results);
    cublasLtMatmulHeuristicResult_t best = {};
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), plan.product.get(), plan.weight.get(), plan.x.get(),
                                         plan.y.get(), plan.y.get(), made, 1, &best, &found),
          "algorithm");
    if (found == 0)
      throw Error(Error::Kind::unsupported, "cublas: algorithm", "cuBLASLt has none for a matrix of this shape");
    return best.algo;
  }

  int current_;
  Owned<cublasLtHandle_t, cublasLtDestroy> handle_;
  Cuda::Memory workspace_;
  std::map<std::tuple<int, int, int>, ProductPlan> plans_;
};

/// x rounded, zeros after its columns. A block a token. to: [tokens, stride]
template <class = void>
__global__ void round_rows_kernel(MatrixView<const float> x, int stride, bfloat16* to) {
  wait_for_earlier();
  const float* row = x.row(static_cast<int>(blockIdx.x));
  to += static_cast<std::ptrdiff_t>(blockIdx.x) * stride;
  for (int k = static_cast<int>(threadIdx.x); k < stride; k += static_cast<int>(blockDim.x))
    to[k] = bfloat16(k < x.cols ? row[k] : 0.0f);
}

/// Applies bias, activation and residual to the sums. A thread an output. sums: [tokens, outputs]
template <class = void>
__global__ void finish_rows_kernel(cpu::PanelJob job, const float* sums) {
  wait_for_earlier();
  const int output = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), token = static_cast<int>(blockIdx.y);
  if (output < job.outputs) finish(job, token, output, sums[std::ptrdiff_t{token} * job.outputs + output]);
}

}  // namespace cuda

inline void linear(Cuda& device, const LinearArgs<BFloat16Rows>& args) {
  const int tokens = args.x.rows, outputs = args.y.cols, stride = args.weight.stride();
  if (tokens == 0) return;
  const std::size_t rounded =
      (static_cast<std::size_t>(tokens) * static_cast<std::size_t>(stride) / 2 + 63) / 64 * 64;  // floats
  float* memory = device.scratch(rounded + static_cast<std::size_t>(tokens) * static_cast<std::size_t>(outputs),
                                 cuda::ScratchUse::rounded);
  auto* x = reinterpret_cast<bfloat16*>(memory);
  float* sums = memory + rounded;
  device.launch_early("round", cuda::round_rows_kernel<>, cuda::blocks(tokens), 128, 0, args.x, stride, x);
  device.kept<cuda::CublasLt>().multiply(device.stream(), args.weight, x, tokens, sums);
  dim3 grid = cuda::blocks(static_cast<std::size_t>(outputs), 128);
  grid.y = static_cast<unsigned>(tokens);
  device.launch_early("linear", cuda::finish_rows_kernel<>, grid, 128, 0, cpu::panel_job(args), sums);
}

}  // namespace tenon
