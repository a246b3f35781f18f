// The functions of CUDA's runtime that tenon calls, and those that nvcc's host code calls before main(). See
// fake_cuda.h.
#include "fake_cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

using namespace tenon::test::fake_cuda;

namespace {

struct Hook {
  std::string name;
  std::vector<std::size_t> sizes;
  std::function<void(void* const*)> run;
};

struct Kernel {
  std::string name;
  const Hook* hook = nullptr;
};

// A launch whose arguments outlive the call, as far as a hook needs them.
struct Node {
  const Kernel* kernel = nullptr;
  std::vector<std::vector<std::byte>> arguments;

  void set(const Kernel& which, void* const* from) {
    kernel = &which;
    arguments.clear();
    if (!which.hook) return;
    for (const std::size_t size : which.hook->sizes) {
      const auto* bytes = static_cast<const std::byte*>(*from++);
      arguments.emplace_back(bytes, bytes + size);
    }
  }
  void run() const {
    if (!kernel->hook) return;
    std::vector<void*> pointers;
    for (const auto& argument : arguments) pointers.push_back(const_cast<std::byte*>(argument.data()));
    kernel->hook->run(pointers.data());
  }
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};
struct ReadyGraph {
  std::vector<Node> nodes;
  std::unordered_map<const void*, std::size_t> places;  // by node of the graph
};
struct Stream {
  std::unique_ptr<Graph> capturing;
  cudaGraphNode_t last = nullptr;
};

struct State {
  std::mutex mutex;
  Counts counts;
  std::vector<Traced> calls;
  std::map<const void*, Kernel> kernels;  // by address of the host stub
  std::vector<std::unique_ptr<Hook>> hooks;
  int fails_after = -1;
};

// Constructed by the first registration and never destroyed: programs free device memory while they end.
State& state() {
  static State& all = *new State;
  return all;
}

Kernel& kernel_of(const void* stub) { return state().kernels[stub]; }

// Call with the state locked. True if this call is to fail.
bool fails() {
  State& s = state();
  return s.fails_after >= 0 && s.fails_after-- == 0;
}

void note(Call call, std::string_view kernel = {}, std::uint64_t bytes = 0) {
  state().calls.push_back({call, kernel, bytes, std::chrono::steady_clock::now()});
}

Stream& stream_of(cudaStream_t stream) { return *reinterpret_cast<Stream*>(stream); }

cudaError_t launch(const void* stub, void* const* arguments, cudaStream_t to) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (fails()) return cudaErrorLaunchFailure;
  const Kernel& kernel = kernel_of(stub);
  Stream& stream = stream_of(to);
  if (stream.capturing) {
    auto node = std::make_unique<Node>();
    node->set(kernel, arguments);
    stream.last = reinterpret_cast<cudaGraphNode_t>(node.get());
    stream.capturing->nodes.push_back(std::move(node));
    return cudaSuccess;
  }
  ++s.counts.launches;
  note(Call::launch, kernel.name);
  if (kernel.hook) kernel.hook->run(arguments);
  return cudaSuccess;
}

cudaError_t allocate(void** memory, std::size_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (fails()) return cudaErrorMemoryAllocation;
  ++s.counts.allocations;
  *memory = std::calloc(1, (bytes + 255) / 256 * 256);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // namespace

namespace tenon::test::fake_cuda {

Counts counts() {
  const std::lock_guard lock(state().mutex);
  return state().counts;
}

void reset() {
  const std::lock_guard lock(state().mutex);
  state().counts = {};
  state().calls.clear();
}

std::vector<Traced> trace() {
  const std::lock_guard lock(state().mutex);
  return state().calls;
}

void on_kernel(std::string name, std::vector<std::size_t> sizes, std::function<void(void* const*)> run) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.hooks.push_back(std::make_unique<Hook>(Hook{std::move(name), std::move(sizes), std::move(run)}));
  for (auto& [stub, kernel] : s.kernels) {
    if (kernel.name.find(s.hooks.back()->name) != std::string::npos) kernel.hook = s.hooks.back().get();
  }
}

void fail_after(int calls) {
  const std::lock_guard lock(state().mutex);
  state().fails_after = calls;
}

}  // namespace tenon::test::fake_cuda

extern "C" {

// ---- what nvcc's host code calls

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const std::lock_guard lock(state().mutex);
  kernel_of(stub).name = name;
}
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*) { return 1; }  // kernel<<<>>>: tenon has none
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { return cudaErrorNotSupported; }
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaErrorNotSupported; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return cudaErrorNotSupported;
}

// ---- the device: an H100 as far as it is asked

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor:
      return *value = 9, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = 0, cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      return *value = 132, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return *value = 227 << 10, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return *value = 228 << 10, cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->ptxVersion = attributes->binaryVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheFakeRuntime"; }
const char* cudaGetErrorString(cudaError_t) { return "the fake runtime was told to fail"; }

// ---- memory

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) { return *pool = nullptr, cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t) { return allocate(memory, bytes); }
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return std::free(memory), cudaSuccess; }
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return allocate(memory, bytes); }
cudaError_t cudaFreeHost(void* memory) { return std::free(memory), cudaSuccess; }
// tenon sets only new memory to 0, and this memory is 0.
cudaError_t cudaMemsetAsync(void*, int value, std::size_t, cudaStream_t) {
  return value == 0 ? cudaSuccess : cudaErrorNotSupported;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (fails()) return cudaErrorUnknown;
  if (kind == cudaMemcpyHostToDevice) {
    ++s.counts.copies_in, s.counts.bytes_in += bytes;
    note(Call::copy_in, {}, bytes);
  } else if (kind == cudaMemcpyDeviceToHost) {
    ++s.counts.copies_out, s.counts.bytes_out += bytes;
    note(Call::copy_out, {}, bytes);
  }
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

// ---- streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new Stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete &stream_of(stream), cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  const std::lock_guard lock(state().mutex);
  ++state().counts.waits;
  note(Call::wait);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete reinterpret_cast<char*>(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  const std::lock_guard lock(state().mutex);
  ++state().counts.events;
  note(Call::event);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  const std::lock_guard lock(state().mutex);
  ++state().counts.waits;
  note(Call::wait);
  return cudaSuccess;
}

// ---- kernels and graphs

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
  return launch(stub, arguments, config->stream);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream_of(stream).capturing = std::make_unique<Graph>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(stream_of(stream).capturing.release());
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long*,
                                     cudaGraph_t*, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  Stream& s = stream_of(stream);
  *status = s.capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  *nodes = &s.last;
  *edges = nullptr;
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (fails()) return cudaErrorMemoryAllocation;
  ++s.counts.graphs;
  auto made = std::make_unique<ReadyGraph>();
  for (const auto& node : reinterpret_cast<Graph*>(graph)->nodes) {
    made->places.emplace(node.get(), made->nodes.size());
    made->nodes.push_back(*node);
  }
  *ready = reinterpret_cast<cudaGraphExec_t>(made.release());
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete reinterpret_cast<Graph*>(graph), cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return delete reinterpret_cast<ReadyGraph*>(graph), cudaSuccess;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (fails()) return cudaErrorUnknown;
  ++s.counts.changed_nodes;
  auto& ready = *reinterpret_cast<ReadyGraph*>(graph);
  ready.nodes[ready.places.at(node)].set(kernel_of(params->func), params->kernelParams);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (fails()) return cudaErrorUnknown;
  const auto& nodes = reinterpret_cast<ReadyGraph*>(graph)->nodes;
  ++s.counts.graph_launches;
  s.counts.graph_kernels += nodes.size();
  note(Call::graph_launch);
  for (const Node& node : nodes) {
    note(Call::graph_kernel, node.kernel->name);
    node.run();
  }
  return cudaSuccess;
}

}  // extern "C"
