// An NVIDIA GPU as a device: one stream that orders an engine's work, its memory, and uploads of a step's small data.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"
#include "tenon/device/cuda_base.cuh"
#include "tenon/device/cuda_stream.cuh"
#include "tenon/device/cuda_tuning.cuh"
#include "tenon/device/memory_count.h"
#include "tenon/device/thread_pool.h"

namespace tenon {
namespace cuda {

/// Uses of scratch memory: an op's own results, or activations that a product rounds for itself.
enum class ScratchUse { op, rounded };

/// Device values on their way to the host. Holds one copy at a time.
class Later {
 public:
  Later() = default;
  ~Later() { quietly_wait(); }
  Later(Later&&) noexcept = default;
  Later& operator=(Later&& other) noexcept {
    quietly_wait();
    host_ = std::move(other.host_);
    there_ = std::move(other.there_);
    return *this;
  }

  /// Memory for this many bytes that kernels may write (unified addressing). Waits for the previous copy.
  std::byte* reserve(std::size_t bytes) {
    if (there_) there_->wait();
    host_.grow(bytes);
    return host_.data();
  }
  /// The values are complete at that moment.
  void expect(std::shared_ptr<const Moment> there) { there_ = std::move(there); }
  /// Waits for the values and returns them. Valid until the next copy.
  const std::byte* wait() const {
    if (there_) there_->wait();
    return host_.data();
  }

 private:
  void quietly_wait() noexcept {
    try {
      wait();
    } catch (...) {  // the copy has ended in any case
    }
  }

  Pinned host_;
  std::shared_ptr<const Moment> there_;  // null: no copy was started
};

}  // namespace cuda

/// Options of Cuda.
struct CudaOptions {
  int index = 0;       ///< index of the device, as CUDA counts them
  int threads = 0;     ///< host threads, for loading and for draws on the host; 0: all cores
  bool graphs = true;  ///< launch repeated steps as one CUDA graph
};

/// An NVIDIA GPU as a device (DevicePolicy). Ops return before their kernels have run; errors of the runtime are thrown
/// as Error. One thread uses it at a time; freeing memory, flush() and synchronize() are safe from any thread.
class Cuda {
 public:
  static constexpr std::string_view name = "cuda";
  static constexpr NumericClass<Cuda> numeric_class{"exact"};  ///< the CPU's bits
  static constexpr bool runs_asynchronously = true;            ///< ops return before their kernels have run
  /// rows that read an adapter's factors together
  static constexpr int rows_together = cuda::CudaTuning::rows_together;
  static constexpr int queries_together = 64;  ///< queries that read keys together: rows of a sequence times heads
  using Later = cuda::Later;
  /// unit of BatchView::longest, so that kernel arguments stay the same while texts grow
  static constexpr int length_step = 256;
  using Options = CudaOptions;

  /// Zeroed memory. It is freed in the stream's order, so that earlier launches may still use it.
  class Memory {
   public:
    Memory() = default;
    Memory(std::shared_ptr<cuda::DeviceStream> stream, std::shared_ptr<MemoryCount> count, std::size_t bytes)
        : bytes_(bytes) {
      if (bytes == 0) return;
      const cuda::CurrentDevice current(stream->device());
      void* data = nullptr;
      cuda::check(cudaMallocAsync(&data, bytes, stream->get()), "memory");
      count->add(bytes);
      data_ = {static_cast<std::byte*>(data), {stream, std::move(count), bytes}};
      cuda::check(cudaMemsetAsync(data, 0, bytes, stream->get()), "memory");
    }

    std::byte* data() const { return data_.get(); }  ///< device address
    std::size_t bytes() const { return bytes_; }

    /// Copies the first `bytes` to the host.
    std::vector<std::byte> contents(std::size_t bytes) const {
      std::vector<std::byte> copy(bytes);
      if (bytes == 0) return copy;
      cuda::DeviceStream& stream = *data_.get_deleter().stream;
      stream.flush();
      cuda::check(cudaMemcpyAsync(copy.data(), data(), bytes, cudaMemcpyDeviceToHost, stream.get()), "memory");
      stream.wait();
      return copy;
    }

   private:
    struct FreeInOrder {
      std::shared_ptr<cuda::DeviceStream> stream;
      std::shared_ptr<MemoryCount> count;
      std::size_t bytes;
      void operator()(std::byte* data) const {
        stream->flush_quietly();
        cudaFreeAsync(data, stream->get());
        count->remove(bytes);
      }
    };
    std::unique_ptr<std::byte, FreeInOrder> data_;
    std::size_t bytes_ = 0;
  };

  /// Throws Error (unsupported) if there is no such device.
  explicit Cuda(CudaOptions options = {}) : index_(checked(options.index)) {
    stream_ = std::make_shared<cuda::DeviceStream>(index_, options.graphs);
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    pool_ = std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : std::max(1, cores));
    processors_ = cuda::attribute(cudaDevAttrMultiProcessorCount, index_);
    block_bytes_ = cuda::attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index_);
    processor_bytes_ = cuda::attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, index_);
    // Freed memory stays with the process. Otherwise every step that grows would ask the system again.
    cudaMemPool_t memory_pool = nullptr;
    cuda::check(cudaDeviceGetDefaultMemPool(&memory_pool, index_), "memory pool");
    std::uint64_t keep = ~std::uint64_t{0};
    cuda::check(cudaMemPoolSetAttribute(memory_pool, cudaMemPoolAttrReleaseThreshold, &keep), "memory pool");
  }

  /// Zeroed device memory, in the stream's order. Throws Error (capacity) if there is too little.
  Memory allocate(std::size_t bytes) { return {stream_, memory_, bytes}; }
  /// Memory allocated here. Kernel code, graphs and CUDA's own context are not counted.
  MemoryUse memory_use() const { return memory_->use(); }
  /// Waits for everything that was launched.
  void synchronize() { stream_->wait(); }
  void flush() { stream_->flush(); }  ///< starts all launches now

  /// Index of the device, as CUDA counts them.
  int index() const { return index_; }
  /// Number of streaming multiprocessors.
  int processors() const { return processors_; }
  /// Blocks with this much shared memory, all of their use included, that a processor holds at once; at most two.
  int blocks_that_fit(int bytes) const { return bytes > block_bytes_ ? 0 : 2 * bytes > processor_bytes_ ? 1 : 2; }
  int block_bytes() const { return block_bytes_; }  ///< most shared memory of a block
  /// 10 times the compute capability: 90 on Hopper.
  std::uint64_t architecture() const { return static_cast<std::uint64_t>(stream_->architecture()); }
  /// Number of steps that were one graph launch.
  std::uint64_t graph_launches() const { return stream_->graph_launches(); }
  /// For your own work, after everything that was launched before.
  cudaStream_t stream() const {
    stream_->flush();
    return stream_->get();
  }
  /// Threads of the host, for loading and for draws on the host.
  ThreadPool& pool() { return *pool_; }
  int threads() const { return pool_->threads(); }

  /// Uploads what body(host) writes, after everything that was launched before. Bytes that it does not write become 0.
  template <class Body>
  void fill(std::span<std::byte> to, Body&& body) {
    std::vector<std::byte> host(to.size());
    body(std::span<std::byte>(host));
    if (to.empty()) return;
    stream_->flush();
    const cuda::CurrentDevice current(index_);
    cuda::check(cudaMemcpyAsync(to.data(), host.data(), host.size(), cudaMemcpyHostToDevice, stream_->get()),
                "copy to the device");
    cuda::check(cudaStreamSynchronize(stream_->get()), "copy to the device");
  }

  /// Copies a few host values for kernels of this step and returns their device address. All values of a step go up in
  /// one copy, before those kernels.
  template <class T>
  const T* put(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (values.empty()) return nullptr;
    return reinterpret_cast<const T*>(stream_->put(values.data(), values.size_bytes()));
  }

  /// Begins a step: values put for the previous step are gone. The previous step may still run; the one before it has
  /// ended. prompt_rows: rows beyond one per sequence. With many, kernels start while the host adds others.
  void begin_step(int prompt_rows = 0) { stream_->begin_step(prompt_rows >= cuda::kCudaTuning.prompt_rows); }

  /// Waits for everything launched before and copies device values to the host. Valid until the next call.
  template <class T>
  const T* fetch(const T* from, std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes == 0) return nullptr;
    const cuda::CurrentDevice current(index_);
    fetched_.grow(bytes);
    if (bytes <= cuda::kCudaTuning.kernel_copy_bytes && bytes % sizeof(unsigned) == 0 &&
        alignof(T) % sizeof(unsigned) == 0) {
      launch_early("copy to the host", cuda::copy_kernel<unsigned>, dim3(cuda::kCopyBlocks), cuda::kCopyThreads, 0,
                   reinterpret_cast<const unsigned*>(from), reinterpret_cast<unsigned*>(fetched_.data()),
                   static_cast<unsigned>(bytes / sizeof(unsigned)));
    } else {
      stream_->flush();
      cuda::check(cudaMemcpyAsync(fetched_.data(), from, bytes, cudaMemcpyDeviceToHost, stream_->get()),
                  "copy to the host");
    }
    stream_->wait();
    return reinterpret_cast<const T*>(fetched_.data());
  }

  /// Like fetch, without waiting. Values and errors arrive by `to`.
  template <class T>
  void fetch_later(const T* from, std::size_t count, Later& to) {
    stream_->flush();
    const cuda::CurrentDevice current(index_);
    std::byte* const there = to.reserve(count * sizeof(T));
    if (count > 0)
      cuda::check(cudaMemcpyAsync(there, from, count * sizeof(T), cudaMemcpyDeviceToHost, stream_->get()),
                  "copy to the host");
    to.expect(stream_->mark());
  }

  /// Memory in which kernels of this step write `count` values for the host, without a copy. arrive(to) follows the
  /// kernels.
  template <class T>
  T* arrivals(std::size_t count, Later& to) {
    static_assert(std::is_trivially_copyable_v<T>);
    const cuda::CurrentDevice current(index_);
    return reinterpret_cast<T*>(to.reserve(count * sizeof(T)));
  }
  /// Lets `to` expect the values that kernels launched so far write.
  void arrive(Later& to) { to.expect(stream_->mark()); }

  /// Memory for one op, valid until the next call with the same `use`; it grows to the largest request.
  float* scratch(std::size_t floats, cuda::ScratchUse use = cuda::ScratchUse::op) {
    Memory& memory = scratch_[static_cast<std::size_t>(use)];
    if (floats * sizeof(float) > memory.bytes())
      memory = allocate(std::max(floats * sizeof(float), memory.bytes() * 3 / 2));
    return reinterpret_cast<float*>(memory.data());
  }

  /// An object that an op keeps with the device. Made on first use: T(*this).
  template <class T>
  T& kept() {
    std::shared_ptr<void>& slot = kept_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>(*this);
    return *static_cast<T*>(slot.get());
  }

  /// Adds kernel<<<blocks, threads, shared bytes>>>(arguments...) after all earlier launches; a grid without blocks
  /// adds nothing. It starts with the launches around it, when a caller waits.
  template <class... Parameters, class... Arguments>
  void launch(const char* what, void (*kernel)(Parameters...), dim3 blocks, int threads, std::size_t shared,
              Arguments&&... arguments) {
    add<Parameters...>(
        {reinterpret_cast<const void*>(kernel), what, blocks, static_cast<unsigned>(threads), shared, false},
        std::forward<Arguments>(arguments)...);
  }
  /// Like launch, for a kernel that calls wait_for_earlier(): the device may prepare it while earlier kernels run.
  template <class... Parameters, class... Arguments>
  void launch_early(const char* what, void (*kernel)(Parameters...), dim3 blocks, int threads, std::size_t shared,
                    Arguments&&... arguments) {
    add<Parameters...>(
        {reinterpret_cast<const void*>(kernel), what, blocks, static_cast<unsigned>(threads), shared, true},
        std::forward<Arguments>(arguments)...);
  }

 private:
  template <class... Parameters, class... Arguments>
  void add(const cuda::Launch& launch, Arguments&&... arguments) {
    if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0) return;
    stream_->add(launch, static_cast<Parameters>(std::forward<Arguments>(arguments))...);
  }

  static int checked(int index) {
    const int count = cuda::device_count();
    if (count == 0)
      throw Error(Error::Kind::unsupported, "device", "there is no CUDA device, or no driver, on this machine");
    if (index < 0 || index >= count) {
      throw Error(Error::Kind::unsupported, "device",
                  "there is no CUDA device " + std::to_string(index) + "; there are " + std::to_string(count));
    }
    return index;
  }

  int index_;
  int processors_ = 0;
  int block_bytes_ = 0, processor_bytes_ = 0;   // most shared memory
  std::shared_ptr<cuda::DeviceStream> stream_;  // memory that outlives this device is freed on it
  std::shared_ptr<MemoryCount> memory_ = std::make_shared<MemoryCount>();
  std::unique_ptr<ThreadPool> pool_;
  cuda::Pinned fetched_;
  std::array<Memory, 2> scratch_;  // by use
  std::unordered_map<std::type_index, std::shared_ptr<void>> kept_;
};
static_assert(DevicePolicy<Cuda>);

}  // namespace tenon
