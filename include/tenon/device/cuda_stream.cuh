// A stream: the order in which a device's engine copies and computes. Kernels are gathered until somebody waits for them, or
// frees what they may use; a list that has come before is launched as a graph. May be used from several threads.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tenon/device/cuda_base.cuh"
#include "tenon/device/cuda_launches.cuh"

namespace tenon::cuda {

class Stream {
 public:
  Stream(int device, bool graphs) : device_(device), with_graphs_(graphs) {
    const Current current(device_);
    architecture_ = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device_) + attribute(cudaDevAttrComputeCapabilityMinor, device_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    if (const cudaError_t status = cudaStreamCreateWithFlags(&capture_, cudaStreamNonBlocking); status != cudaSuccess) {
      cudaStreamDestroy(stream_);
      check(status, "stream");
    }
  }
  ~Stream() {
    cudaStreamSynchronize(stream_);
    for (const Room& room : rooms_) cudaFreeAsync(room.device, stream_);
    graphs_.clear();
    cudaStreamDestroy(capture_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  int device() const { return device_; }
  // Steps that were one launch.
  std::uint64_t graph_launches() const { return graph_launches_; }

  // Kernels behind this find the bytes at the address that it returns, until the next begin_step().
  const std::byte* put(const void* from, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    // Sizes in powers of two: what follows keeps its address, and kernels their arguments, while texts grow.
    const std::size_t size = std::max(kLeastPut, std::bit_ceil(bytes));
    if (rooms_.empty() || rooms_.back().host.bytes() - rooms_.back().used < size) add_room(size);
    Room& room = rooms_.back();
    std::memcpy(room.host.data() + room.used, from, bytes);
    const std::byte* address = room.device + room.used;
    room.used += size;
    return address;
  }

  // Forgets what was put. Waits for everything before.
  void begin_step() {
    wait();
    const std::lock_guard lock(mutex_);
    if (rooms_.size() > 1) {
      std::size_t bytes = 0;
      for (const Room& room : rooms_) {
        bytes += room.host.bytes();
        cudaFreeAsync(room.device, stream_);
      }
      rooms_.clear();
      add_room(std::bit_ceil(bytes));
    }
    for (Room& room : rooms_) room.used = room.sent = 0;
  }

  // As the arguments of a kernel with such parameters, which run behind all before.
  template <class... Parameters>
  void add(Launch launch, const Parameters&... arguments) {
    const std::lock_guard lock(mutex_);
    launch.early = launch.early && prepare(launch) >= kEarlyArchitecture && architecture_ >= kEarlyArchitecture;
    launches_.add(launch, arguments...);
  }

  // What was put and launched is on its way.
  void flush() {
    const std::lock_guard lock(mutex_);
    if (launches_.size() == 0) return;
    const Current current(device_);
    send();
    // What throws is not tried again.
    Launches now;
    std::swap(now, launches_);
    run(now);
    now.clear();
    std::swap(now, launches_);  // its memory
  }
  void wait() {
    flush();
    check(cudaStreamSynchronize(stream_), "stream");
  }

 private:
  static constexpr std::size_t kLeastPut = 256;
  static constexpr std::size_t kLeastRoom = std::size_t{64} << 10;
  static constexpr std::size_t kLeastLaunches = 8;  // that a graph is made of
  static constexpr std::size_t kMostGraphs = 64;    // and shapes that came once

  // Pinned memory and its twin on the device, of which bytes up to `used` are put and up to `sent` copied.
  struct Room {
    Pinned host;
    std::byte* device = nullptr;
    std::size_t used = 0, sent = 0;
  };

  void add_room(std::size_t bytes) {
    const Current current(device_);
    Room room{Pinned(std::max(bytes, kLeastRoom))};
    std::memset(room.host.data(), 0, room.host.bytes());
    void* device = nullptr;
    check(cudaMallocAsync(&device, room.host.bytes(), stream_), "memory");
    room.device = static_cast<std::byte*>(device);
    rooms_.push_back(std::move(room));
  }

  void send() {
    for (Room& room : rooms_) {
      if (room.sent == room.used) continue;
      check(cudaMemcpyAsync(room.device + room.sent, room.host.data() + room.sent, room.used - room.sent, cudaMemcpyHostToDevice, stream_),
            "copy to the device");
      room.sent = room.used;
    }
  }

  // Makes the kernel ready for so much shared memory. The architecture that its code was written for, which may be older than
  // the device: code of an older one does not wait.
  int prepare(const Launch& launch) {
    const auto [at, is_new] = kernels_.try_emplace(launch.kernel);
    Known& known = at->second;
    const Current current(device_);
    if (is_new) {
      cudaFuncAttributes attributes = {};
      check(cudaFuncGetAttributes(&attributes, launch.kernel), launch.what);
      known.architecture = attributes.ptxVersion;
    }
    if (launch.shared > known.shared) {
      check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(launch.shared)), launch.what);
      known.shared = launch.shared;
    }
    return known.architecture;
  }

  void run(Launches& now) {
    if (with_graphs_ && now.size() >= kLeastLaunches) {
      const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const auto& graph) { return graph->has_kernels_of(now); });
      if (found != graphs_.end()) {
        std::rotate(graphs_.begin(), found, found + 1);
        return launch_graph(now);
      }
      if (came_before(now.shape())) {
        graphs_.insert(graphs_.begin(), std::make_unique<LaunchGraph>(capture_, now));
        if (graphs_.size() > kMostGraphs) graphs_.pop_back();  // CUDA frees one that still runs when it has ended
        return launch_graph(now);
      }
    }
    for (std::size_t i = 0; i < now.size(); ++i) now.launch(i, stream_);
  }
  void launch_graph(const Launches& now) {
    graphs_.front()->launch(stream_, now);
    ++graph_launches_;
  }

  // A graph costs as much as many launches: the first time it is not worth one.
  bool came_before(std::uint64_t shape) {
    const auto found = std::find(shapes_.begin(), shapes_.end(), shape);
    if (found != shapes_.end()) {
      shapes_.erase(found);
      return true;
    }
    if (shapes_.size() == kMostGraphs) shapes_.erase(shapes_.begin());
    shapes_.push_back(shape);
    return false;
  }

  struct Known {
    int architecture = 0;
    std::size_t shared = std::size_t{48} << 10;  // what a kernel may have without being asked
  };

  const int device_;
  const bool with_graphs_;
  int architecture_ = 0;
  cudaStream_t stream_ = nullptr, capture_ = nullptr;
  std::mutex mutex_;
  std::vector<Room> rooms_;
  Launches launches_;
  std::unordered_map<const void*, Known> kernels_;
  std::vector<std::unique_ptr<LaunchGraph>> graphs_;  // those launched last first
  std::vector<std::uint64_t> shapes_;                 // the latest last
  std::uint64_t graph_launches_ = 0;
};

}  // namespace tenon::cuda
