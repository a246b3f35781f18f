#include "tenon/core/hash.h"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

BOOST_AUTO_TEST_SUITE(core_hash)

using namespace tenon;

// Fingerprints must not change between builds, so the hashes must keep these values.
BOOST_AUTO_TEST_CASE(known_answers) {
  BOOST_TEST(mix64(0) == 0U);
  BOOST_TEST(mix64(0x9e3779b97f4a7c15U) == 0xe220a8397b1dcdafU);  // the first output of SplitMix64 with seed 0
  BOOST_TEST(hash64("") == hash64(std::string_view{}));
}

BOOST_AUTO_TEST_CASE(every_length_and_every_byte_counts) {
  std::set<std::uint64_t> seen;
  const std::string zeros(100, '\0');
  for (std::size_t n = 0; n <= zeros.size(); ++n) seen.insert(hash64(std::string_view(zeros).substr(0, n)));
  BOOST_TEST(seen.size() == 101U);
  for (std::size_t i = 0; i < zeros.size(); ++i) {
    std::string changed = zeros;
    changed[i] = 1;
    seen.insert(hash64(changed));
  }
  BOOST_TEST(seen.size() == 201U);
  BOOST_TEST(hash64("abc", 1) != hash64("abc", 2));
}

BOOST_AUTO_TEST_CASE(a_flipped_bit_flips_half_of_the_hash) {
  std::string text(64, 'x');
  const std::uint64_t before = hash64(text);
  int flipped = 0;
  for (std::size_t bit = 0; bit < 512; ++bit) {
    std::string other = text;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    flipped += std::popcount(hash64(other) ^ before);
  }
  // 512 trials of 64 fair bits: mean 16384, standard deviation 90.5; five of those either way.
  BOOST_TEST(flipped > 16384 - 453);
  BOOST_TEST(flipped < 16384 + 453);
}

BOOST_AUTO_TEST_SUITE_END()
