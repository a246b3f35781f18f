// A CUDA runtime for machines without a GPU: memory is the host's, kernels do not run, and every call is counted. A
// program links the library tenon_fake_cuda in place of cudart (CUDA_RUNTIME_LIBRARY None).
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::test::fake_cuda {

struct Counts {
  std::uint64_t launches = 0;  // kernels launched one by one
  std::uint64_t graph_launches = 0;
  std::uint64_t graph_kernels = 0;              // kernels launched by graphs
  std::uint64_t changed_nodes = 0;              // calls of cudaGraphExecKernelNodeSetParams
  std::uint64_t graphs = 0;                     // instantiated
  std::uint64_t copies_in = 0, bytes_in = 0;    // cudaMemcpyAsync to the device
  std::uint64_t copies_out = 0, bytes_out = 0;  // cudaMemcpyAsync to the host
  std::uint64_t allocations = 0;                // of device and pinned memory
  std::uint64_t events = 0;                     // recorded
  std::uint64_t waits = 0;                      // for a stream or an event

  std::uint64_t kernels() const { return launches + graph_kernels; }
};

// Counts of all threads since the last reset().
Counts counts();
void reset();

enum class Call { launch, graph_launch, graph_kernel, copy_in, copy_out, event, wait };

// A call. Kernels of a graph follow its launch.
struct Traced {
  Call call;
  std::string_view kernel;  // mangled; empty if the call is no kernel
  std::uint64_t bytes;      // of a copy
  std::chrono::steady_clock::time_point at;
};
// All calls since reset(), in order.
std::vector<Traced> trace();

// From now on, launches of kernels whose mangled name contains `name` call run(arguments), in the order of launches.
// sizes: bytes of each argument, which a graph copies.
void on_kernel(std::string name, std::vector<std::size_t> sizes, std::function<void(void* const* arguments)> run);

// Lets `calls` launches, graph launches, graph instantiations, copies or allocations succeed, and the next one fail.
void fail_after(int calls);

}  // namespace tenon::test::fake_cuda
