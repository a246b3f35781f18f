// A stream: the order in which a device's engine copies and computes. Kernels are gathered until a caller waits for
// them or frees memory that they may use. A list of kernels that was launched before runs as a graph. A step that
// begins "at once" is not gathered. Other threads may flush the stream, wait for it and free memory; put() and
// begin_step() belong to one thread.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/device/cuda_base.cuh"
#include "tenon/device/cuda_launches.cuh"

namespace tenon::cuda {

inline constexpr unsigned kCopyBlocks = 16, kCopyThreads = 256;

/// Copies `count` values to or from pinned memory, which has the same address on the device (unified addressing). A
/// kernel, because copy engines wait for kernels and kernels for them (CudaTuning::kernel_copy_bytes).
template <class T>
__global__ void __launch_bounds__(kCopyThreads) copy_kernel(const T* from, T* to, unsigned count) {
  wait_for_earlier();
  for (unsigned i = blockIdx.x * kCopyThreads + threadIdx.x; i < count; i += kCopyBlocks * kCopyThreads)
    to[i] = __ldcv(from + i);
}

/// The stream of one device, its uploads and its graphs.
class DeviceStream {
 public:
  DeviceStream(int device, bool graphs) : device_(device), with_graphs_(graphs) {
    const CurrentDevice current(device_);
    architecture_ = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device_) +
                    attribute(cudaDevAttrComputeCapabilityMinor, device_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    if (const cudaError_t status = cudaStreamCreateWithFlags(&capture_, cudaStreamNonBlocking); status != cudaSuccess) {
      cudaStreamDestroy(stream_);
      check(status, "stream");
    }
  }
  ~DeviceStream() {
    cudaStreamSynchronize(stream_);
    for (const Room& room : rooms_) cudaFreeAsync(room.device, stream_);
    graphs_.clear();
    cudaStreamDestroy(capture_);
    cudaStreamDestroy(stream_);
  }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  /// For direct CUDA calls; mark() then waits for them, too.
  cudaStream_t get() {
    const std::lock_guard lock(mutex_);
    marked_.reset();
    return stream_;
  }
  /// A moment after everything on the stream. Without new work since the last call, it is the same moment.
  std::shared_ptr<const Moment> mark() {
    const std::lock_guard lock(mutex_);
    flush_locked();
    return mark_locked();
  }
  int device() const { return device_; }
  int architecture() const { return architecture_; }  ///< 90: compute capability 9.0
  /// Number of steps that were one graph launch.
  std::uint64_t graph_launches() const { return graph_launches_; }

  /// Copies bytes for later kernels, until the next begin_step(). Returns their device address.
  const std::byte* put(const void* from, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    // Sizes are powers of two: later values keep their addresses, and kernels their arguments, while texts grow.
    const std::size_t size = std::max(kLeastPut, std::bit_ceil(bytes));
    if (rooms_.empty() || rooms_.back().bytes() - rooms_.back().used < size) add_room(size);
    Room& room = rooms_.back();
    std::memcpy(room.host[turn_].data() + room.used, from, bytes);
    const std::byte* address = room.device + room.used;
    room.used += size;
    return address;
  }

  /// Forgets the values put, after kernels of this step have read them. Waits for the previous step, whose host memory
  /// is reused; this step may still run. at_once: launch the new step's kernels as they are added.
  void begin_step(bool at_once = false) {
    {
      const std::lock_guard lock(mutex_);
      flush_locked();
      at_once_ = at_once;
      const CurrentDevice current(device_);
      if (rooms_.size() > 1) join_rooms();
      ended_[turn_] = mark_locked();
      turn_ = 1 - turn_;
    }
    if (ended_[turn_]) ended_[turn_]->wait();  // without the lock: others may flush meanwhile, but nothing is pending
    const std::lock_guard lock(mutex_);
    for (Room& room : rooms_) room.used = room.sent = 0;
  }

  /// Adds a kernel with arguments of its parameter types, after everything before.
  template <class... Parameters>
  void add(Launch launch, const Parameters&... arguments) {
    const std::lock_guard lock(mutex_);
    if (launches_.size() == 0 && !rooms_.empty() && rooms_.front().sent < rooms_.front().used) add_upload();
    if (uploads_ && launches_.size() == 1)
      launch.early = false;  // memory that it reads before it waits may be part of the upload
    add_locked(launch, arguments...);
    if (at_once_) flush_locked();
  }

  /// Starts all uploads and launches. Throws a pending error once; gathered launches are gone then.
  void flush() {
    const std::lock_guard lock(mutex_);
    flush_locked();
  }
  /// For callers that cannot throw: the next flush throws the error.
  void flush_quietly() noexcept {
    const std::lock_guard lock(mutex_);
    try {
      flush_locked();
    } catch (...) {
      failed_ = std::current_exception();
    }
  }
  /// Flushes and waits for everything on the stream.
  void wait() {
    flush();
    check(cudaStreamSynchronize(stream_), "stream");
  }

 private:
  static constexpr std::size_t kLeastPut = 256;
  static constexpr std::size_t kLeastRoom = std::size_t{64} << 10;
  static constexpr std::size_t kLeastLaunches = 8;  // fewest launches of a graph
  static constexpr std::size_t kMostGraphs = 128;   // also the number of remembered shapes

  // Pinned memory and its copy on the device: bytes up to `used` are put, bytes up to `sent` copied. The host has two
  // buffers, used by steps in turn: a copy may still wait in the stream while the next step's values are written.
  // Kernels find both at one address.
  struct Room {
    std::array<Pinned, 2> host;
    std::byte* device = nullptr;
    std::size_t used = 0, sent = 0;
    std::size_t bytes() const { return host[0].bytes(); }
  };

  // One graph per host buffer. Otherwise its arguments would change with every step.
  struct TurnGraph {
    std::size_t turn;
    std::unique_ptr<LaunchGraph> graph;
  };

  void flush_locked() {
    if (!failed_ && launches_.size() == 0) return;
    Launches now;
    std::swap(now, launches_);
    const bool uploads = std::exchange(uploads_, false);
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
    const CurrentDevice current(device_);
    marked_.reset();
    if (uploads) set_upload(now);
    send();
    run(now);
    now.clear();
    std::swap(now, launches_);  // keep its memory
  }

  std::shared_ptr<const Moment> mark_locked() {
    if (marked_) return marked_;
    const CurrentDevice current(device_);
    auto unused =
        std::find_if(moments_.begin(), moments_.end(), [](const auto& each) { return each.use_count() == 1; });
    if (unused == moments_.end()) unused = moments_.insert(unused, std::make_shared<Moment>());
    (*unused)->set(stream_);
    return marked_ = *unused;
  }

  void add_room(std::size_t bytes) {
    const CurrentDevice current(device_);
    bytes = std::max(bytes, kLeastRoom);
    Room room{{Pinned(bytes), Pinned(bytes)}};
    for (const Pinned& host : room.host) std::memset(host.data(), 0, bytes);
    void* device = nullptr;
    check(cudaMallocAsync(&device, bytes, stream_), "memory");
    room.device = static_cast<std::byte*>(device);
    rooms_.push_back(std::move(room));
  }

  void join_rooms() {
    check(cudaStreamSynchronize(stream_), "stream");  // their contents may be on their way
    std::size_t bytes = 0;
    for (const Room& room : rooms_) {
      bytes += room.bytes();
      cudaFreeAsync(room.device, stream_);
    }
    rooms_.clear();
    add_room(std::bit_ceil(bytes));
  }

  template <class... Parameters>
  void add_locked(Launch launch, const Parameters&... arguments) {
    const int written_for = prepare(launch);
    launch.early = launch.early && std::min(written_for, architecture_) >= kEarlyArchitecture;
    launches_.add(launch, arguments...);
  }

  // Adds the upload as the first gathered kernel. Its arguments are set at the launch, because more values may be put
  // until then.
  void add_upload() {
    const Launch upload{reinterpret_cast<const void*>(&copy_kernel<uint4>),
                        "copy to the device",
                        dim3(kCopyBlocks),
                        kCopyThreads,
                        0,
                        true};
    add_locked(upload, static_cast<const uint4*>(nullptr), static_cast<uint4*>(nullptr), 0u);
    uploads_ = true;
  }
  void set_upload(Launches& now) {
    Room& room = rooms_.front();
    now.set_argument(0, reinterpret_cast<const uint4*>(room.host[turn_].data() + room.sent));
    now.set_argument(1, reinterpret_cast<uint4*>(room.device + room.sent));
    now.set_argument(2, static_cast<unsigned>((room.used - room.sent) / sizeof(uint4)));
    room.sent = room.used;
  }

  // Copies what no kernel uploads.
  void send() {
    for (Room& room : rooms_) {
      if (room.sent == room.used) continue;
      check(cudaMemcpyAsync(room.device + room.sent, room.host[turn_].data() + room.sent, room.used - room.sent,
                            cudaMemcpyHostToDevice, stream_),
            "copy to the device");
      room.sent = room.used;
    }
  }

  // Architecture of the kernel's code, which may be older than the device; such code does not wait. On first use, the
  // kernel is allowed all shared memory that a block can have, because the limit applies to every later launch.
  int prepare(const Launch& launch) {
    if (const auto known = written_for_.find(launch.kernel); known != written_for_.end()) return known->second;
    const CurrentDevice current(device_);
    cudaFuncAttributes attributes = {};
    check(cudaFuncGetAttributes(&attributes, launch.kernel), launch.what);
    const int shared =
        attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device_) - static_cast<int>(attributes.sharedSizeBytes);
    check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), launch.what);
    written_for_.emplace(launch.kernel, attributes.ptxVersion);
    return attributes.ptxVersion;
  }

  void run(Launches& now) {
    if (with_graphs_ && now.size() >= kLeastLaunches) {
      const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const TurnGraph& each) {
        return each.turn == turn_ && each.graph->has_kernels_of(now);
      });
      if (found != graphs_.end()) {
        std::rotate(graphs_.begin(), found, found + 1);
        return launch_graph(now);
      }
      if (came_before(now.shape()) && add_graph(now)) return launch_graph(now);
    }
    for (std::size_t i = 0; i < now.size(); ++i) now.launch(i, stream_);
  }
  // Returns false if there is no memory for a graph, for example. Nothing has run then.
  bool add_graph(const Launches& now) {
    try {
      graphs_.insert(graphs_.begin(), {turn_, std::make_unique<LaunchGraph>(capture_, now)});
    } catch (...) {
      return false;
    }
    if (graphs_.size() > kMostGraphs) graphs_.pop_back();  // CUDA frees a running graph after it ends
    return true;
  }
  void launch_graph(const Launches& now) {
    try {
      graphs_.front().graph->launch(stream_, now);
    } catch (...) {
      graphs_.erase(graphs_.begin());  // some of its nodes may have old arguments
      throw;
    }
    ++graph_launches_;
  }

  // A graph costs as much as many launches, so the first occurrence of a list makes none.
  bool came_before(std::uint64_t shape) {
    if (std::find(shapes_.begin(), shapes_.end(), shape) != shapes_.end()) return true;
    if (shapes_.size() == kMostGraphs) shapes_.erase(shapes_.begin());
    shapes_.push_back(shape);
    return false;
  }

  const int device_;
  const bool with_graphs_;
  int architecture_ = 0;
  cudaStream_t stream_ = nullptr, capture_ = nullptr;
  std::mutex mutex_;
  std::vector<Room> rooms_;
  std::array<std::shared_ptr<const Moment>, 2> ended_;  // moments of the steps that last used each host buffer
  std::vector<std::shared_ptr<Moment>> moments_;        // reused once no caller holds them
  std::shared_ptr<const Moment> marked_;                // the last moment; null: there may be work after it
  std::size_t turn_ = 0;
  Launches launches_;
  bool uploads_ = false;  // the first launch is the upload
  bool at_once_ = false;
  std::exception_ptr failed_;                         // not reported yet
  std::unordered_map<const void*, int> written_for_;  // architectures by kernel
  std::vector<TurnGraph> graphs_;                     // last launched first
  std::vector<std::uint64_t> shapes_;                 // latest last
  std::uint64_t graph_launches_ = 0;
};

}  // namespace tenon::cuda
