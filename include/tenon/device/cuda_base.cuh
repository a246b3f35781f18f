// What CUDA's runtime returns, turned into Errors; the current device; pinned memory; and what every kernel says first.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <source_location>
#include <string>

#include "tenon/core/error.h"

namespace tenon::cuda {

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

inline int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "device");
  return value;
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
inline dim3 blocks(std::size_t count, std::size_t each = 1) {
  return dim3(static_cast<unsigned>((count + each - 1) / each));
}
inline dim3 blocks(int count) { return blocks(static_cast<std::size_t>(count)); }

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
  std::size_t bytes() const { return data_ ? bytes_ : 0; }

  // Holds so many bytes or more then; what it held is lost. Growth is rare: the host waits for the whole device
  // meanwhile.
  void grow(std::size_t bytes) {
    if (bytes > this->bytes()) *this = Pinned(std::max({bytes, bytes_ * 3 / 2, kLeastGrown}));
  }

 private:
  static constexpr std::size_t kLeastGrown = 4096;

  struct Free {
    void operator()(std::byte* data) const { cudaFreeHost(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

// A place in a stream's order that the host can wait for; reached before it is set.
class Moment {
 public:
  Moment() = default;
  ~Moment() {
    if (event_) cudaEventDestroy(event_);
  }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;

  // Behind all that is on the stream, of the current device.
  void set(cudaStream_t stream) {
    if (!event_) check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
    check(cudaEventRecord(event_, stream), "event");
  }
  void wait() const {
    if (event_) check(cudaEventSynchronize(event_), "stream");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Every block of a kernel that is launched early says this before it reads what earlier kernels wrote, writes, or ends;
// then the next kernel may be made ready beside it (programmatic dependent launch; CUDA's programming guide). Before
// it, a kernel may fetch what no kernel writes: weights.
__device__ inline void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
inline constexpr int kEarlyArchitecture = 90;  // the first that has it, as __CUDA_ARCH__ / 10

}  // namespace tenon::cuda
