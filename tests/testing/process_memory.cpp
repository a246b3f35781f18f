// Resident memory grows with touched pages, and the peak stays until forget_peak().
#include "tenon/testing/process_memory.h"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include <sys/mman.h>

BOOST_AUTO_TEST_SUITE(testing_process_memory)

using namespace tenon;

BOOST_AUTO_TEST_CASE(pages_count_from_the_first_touch_until_they_are_unmapped) {
  constexpr std::size_t kBytes = 64'000'000;
  testing::forget_peak();
  const double before = testing::resident_megabytes();
  BOOST_TEST(before > 0);
  void* pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BOOST_REQUIRE(pages != MAP_FAILED);
  std::memset(pages, 1, kBytes);
  BOOST_TEST(testing::resident_megabytes() - before > 60);
  ::munmap(pages, kBytes);
  BOOST_TEST(testing::resident_megabytes() - before < 10);
  BOOST_TEST(testing::peak_megabytes() - before > 60);
  testing::forget_peak();
  BOOST_TEST(testing::peak_megabytes() - before < 10);
}

BOOST_AUTO_TEST_SUITE_END()
