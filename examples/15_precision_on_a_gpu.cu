// Experiment 15 on an NVIDIA GPU: the peak of device memory that an engine allocates, and the memory that is still
// allocated after it.
#include <tenon/tenon.cuh>

#include <cstdint>
#include <cstdio>

#include "common/precision.h"

using namespace tenon;

// MB in use in the process's memory pool on the device.
double allocated_megabytes() {
  cudaMemPool_t pool = nullptr;
  tenon::cuda::check(cudaDeviceGetDefaultMemPool(&pool, 0), "memory pool");
  tenon::cuda::check(cudaDeviceSynchronize(), "device");  // stream-ordered frees have happened
  std::uint64_t bytes = 0;
  tenon::cuda::check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes), "memory pool");
  return 1e-6 * static_cast<double>(bytes);
}

template <class P>
example::PrecisionCost cost(const ModelFiles& files, int tokens) {
  const double before = allocated_megabytes();
  return example::precision_cost<Engine<Gpt2, Weights<P>, Device<Cuda>>>(
      files, tokens, [](const auto& engine) { return 1e-6 * static_cast<double>(engine.device_memory().peak); },
      [&] { return allocated_megabytes() - before; });
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--shape", "model"}, {"--new", "32"}});
  if (tenon::cuda::device_count() == 0) {
    std::puts("skipped: there is no CUDA device, or no driver, on this machine");
    return 77;
  }
  example::Csv csv(arguments.text("--csv"), example::kPrecisionColumns);
  const auto files = example::precision_model(arguments);
  example::precision_heading();
  constexpr double kSlack = 32;  // MB of scratch: logits of a step's rows, and intermediate results of kernels
  bool lean = true;
  const auto of = [&]<class P>(P, const char* name) {
    lean = example::precision_row(csv, name, cost<P>(files, arguments.number("--new")), kSlack) && lean;
  };
  of(Float32{}, "float32");
  of(BFloat16{}, "bfloat16");
  of(ZeroPointInt8{}, "int8");
  return example::verdict(example::kPrecisionClaim, lean);
} catch (const std::exception& error) {
  return example::failed(error);
}
