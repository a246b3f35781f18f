#include "serve/ops/memory_reserve.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace serve {
namespace {

constexpr std::size_t kHalf =
    16 << 20;  // a body has 400,000 values of 16 bytes at most, and a vocabulary about as many

std::atomic<void*> for_retry{nullptr}, for_destructors{nullptr};

bool release(std::atomic<void*>& half) noexcept {
  void* const held = half.exchange(nullptr);
  std::free(held);
  return held != nullptr;
}

// From malloc: what was freed since memory ran out often stays with it, and mmap would not get it.
void hold(std::atomic<void*>& half) noexcept {
  if (half) return;
  void* const fresh = std::malloc(kHalf);
  void* none = nullptr;
  if (!half.compare_exchange_strong(none, fresh)) std::free(fresh);
}

// std::new_handler: to return is to try again.
void give_back() {
  if (release(for_retry)) return;
  release(for_destructors);
  throw std::bad_alloc();
}

}  // namespace

void hold_memory_reserve() noexcept {
  hold(for_destructors);
  hold(for_retry);
  if (std::get_new_handler() != give_back) std::set_new_handler(give_back);
}

}  // namespace serve
