// The CPU as a device: its memory and its options.
#include <boost/test/unit_test.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/device/cpu.h"

BOOST_AUTO_TEST_SUITE(device_cpu)

using namespace tenon;

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20, kPage = 4096;

bool is_zero(const Cpu::Memory& memory) {
  return std::all_of(memory.data(), memory.data() + memory.bytes(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(memory_is_aligned_zeroed_and_as_large_as_asked) {
  Cpu device({.threads = 1});
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, std::size_t{4096}, kHugePage - 1, kHugePage,
                                  kHugePage + 1, 3 * kHugePage + 5}) {
    const Cpu::Memory memory = device.allocate(bytes);
    BOOST_TEST(memory.bytes() == bytes);
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(memory.data()) % kPage == 0);
    BOOST_TEST(is_zero(memory));
    std::memset(memory.data(), 0x5a, bytes);  // to the last byte
  }
  BOOST_TEST(is_zero(device.allocate(kHugePage)));  // not what another buffer has left
}

BOOST_AUTO_TEST_CASE(buffers_of_equal_size_begin_at_different_places_of_a_cache) {
  constexpr std::size_t kPlaces = 32, kBuffers = 64;
  for (const std::size_t bytes : {std::size_t{100}, kHugePage, kHugePage + kHugePage / 8}) {
    std::vector<Cpu::Memory> all;
    std::array<std::size_t, kPlaces> at{};
    for (std::size_t i = 0; i < kBuffers; ++i) {
      all.emplace_back(bytes);
      ++at[reinterpret_cast<std::uintptr_t>(all.back().data()) / kPage % kPlaces];
    }
    // An even spread has two each; the system chooses the places. Without offsets, all 64 would be equal.
    BOOST_TEST(*std::max_element(at.begin(), at.end()) <= kBuffers / 4);
  }
}

BOOST_AUTO_TEST_CASE(no_bytes_are_no_memory) {
  const Cpu::Memory none, zero(0);
  BOOST_TEST(!none.data());
  BOOST_TEST(!zero.data());
  BOOST_TEST(zero.bytes() == 0);
}

BOOST_AUTO_TEST_CASE(memory_moves_and_is_not_copied) {
  static_assert(!std::is_copy_constructible_v<Cpu::Memory> && !std::is_copy_assignable_v<Cpu::Memory>);
  static_assert(std::is_nothrow_move_constructible_v<Cpu::Memory> && std::is_nothrow_move_assignable_v<Cpu::Memory>);
  Cpu::Memory first(100), other(kHugePage);
  first.data()[99] = std::byte{7};
  const std::byte* const at = first.data();
  Cpu::Memory second(std::move(first));
  BOOST_TEST(second.data() == at);
  BOOST_TEST((second.bytes() == 100 && second.data()[99] == std::byte{7}));
  BOOST_TEST((!first.data() && first.bytes() == 0));
  other = std::move(second);  // its old memory is unmapped; LeakSanitizer does not see mmap, the next test does
  BOOST_TEST(other.data() == at);
  BOOST_TEST((!second.data() && second.bytes() == 0));
  Cpu::Memory& self = other;
  other = std::move(self);
  BOOST_TEST((other.data() == at && other.data()[99] == std::byte{7}));
}

BOOST_AUTO_TEST_CASE(memory_is_given_back) {
  // 192 TiB of address space in all: more than a process has, unless each is unmapped.
  for (int i = 0; i < 4096; ++i) {
    Cpu::Memory memory(std::size_t{16} << 30);
    memory = Cpu::Memory(std::size_t{16} << 30);
    Cpu::Memory moved(std::move(memory));
  }
  BOOST_TEST(true);
}

BOOST_AUTO_TEST_CASE(too_much_memory_is_an_error_of_capacity) {
  for (const std::size_t bytes : {std::numeric_limits<std::size_t>::max(),
                                  std::numeric_limits<std::size_t>::max() - kHugePage, std::size_t{1} << 60}) {
    BOOST_CHECK_EXCEPTION(Cpu::Memory{bytes}, Error, [](const Error& e) { return e.kind() == Error::Kind::capacity; });
  }
}

BOOST_AUTO_TEST_CASE(an_instruction_set_that_the_machine_lacks_is_refused) {
  int refused = 0;
  for (const Isa isa : kIsas) {
    if (has_isa(isa)) {
      BOOST_TEST((Cpu({.threads = 1, .isa = isa}).isa() == isa));
    } else {
      ++refused;
      BOOST_CHECK_EXCEPTION(Cpu({.threads = 1, .isa = isa}), Error, [&](const Error& e) {
        return e.kind() == Error::Kind::unsupported && std::string(e.what()).find(to_string(isa)) != std::string::npos;
      });
    }
  }
  BOOST_TEST(refused > 0);  // no processor has NEON and AVX2
}

BOOST_AUTO_TEST_CASE(instruction_sets_have_names) {
  BOOST_TEST(std::string(to_string(Isa::portable)) == "portable");
  BOOST_TEST(std::string(to_string(Isa::neon)) == "neon");
  BOOST_TEST(std::string(to_string(Isa::avx2)) == "avx2");
  BOOST_TEST(std::string(to_string(Isa::avx512)) == "avx512");
}

BOOST_AUTO_TEST_CASE(threads_are_as_many_as_asked_or_as_there_are) {
  BOOST_TEST(Cpu({.threads = 3}).threads() == 3);
  BOOST_TEST(Cpu({.threads = 1}).threads() == 1);
  BOOST_TEST(Cpu{}.threads() >= 1);
  BOOST_TEST(Cpu({.threads = -5}).threads() == Cpu{}.threads());
}

BOOST_AUTO_TEST_CASE(scratch_grows_and_never_shrinks) {
  Cpu device({.threads = 1});
  float* small = device.scratch(100);
  BOOST_TEST(reinterpret_cast<std::uintptr_t>(small) % 64 == 0);
  small[99] = 1;
  float* large = device.scratch(1 << 20);
  std::fill(large, large + (1 << 20), 2.0f);
  BOOST_TEST(device.scratch(50) == large);  // no new memory for less
  BOOST_TEST(device.scratch(1 << 20) == large);
}

BOOST_AUTO_TEST_CASE(a_device_moves_with_its_threads) {
  Cpu device({.threads = 2});
  Cpu moved(std::move(device));
  std::atomic<int> calls{0};
  moved.pool().run([&](int) { ++calls; });
  BOOST_TEST(calls == 2);
}

// More threads than the system allows: an exception that a caller can catch, not the end of the program. Runs in a
// child with a small address space; sanitizers need theirs.
BOOST_AUTO_TEST_CASE(too_many_threads_are_an_error) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::printf("skipped: too_many_threads_are_an_error, for a sanitizer needs its address space\n");
#else
  std::fflush(nullptr);
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGABRT, SIG_DFL);
    const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};  // room for some 100 stacks of 8 MiB
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      Cpu device({.threads = 100'000});
    } catch (const Error& e) {
      ::_exit(e.kind() == Error::Kind::capacity ? 0 : 2);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_TEST(WIFEXITED(status), "the program was ended by signal " << WTERMSIG(status));
  BOOST_TEST(WEXITSTATUS(status) == 0);
#endif
}

BOOST_AUTO_TEST_SUITE_END()
