// Kernels with their arguments before they are launched, and lists of them as CUDA graphs: a step with the kernels of
// an earlier step costs one launch.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/device/cuda_base.cuh"

namespace tenon::cuda {

/// A kernel with its launch configuration.
struct Launch {
  const void* kernel;
  const char* what;
  dim3 grid;
  unsigned threads;
  std::size_t shared;         ///< bytes
  bool early;                 ///< the kernel calls wait_for_earlier()
  std::size_t arguments = 0;  ///< index of its first argument
};

/// Launches in order. Arguments are copied when added.
class Launches {
 public:
  /// Appends a launch with arguments of its parameter types.
  template <class... Parameters>
  void add(Launch launch, const Parameters&... arguments) {
    launch.arguments = arguments_.size();
    launches_.push_back(launch);
    (add_argument(arguments), ...);
    for (const std::uint64_t part :
         {reinterpret_cast<std::uint64_t>(launch.kernel), std::uint64_t{launch.grid.x}, std::uint64_t{launch.grid.y},
          std::uint64_t{launch.grid.z}, std::uint64_t{launch.threads}, std::uint64_t{launch.shared}}) {
      shape_ = (shape_ ^ part) * 0x9e3779b97f4a7c15u;
      shape_ ^= shape_ >> 29;
    }
  }
  void clear() {
    launches_.clear();
    arguments_.clear();
    bytes_.clear();
    shape_ = 0;
  }

  std::size_t size() const { return launches_.size(); }
  /// Hash of everything but the arguments' values.
  std::uint64_t shape() const { return shape_; }
  /// Whether both lists have the same kernels and configurations, in order.
  bool has_kernels_of(const Launches& other) const {
    const auto same = [](const Launch& a, const Launch& b) {
      return a.kernel == b.kernel && a.grid.x == b.grid.x && a.grid.y == b.grid.y && a.grid.z == b.grid.z &&
             a.threads == b.threads && a.shared == b.shared && a.early == b.early && a.arguments == b.arguments;
    };
    return shape_ == other.shape_ && size() == other.size() &&
           std::equal(launches_.begin(), launches_.end(), other.launches_.begin(), same);
  }
  /// Whether launch i has the same arguments in `other`, which has the same kernels.
  bool has_arguments_of(const Launches& other, std::size_t i) const {
    const std::size_t begin = first_byte(i), end = first_byte(i + 1);
    return begin == other.first_byte(i) && end == other.first_byte(i + 1) &&
           std::memcmp(bytes_.data() + begin, other.bytes_.data() + begin, end - begin) == 0;
  }

  /// Sets argument i of the first launch, which was added with this type.
  template <class T>
  void set_argument(std::size_t i, const T& value) {
    std::memcpy(bytes_.data() + arguments_[i], &value, sizeof(T));
  }
  /// Whether all argument bytes equal those of `other`, which has the same kernels. If not, single launches may still
  /// be equal.
  bool has_bytes_of(const Launches& other) const {
    return bytes_.size() == other.bytes_.size() && std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0;
  }

  /// Launches number i by itself.
  void launch(std::size_t i, cudaStream_t stream) {
    const Launch& each = launches_[i];
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = each.grid;
    config.blockDim = dim3(each.threads);
    config.dynamicSmemBytes = each.shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = each.early ? 1 : 0;
    check(cudaLaunchKernelExC(&config, each.kernel, arguments_of(i)), each.what);
  }
  /// Launch i as a graph's node. Valid until the next call.
  cudaKernelNodeParams node(std::size_t i) {
    const Launch& each = launches_[i];
    cudaKernelNodeParams params = {};
    params.func = const_cast<void*>(each.kernel);
    params.gridDim = each.grid;
    params.blockDim = dim3(each.threads);
    params.sharedMemBytes = static_cast<unsigned>(each.shared);
    params.kernelParams = arguments_of(i);
    return params;
  }

 private:
  template <class T>
  void add_argument(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));
    const std::size_t at = (bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    // Equal arguments may differ in padding, and a graph node would be changed needlessly.
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    T* const copy = reinterpret_cast<T*>(bytes_.data() + at);
    __builtin_clear_padding(copy);
#endif
#endif
    arguments_.push_back(at);
  }
  std::size_t end_of(std::size_t i) const { return i + 1 < size() ? launches_[i + 1].arguments : arguments_.size(); }
  std::size_t first_byte(std::size_t i) const {
    const std::size_t first = i < size() ? launches_[i].arguments : arguments_.size();
    return first < arguments_.size() ? arguments_[first] : bytes_.size();
  }
  // Valid until the next call.
  void** arguments_of(std::size_t i) {
    pointers_.clear();
    for (std::size_t a = launches_[i].arguments; a < end_of(i); ++a) pointers_.push_back(bytes_.data() + arguments_[a]);
    return pointers_.data();
  }

  std::vector<Launch> launches_;
  std::vector<std::size_t> arguments_;  // offset of each
  std::vector<std::byte> bytes_;
  std::vector<void*> pointers_;
  std::uint64_t shape_ = 0;
};

/// A list of earlier launches as one graph.
class LaunchGraph {
 public:
  /// Captures the launches on a stream with no other work.
  LaunchGraph(cudaStream_t stream, const Launches& launches) : launches_(launches) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "graph");
    try {
      for (std::size_t i = 0; i < launches_.size(); ++i) {
        launches_.launch(i, stream);
        nodes_.push_back(last_node(stream));
      }
    } catch (...) {
      cudaStreamEndCapture(stream, &graph_);
      destroy();
      throw;
    }
    try {
      check(cudaStreamEndCapture(stream, &graph_), "graph");
      check(cudaGraphInstantiate(&ready_, graph_, 0), "graph");
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~LaunchGraph() { destroy(); }
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;

  /// Whether `now` can be launched by this graph.
  bool has_kernels_of(const Launches& now) const { return launches_.has_kernels_of(now); }

  /// Launches with the arguments of `now`, which has the same kernels.
  void launch(cudaStream_t stream, const Launches& now) {
    if (!launches_.has_bytes_of(now)) {
      Launches before = std::exchange(launches_, now);
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (before.has_arguments_of(launches_, i)) continue;
        const cudaKernelNodeParams params = launches_.node(i);
        check(cudaGraphExecKernelNodeSetParams(ready_, nodes_[i], &params), "graph");
      }
    }
    check(cudaGraphLaunch(ready_, stream), "graph");
  }

 private:
  static cudaGraphNode_t last_node(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t* nodes = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    std::size_t count = 0;
    check(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count), "graph");
    if (count != 1) throw Error(Error::Kind::internal, "cuda: graph", "a launch was not captured as one node");
    return nodes[0];
  }

  void destroy() {
    if (ready_) cudaGraphExecDestroy(ready_);
    if (graph_) cudaGraphDestroy(graph_);
  }

  Launches launches_;  // as the graph has them
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

}  // namespace tenon::cuda
