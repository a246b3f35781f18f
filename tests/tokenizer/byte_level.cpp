#include "tenon/tokenizer/byte_level.h"

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

#include "fixtures.h"

BOOST_AUTO_TEST_SUITE(tokenizer_byte_level)

BOOST_AUTO_TEST_CASE(the_spelling_of_bytes_is_a_bijection) {
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string spelling = tenon::detail::spell_byte(static_cast<unsigned char>(byte));
    BOOST_TEST(seen.insert(spelling).second);
    BOOST_TEST(tenon::detail::unspell(spelling) == std::string(1, static_cast<char>(byte)));
  }
  BOOST_TEST(tenon::detail::spell_byte(' ') == "\u0120");
  BOOST_TEST(tenon::detail::spell_byte('\n') == "\u010A");
  BOOST_TEST(tenon::detail::spell_byte(0) == "\u0100");
  BOOST_TEST(tenon::detail::spell_byte(0xAD) == "\u0143");
  BOOST_TEST(tenon::detail::spell_byte('a') == "a");
  BOOST_TEST(tenon::detail::unspell("<a b>") == "<a b>");  // the space spells no byte, so the token is kept as it is
  BOOST_TEST(tenon::detail::unspell("\u4E2D") == "\u4E2D");
}

// Encodes every code point. The bytes that occur must be those of occurs_in_utf8.
BOOST_AUTO_TEST_CASE(bytes_of_utf8) {
  std::set<int> seen;
  for (std::uint32_t c = 0; c < 0x110000; c += c == 0xD7FF ? 0x801 : 1) {
    std::string bytes;
    fixtures::append(bytes, c);
    for (const char byte : bytes) seen.insert(static_cast<unsigned char>(byte));
  }
  for (int byte = 0; byte < 256; ++byte) BOOST_TEST(tenon::detail::occurs_in_utf8(byte) == seen.contains(byte));
}

BOOST_AUTO_TEST_SUITE_END()
