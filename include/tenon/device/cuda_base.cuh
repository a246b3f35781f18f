// Errors of CUDA's runtime as tenon::Error, the current device, pinned memory, and the first statement of every kernel.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <source_location>
#include <string>

#include "tenon/core/error.h"

namespace tenon::cuda {

/// Throws if a call failed. It does not use cudaGetLastError: the status belongs to this call or an earlier kernel, and
/// a later call would report it again.
inline void check(cudaError_t status, const char* what, std::source_location at = std::source_location::current()) {
  if (status == cudaSuccess) return;
  const auto kind = status == cudaErrorMemoryAllocation ? Error::Kind::capacity : Error::Kind::internal;
  std::string file = at.file_name();
  file = file.substr(file.find_last_of('/') + 1);
  throw Error(kind, std::string("cuda: ") + what,
              std::string(cudaGetErrorName(status)) + ", " + cudaGetErrorString(status) + " (" + file + ":" +
                  std::to_string(at.line()) + ")");
}

/// Number of devices that this process can use; 0 without a driver.
inline int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

inline int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "device");
  return value;
}

/// Sets the calling thread's device while it lives. An engine may be used from any thread, alongside other engines.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check(cudaGetDevice(&before_), "device");
    changed_ = device != before_;
    if (changed_) check(cudaSetDevice(device), "device");
  }
  ~CurrentDevice() {
    if (changed_) cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// A one-dimensional grid for `count` pieces of work, `each` pieces per block.
inline dim3 blocks(std::size_t count, std::size_t each = 1) {
  return dim3(static_cast<unsigned>((count + each - 1) / each));
}
inline dim3 blocks(int count) { return blocks(static_cast<std::size_t>(count)); }

/// Pinned host memory, which the device copies directly. Contents are unspecified at first.
class Pinned {
 public:
  Pinned() = default;
  /// Throws Error (capacity) if the system refuses the memory.
  explicit Pinned(std::size_t bytes) : bytes_(bytes) {
    void* data = nullptr;
    if (bytes > 0) check(cudaMallocHost(&data, bytes), "pinned memory");
    data_.reset(static_cast<std::byte*>(data));
  }
  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return data_ ? bytes_ : 0; }

  /// Grows to at least this many bytes and loses its contents. Growth is rare: the host waits for the whole device.
  void grow(std::size_t bytes) {
    if (bytes > this->bytes()) *this = Pinned(std::max({bytes, bytes_ * 3 / 2, kLeastGrown}));
  }

 private:
  static constexpr std::size_t kLeastGrown = 4096;

  struct FreePinned {
    void operator()(std::byte* data) const { cudaFreeHost(data); }
  };
  std::unique_ptr<std::byte, FreePinned> data_;
  std::size_t bytes_ = 0;
};

/// A point in a stream's order that the host can wait for. Reached until it is set.
class Moment {
 public:
  Moment() = default;
  ~Moment() {
    if (event_) cudaEventDestroy(event_);
  }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;

  /// Sets it after everything on the stream. The stream's device must be current.
  void set(cudaStream_t stream) {
    if (!event_) check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
    check(cudaEventRecord(event_, stream), "event");
  }
  /// Blocks until the point is reached.
  void wait() const {
    if (event_) check(cudaEventSynchronize(event_), "stream");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Every block of a kernel launched by launch_early() calls this before it reads results of earlier kernels, writes, or
/// ends. The next kernel may then be prepared alongside (programmatic dependent launch; CUDA's programming guide).
/// Before the call, a kernel may fetch memory that no kernel writes: weights.
__device__ inline void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
/// first architecture with programmatic dependent launch, as __CUDA_ARCH__ / 10
inline constexpr int kEarlyArchitecture = 90;

}  // namespace tenon::cuda
