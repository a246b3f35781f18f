#pragma once
#include <sys/mman.h>

#include <utility>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/device/cpu.h"

namespace tenon {

TENON_INLINE Isa best_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("bmi2")) {
    return Isa::avx512;
  }
  // Not every compiler knows F16C by name.
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c) return Isa::avx2;
#elif defined(__aarch64__)
  return Isa::neon;
#endif
  return Isa::portable;
}

TENON_INLINE bool is_amd_family_19h() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amdfam19h") != 0;
#else
  return false;
#endif
}

TENON_INLINE bool is_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

TENON_INLINE Cpu::Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  mapped_bytes_ = bytes + kHugePage + kPlaces * kPage;
  if (mapped_bytes_ < bytes) throw Error(Error::Kind::capacity, "memory", "a size of 2^64 bytes or more was asked for");
  mapped_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

TENON_INLINE Cpu::Memory::~Memory() {
  if (mapped_) ::munmap(mapped_, mapped_bytes_);
}

TENON_INLINE Cpu::Memory& Cpu::Memory::operator=(Memory&& other) noexcept {
  Memory(std::move(other)).swap(*this);
  return *this;
}

TENON_INLINE std::size_t Cpu::Memory::place_of(std::uintptr_t n) {
  return static_cast<std::uint64_t>(n) * 0x9e3779b97f4a7c15u >> (64 - kPlaceBits);
}

TENON_INLINE void Cpu::Memory::swap(Memory& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

TENON_INLINE Cpu::Cpu(CpuOptions options)
    : isa_(options.isa), pool_(std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : all_cores())) {
  if (!has_isa(isa_)) {
    throw Error(Error::Kind::unsupported, "isa", std::string("this processor has no ") + to_string(isa_));
  }
}

TENON_INLINE float* Cpu::scratch(std::size_t floats, Scratch which) {
  Memory& memory = scratch_[static_cast<std::size_t>(which)];
  if (floats * sizeof(float) > memory.bytes())
    memory = Memory(std::max(floats * sizeof(float), memory.bytes() * 3 / 2));
  return reinterpret_cast<float*>(memory.data());
}

}  // namespace tenon
