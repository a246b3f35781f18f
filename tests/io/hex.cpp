// Hexadecimal digits: against their definition, both ways.
#include <boost/test/unit_test.hpp>

#include "tenon/io/hex.h"

BOOST_AUTO_TEST_SUITE(io_hex)

using namespace tenon;

BOOST_AUTO_TEST_CASE(of_values) {
  BOOST_TEST(hex_of(0, 1) == "0");
  BOOST_TEST(hex_of(0x1f, 4) == "001f");
  BOOST_TEST(hex_of(0xfedcba9876543210u, 16) == "fedcba9876543210");
  BOOST_TEST(hex_of(0xfedcba9876543210u, 3) == "210");  // the last digits
  BOOST_TEST(hex_of(7, 0) == "");
}

BOOST_AUTO_TEST_CASE(of_bytes_and_back) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
    BOOST_TEST(hex_of(std::string_view(all).substr(static_cast<std::size_t>(byte))) ==
               hex_of(static_cast<std::uint64_t>(byte), 2));
  }
  BOOST_TEST(hex_of(all).size() == 512u);
  BOOST_TEST((bytes_of_hex(hex_of(all)) == all));
  BOOST_TEST((bytes_of_hex("") == ""));
}

BOOST_AUTO_TEST_CASE(what_is_no_hexadecimal_is_not_read) {
  for (const char* text : {"0", "abc", "0g", "A0", "0F", " 0", "0x", "--"}) BOOST_TEST(!bytes_of_hex(text), text);
}

BOOST_AUTO_TEST_SUITE_END()
