// The CPU as a device: threads, memory on huge pages, and the instruction set that kernels are chosen by.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"
#include "tenon/device/thread_pool.h"

namespace tenon {

// All of them compute the same bits; they differ in speed only.
enum class Isa { portable, avx2, avx512 };

inline const char* to_string(Isa isa) { return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "portable"; }

inline Isa best_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("bmi2")) {
    return Isa::avx512;
  }
  // Not every compiler knows F16C by name.
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c) return Isa::avx2;
#endif
  return Isa::portable;
}

// Zen 4, or 3: of kernels that have the same bits, some are faster there alone, where vector units take 512 bits in two
// turns.
inline bool is_zen4() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amdfam19h") != 0;
#else
  return false;
#endif
}

inline bool is_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

struct CpuOptions {
  int threads = 0;  // 0: all cores that the process may use
  Isa isa = best_isa();
};

class Cpu {
 public:
  static constexpr std::string_view name = "cpu";
  static constexpr bool asks_for_kv = true;  // linear() reads LinearArgs::soon
  using Options = CpuOptions;

  // Zeroed, begun with a page of 4 KiB, on huge pages where the system has them; pages that nobody touches cost
  // nothing.
  class Memory {
   public:
    Memory() = default;
    explicit Memory(std::size_t bytes) : bytes_(bytes) {
      if (bytes == 0) return;
      mapped_bytes_ = bytes + kHugePage + kPlaces * kPage;
      if (mapped_bytes_ < bytes)
        throw Error(Error::Kind::capacity, "memory", "a size of 2^64 bytes or more was asked for");
      mapped_ =
          ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (mapped_ == MAP_FAILED) {
        mapped_ = nullptr;
        throw Error(Error::Kind::capacity, "memory", "the system refused " + std::to_string(bytes) + " bytes");
      }
      const auto address = reinterpret_cast<std::uintptr_t>(mapped_);
      const std::uintptr_t huge = (address + kHugePage - 1) / kHugePage;
      auto* const first = reinterpret_cast<std::byte*>(huge * kHugePage);
      data_ = first + place_of(huge) * kPage;
      // A small buffer on a huge page would cost 2 MiB of memory for a few KiB of use.
      if (bytes >= kHugePage)
        ::madvise(first, static_cast<std::size_t>(data_ + bytes - first) / kHugePage * kHugePage, MADV_HUGEPAGE);
    }
    ~Memory() {
      if (mapped_) ::munmap(mapped_, mapped_bytes_);
    }
    Memory(Memory&& other) noexcept { swap(other); }
    Memory& operator=(Memory&& other) noexcept {
      Memory(std::move(other)).swap(*this);
      return *this;
    }

    std::byte* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    std::span<const std::byte> contents(std::size_t bytes) const { return {data_, bytes}; }

   private:
    static constexpr std::size_t kHugePage = std::size_t{2} << 20, kPage = 4096;
    // Pages that a buffer may begin behind a huge one's: as many as a way of a core's second cache holds. Were all to
    // begin with one, then what lies at one place of each of many, say a layer's factors of as many adapters, would
    // share few sets of the caches (docs/decisions/0017).
    static constexpr int kPlaceBits = 5;
    static constexpr std::size_t kPlaces = std::size_t{1} << kPlaceBits;
    // Of the n-th huge page: neighbours, and most at equal distances, have different ones (multiplicative hashing;
    // Knuth, volume 3, 6.4).
    static std::size_t place_of(std::uintptr_t n) {
      return static_cast<std::uint64_t>(n) * 0x9e3779b97f4a7c15u >> (64 - kPlaceBits);
    }
    void swap(Memory& other) noexcept {
      std::swap(mapped_, other.mapped_);
      std::swap(mapped_bytes_, other.mapped_bytes_);
      std::swap(data_, other.data_);
      std::swap(bytes_, other.bytes_);
    }
    void* mapped_ = nullptr;
    std::size_t mapped_bytes_ = 0;
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
  };

  explicit Cpu(CpuOptions options = {})
      : isa_(options.isa), pool_(std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : all_cores())) {
    if (isa_ > best_isa()) {
      throw Error(Error::Kind::unsupported, "isa", std::string("this processor has no ") + to_string(isa_));
    }
  }

  Memory allocate(std::size_t bytes) { return Memory(bytes); }
  void synchronize() {}

  // Where the host's memory is the device's, nothing needs to move.
  template <class Body>
  void fill(std::span<std::byte> to, Body&& body) {
    body(to);
  }
  void begin_step() {}
  template <class T>
  const T* put(std::span<const T> values) {
    return values.data();
  }
  template <class T>
  const T* fetch(const T* from, std::size_t) {
    return from;
  }

  Isa isa() const { return isa_; }
  int threads() const { return pool_->threads(); }
  ThreadPool& pool() { return *pool_; }

  // Memory for one op's own use, gone at the next call for the same; grows to the largest ever asked for. A product
  // that makes the updates of its rows, too, has a memory for these.
  enum class Scratch { op, updates };
  float* scratch(std::size_t floats, Scratch which = Scratch::op) {
    Memory& memory = scratch_[static_cast<std::size_t>(which)];
    if (floats * sizeof(float) > memory.bytes())
      memory = Memory(std::max(floats * sizeof(float), memory.bytes() * 3 / 2));
    return reinterpret_cast<float*>(memory.data());
  }

 private:
  static int all_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

  Isa isa_;
  std::unique_ptr<ThreadPool> pool_;
  Memory scratch_[2];
};
static_assert(DevicePolicy<Cpu>);

}  // namespace tenon
