// The CPU as a device: threads, memory on huge pages, and the instruction set that selects kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "tenon/core/concepts.h"
#include "tenon/core/kv_prefetch.h"
#include "tenon/device/thread_pool.h"

namespace tenon {

/// Instruction sets. All compute the same bits and differ in speed alone. NEON is that of 64-bit Arm processors, AVX2
/// and AVX-512 are those of x86-64; `portable` is plain C++.
enum class Isa { portable, neon, avx2, avx512 };
inline constexpr std::array kIsas{Isa::portable, Isa::neon, Isa::avx2, Isa::avx512};

inline const char* to_string(Isa isa) {
  switch (isa) {
    case Isa::neon:
      return "neon";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::portable:
      break;
  }
  return "portable";
}

/// The fastest instruction set of this processor.
Isa best_isa();

/// Whether this processor has the instruction set.
inline bool has_isa(Isa isa) {
  const Isa best = best_isa();
  return isa == Isa::portable || isa == best || (isa == Isa::avx2 && best == Isa::avx512);
}

/// AMD's family 19h: Zen 3 and Zen 4.
bool is_amd_family_19h();

/// Any processor of Intel's.
bool is_intel();

/// Options of Cpu.
struct CpuOptions {
  int threads = 0;  ///< 0: all cores that the process may use
  /// Kernels of this set; Cpu throws Error (unsupported) if the processor lacks it.
  Isa isa = best_isa();
};

/// The CPU as a device (DevicePolicy). It owns its threads and scratch memory. One thread uses it at a time.
class Cpu {
 public:
  static constexpr std::string_view name = "cpu";
  static constexpr NumericClass<Cpu> numeric_class{"exact"};
  using Options = CpuOptions;
  static constexpr bool convolves_positions = true;  ///< ConvolvesPositions

  /// Zeroed memory that begins at a page of 4 KiB, on huge pages where the system has them. Pages that are never
  /// touched cost nothing.
  class Memory {
   public:
    Memory() = default;
    /// Throws Error (capacity) if the system refuses the address range.
    explicit Memory(std::size_t bytes);
    ~Memory();
    Memory(Memory&& other) noexcept { swap(other); }
    Memory& operator=(Memory&& other) noexcept;

    std::byte* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    /// The first `bytes` bytes.
    std::span<const std::byte> contents(std::size_t bytes) const { return {data_, bytes}; }

   private:
    static constexpr std::size_t kHugePage = std::size_t{2} << 20, kPage = 4096;
    // A buffer begins at one of this many pages after a huge page boundary: as many as one way of an L2 holds. If all
    // began at the boundary, equal offsets in many buffers would share few cache sets, such as one layer's factors of
    // every adapter (docs/decisions/0017).
    static constexpr int kPlaceBits = 5;
    static constexpr std::size_t kPlaces = std::size_t{1} << kPlaceBits;
    // Page offset of the n-th huge page. Neighbours, and most pages at equal distances, get different offsets
    // (multiplicative hashing; Knuth, volume 3, 6.4).
    static std::size_t place_of(std::uintptr_t n);
    void swap(Memory& other) noexcept;
    void* mapped_ = nullptr;
    std::size_t mapped_bytes_ = 0;
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
  };

  explicit Cpu(CpuOptions options = {});

  /// Zeroed memory.
  Memory allocate(std::size_t bytes) { return Memory(bytes); }
  void synchronize() {}

  /// The device reads the host's memory, so these move nothing.
  template <class Body>
  void fill(std::span<std::byte> to, Body&& body) {
    body(to);
  }
  /// Drops a pending hint: what it refers to may be gone.
  void begin_step() { kv_prefetch_.reset(); }
  template <class T>
  const T* put(std::span<const T> values) {
    return values.data();
  }
  template <class T>
  const T* fetch(const T* from, std::size_t) {
    return from;
  }

  /// Keys and values that are read after the next product, which prefetches them if arithmetic bounds it
  /// (ops/cpu/kv_prefetch.h). The hint stays pending until that product takes it.
  void will_read(const KvPrefetchHint& hint) { kv_prefetch_ = hint; }
  /// The pending hint. Each product takes it, whether or not it prefetches.
  std::optional<KvPrefetchHint> take_kv_prefetch() { return std::exchange(kv_prefetch_, std::nullopt); }

  Isa isa() const { return isa_; }
  int threads() const { return pool_->threads(); }
  /// The threads that ops share their work among.
  ThreadPool& pool() { return *pool_; }

  /// Memory for one op, valid until the next call with the same `which`; it grows to the largest request. A product
  /// that also makes the LoRA updates of its rows has memory of its own for them.
  enum class Scratch { op, updates };
  float* scratch(std::size_t floats, Scratch which = Scratch::op);

 private:
  static int all_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

  Isa isa_;
  std::unique_ptr<ThreadPool> pool_;
  Memory scratch_[2];
  std::optional<KvPrefetchHint> kv_prefetch_;  // of the next product
};
static_assert(DevicePolicy<Cpu> && PrefetchesKv<Cpu>);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/device/cpu-inl.h"
#endif
