// An NVIDIA GPU as a device: one stream, on which all that an engine does is ordered; its memory; and small data on the way
// to a step's kernels. The only place that looks at what CUDA returns: whatever fails becomes an Error.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"
#include "tenon/device/thread_pool.h"

namespace tenon {
namespace cuda {

// Not cudaGetLastError: what went wrong is this call's, or an earlier kernel's, and a later call would find it again.
inline void check(cudaError_t status, const char* what, std::source_location at = std::source_location::current()) {
  if (status == cudaSuccess) return;
  const auto kind = status == cudaErrorMemoryAllocation ? Error::Kind::capacity : Error::Kind::internal;
  std::string file = at.file_name();
  file = file.substr(file.find_last_of('/') + 1);
  throw Error(kind, std::string("cuda: ") + what,
              std::string(cudaGetErrorName(status)) + ", " + cudaGetErrorString(status) + " (" + file + ":" +
                  std::to_string(at.line()) + ")");
}

// Devices that this process can use; 0 where there is no driver, either.
inline int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// The calling thread's device while this lives: an engine may be used from any thread, and beside others.
class Current {
 public:
  explicit Current(int device) {
    check(cudaGetDevice(&before_), "device");
    changed_ = device != before_;
    if (changed_) check(cudaSetDevice(device), "device");
  }
  ~Current() {
    if (changed_) cudaSetDevice(before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

// A grid of one dimension for `count` pieces of work, `each` of them a block.
inline dim3 blocks(std::size_t count, std::size_t each = 1) { return dim3(static_cast<unsigned>((count + each - 1) / each)); }
inline dim3 blocks(int count) { return blocks(static_cast<std::size_t>(count)); }

// A stream of its own device.
class Stream {
 public:
  explicit Stream(int device) : device_(device) {
    const Current current(device_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  }
  ~Stream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  int device() const { return device_; }
  void wait() const { check(cudaStreamSynchronize(stream_), "stream"); }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

// Pinned memory of the host, which copies reach without a detour. What it holds is anything.
class Pinned {
 public:
  Pinned() = default;
  explicit Pinned(std::size_t bytes) : bytes_(bytes) {
    void* data = nullptr;
    if (bytes > 0) check(cudaMallocHost(&data, bytes), "pinned memory");
    data_.reset(static_cast<std::byte*>(data));
  }
  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { cudaFreeHost(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace cuda

struct CudaOptions {
  int index = 0;    // of the device, as CUDA counts them
  int threads = 0;  // of the host, for loading and for what is drawn there; 0: all cores
};

class Cuda {
 public:
  static constexpr std::string_view name = "cuda";
  static constexpr bool runs_behind = true;  // ops return before their kernels have run
  using Options = CudaOptions;

  // Zeroed, and freed in the stream's order: what was launched before may still use it.
  class Memory {
   public:
    Memory() = default;
    Memory(std::shared_ptr<cuda::Stream> stream, std::size_t bytes) : bytes_(bytes) {
      if (bytes == 0) return;
      const cuda::Current current(stream->device());
      void* data = nullptr;
      cuda::check(cudaMallocAsync(&data, bytes, stream->get()), "memory");
      data_ = {static_cast<std::byte*>(data), {stream}};
      cuda::check(cudaMemsetAsync(data, 0, bytes, stream->get()), "memory");
    }

    std::byte* data() const { return data_.get(); }  // an address of the device
    std::size_t bytes() const { return bytes_; }

    // The first `bytes` of it, as the host sees them.
    std::vector<std::byte> contents(std::size_t bytes) const {
      std::vector<std::byte> copy(bytes);
      if (bytes == 0) return copy;
      const cuda::Stream& stream = *data_.get_deleter().stream;
      cuda::check(cudaMemcpyAsync(copy.data(), data(), bytes, cudaMemcpyDeviceToHost, stream.get()), "memory");
      stream.wait();
      return copy;
    }

   private:
    struct Free {
      std::shared_ptr<cuda::Stream> stream;
      void operator()(std::byte* data) const { cudaFreeAsync(data, stream->get()); }
    };
    std::unique_ptr<std::byte, Free> data_;
    std::size_t bytes_ = 0;
  };

  explicit Cuda(CudaOptions options = {}) : index_(checked(options.index)) {
    stream_ = std::make_shared<cuda::Stream>(index_);
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    pool_ = std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : std::max(1, cores));
    cuda::check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, index_), "device");
    // Memory that is freed stays with the process, or every step that grows would ask the system again.
    cudaMemPool_t memory_pool = nullptr;
    cuda::check(cudaDeviceGetDefaultMemPool(&memory_pool, index_), "memory pool");
    std::uint64_t keep = ~std::uint64_t{0};
    cuda::check(cudaMemPoolSetAttribute(memory_pool, cudaMemPoolAttrReleaseThreshold, &keep), "memory pool");
  }

  // Pinned memory may still be on its way when a step had nothing to fetch.
  ~Cuda() {
    if (stream_) cudaStreamSynchronize(stream_->get());
  }
  Cuda(Cuda&&) = default;

  Memory allocate(std::size_t bytes) { return {stream_, bytes}; }
  void synchronize() { stream_->wait(); }

  int index() const { return index_; }
  int processors() const { return processors_; }
  cudaStream_t stream() const { return stream_->get(); }
  ThreadPool& pool() { return *pool_; }
  int threads() const { return pool_->threads(); }

  // body(host) writes what the span of device memory is to hold; what it leaves is 0.
  template <class Body>
  void fill(std::span<std::byte> to, Body&& body) {
    std::vector<std::byte> host(to.size());
    body(std::span<std::byte>(host));
    if (to.empty()) return;
    const cuda::Current current(index_);
    cuda::check(cudaMemcpyAsync(to.data(), host.data(), host.size(), cudaMemcpyHostToDevice, stream()), "copy to the device");
    stream_->wait();
  }

  // Where kernels of this step find a copy of a few host values. It is on its way before the next kernel is, in one copy
  // with whatever else was put.
  template <class T>
  const T* put(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (values.empty()) return nullptr;
    const std::size_t bytes = (values.size_bytes() + 15) / 16 * 16;
    if (steps_.empty() || steps_.back().host.bytes() - steps_.back().used < bytes) add_room(bytes);
    Room& room = steps_.back();
    std::memcpy(room.host.data() + room.used, values.data(), values.size_bytes());
    const std::byte* address = room.device.data() + room.used;
    room.used += bytes;
    return reinterpret_cast<const T*>(address);
  }

  // What was put for the step before is gone. Waits for it.
  void begin_step() {
    stream_->wait();
    if (steps_.size() > 1) {
      std::size_t bytes = 0;
      for (const Room& room : steps_) bytes += room.host.bytes();
      steps_.clear();
      add_room(bytes);
    }
    for (Room& room : steps_) room.used = room.sent = 0;
  }

  // Device values as the host sees them, once everything before has run. Valid until the next call.
  template <class T>
  const T* fetch(const T* from, std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes == 0) return nullptr;
    const cuda::Current current(index_);
    if (bytes > fetched_.bytes()) fetched_ = cuda::Pinned(std::max(bytes, fetched_.bytes() * 3 / 2));
    cuda::check(cudaMemcpyAsync(fetched_.data(), from, bytes, cudaMemcpyDeviceToHost, stream()), "copy to the host");
    stream_->wait();
    return reinterpret_cast<const T*>(fetched_.data());
  }

  // Memory for one op's own use, gone at the next call; grows to the largest ever asked for.
  float* scratch(std::size_t floats) {
    if (floats * sizeof(float) > scratch_.bytes()) {
      scratch_ = allocate(std::max(floats * sizeof(float), scratch_.bytes() * 3 / 2));
    }
    return reinterpret_cast<float*>(scratch_.data());
  }

  // kernel<<<blocks, threads, shared bytes>>>(arguments...); nothing where there are no blocks.
  template <class... Parameters, class... Arguments>
  void launch(const char* what, void (*kernel)(Parameters...), dim3 blocks, int threads, std::size_t shared,
              Arguments&&... arguments) {
    if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
    const cuda::Current current(index_);
    send();
    if (shared > 48 * 1024) {
      cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), what);
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = shared;
    config.stream = stream();
    cuda::check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...), what);
  }

 private:
  // Pinned memory and its twin on the device, of which bytes up to `used` are put and up to `sent` copied.
  struct Room {
    cuda::Pinned host;
    Memory device;
    std::size_t used = 0, sent = 0;
  };

  static int checked(int index) {
    const int count = cuda::device_count();
    if (count == 0) throw Error(Error::Kind::unsupported, "device", "there is no CUDA device, or no driver, on this machine");
    if (index < 0 || index >= count) {
      throw Error(Error::Kind::unsupported, "device",
                  "there is no CUDA device " + std::to_string(index) + "; there are " + std::to_string(count));
    }
    return index;
  }

  void add_room(std::size_t bytes) {
    bytes = std::max(bytes, std::size_t{64} << 10);
    const cuda::Current current(index_);
    steps_.push_back({cuda::Pinned(bytes), allocate(bytes)});
  }

  void send() {
    for (Room& room : steps_) {
      if (room.sent == room.used) continue;
      cuda::check(cudaMemcpyAsync(room.device.data() + room.sent, room.host.data() + room.sent, room.used - room.sent,
                                  cudaMemcpyHostToDevice, stream()),
                  "copy to the device");
      room.sent = room.used;
    }
  }

  int index_;
  int processors_ = 0;
  std::shared_ptr<cuda::Stream> stream_;  // memory that outlives this device's ops is freed on it
  std::unique_ptr<ThreadPool> pool_;
  std::vector<Room> steps_;
  cuda::Pinned fetched_;
  Memory scratch_;
};
static_assert(DevicePolicy<Cuda>);

}  // namespace tenon
