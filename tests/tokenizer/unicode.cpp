#include "tenon/tokenizer/unicode.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "fixtures.h"

BOOST_AUTO_TEST_SUITE(tokenizer_unicode)

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_code_point_is_decoded) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    fixtures::append(bytes, c);
    const tenon::CodePoint point = tenon::decode_utf8(bytes, 0);
    BOOST_REQUIRE(point.status == tenon::Utf8Status::valid);
    BOOST_REQUIRE_EQUAL(static_cast<std::uint32_t>(point.value), static_cast<std::uint32_t>(c));
    BOOST_REQUIRE_EQUAL(point.length, static_cast<int>(bytes.size()));
    BOOST_REQUIRE_EQUAL(tenon::sanitize_utf8(bytes), bytes);
    // Every proper prefix is an incomplete character.
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const tenon::CodePoint half = tenon::decode_utf8(std::string_view(bytes).substr(0, cut), 0);
      BOOST_REQUIRE(half.status == tenon::Utf8Status::incomplete);
      BOOST_REQUIRE_EQUAL(half.length, static_cast<int>(cut));
    }
  }
}

// The Unicode Standard 15.0, section 3.9, tables 3-8 to 3-11.
BOOST_AUTO_TEST_CASE(maximal_subparts_become_one_replacement_each) {
  const std::string r(kReplacement);
  BOOST_TEST(tenon::sanitize_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                                  "A") == repeat(r, 8) + "A");
  BOOST_TEST(tenon::sanitize_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                                  "A") == repeat(r, 8) + "A");
  BOOST_TEST(tenon::sanitize_utf8("\xF4\x91\x92\x93\xFF"
                                  "A\x80\xBF"
                                  "B") == repeat(r, 5) + "A" + repeat(r, 2) + "B");
  BOOST_TEST(tenon::sanitize_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                                  "A") == repeat(r, 4) + "A");
  BOOST_TEST(tenon::sanitize_utf8("a\xF0\x9F\x98") == "a" + r);
  BOOST_TEST(tenon::sanitize_utf8("") == "");
}

BOOST_AUTO_TEST_CASE(invalid_bytes_are_found) {
  BOOST_TEST(tenon::find_invalid_utf8("plain") == std::string_view::npos);
  BOOST_TEST(tenon::find_invalid_utf8("ab\xFF") == 2u);
  BOOST_TEST(tenon::find_invalid_utf8("caf\xC3") == 3u);           // incomplete at the end
  BOOST_TEST(tenon::find_invalid_utf8("\xED\xA0\x80") == 0u);      // a surrogate
  BOOST_TEST(tenon::find_invalid_utf8("a\xC1\x81") == 1u);         // overlong
  BOOST_TEST(tenon::find_invalid_utf8("\xF4\x90\x80\x80") == 0u);  // past U+10FFFF
  BOOST_TEST(tenon::find_invalid_utf8(std::string_view("a\0b", 3)) == std::string_view::npos);
}

BOOST_AUTO_TEST_CASE(sanitized_text_is_valid_and_stable) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    for (std::uint32_t i = fixtures::pick(random, 12); i > 0; --i)
      bytes += static_cast<char>(fixtures::pick(random, 3) == 0 ? fixtures::pick(random, 256)
                                                                : 0x80 + fixtures::pick(random, 128));
    const std::string clean = tenon::sanitize_utf8(bytes);
    BOOST_REQUIRE_EQUAL(tenon::find_invalid_utf8(clean), std::string_view::npos);
    BOOST_REQUIRE_EQUAL(tenon::sanitize_utf8(clean), clean);
    if (tenon::find_invalid_utf8(bytes) == std::string_view::npos) BOOST_REQUIRE_EQUAL(clean, bytes);
  }
}

// PropList.txt of Unicode 15.0, White_Space.
BOOST_AUTO_TEST_CASE(spaces_are_the_property_white_space) {
  const std::set<char32_t> expected = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,   0xA0,   0x1680,
                                       0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                       0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  std::set<char32_t> found;
  for (char32_t c = 0; c < 0x110000; ++c)
    if (tenon::char_class(c) == tenon::CharClass::space) found.insert(c);
  BOOST_TEST((found == expected));
}

BOOST_AUTO_TEST_CASE(letters_and_numbers_are_general_categories) {
  using tenon::CharClass;
  const auto is = [](CharClass kind, std::u32string_view all) {
    for (const char32_t c : all)
      BOOST_TEST((tenon::char_class(c) == kind), "U+" << std::hex << static_cast<std::uint32_t>(c));
  };
  // Lu Ll Lt Lm Lo: one or more of each, from several scripts
  is(CharClass::letter, U"AZaz\u00AA\u00B5\u00C9\u01C5\u02B0\u05D0\u0416\u0E01\u3042\u4E2D\uAC00\U00020000\U0001D454");
  // Nd Nl No
  is(CharClass::number, U"09\u00B2\u00BC\u0663\u0967\u2167\u2460\u3007\uFF11\U0001D7CE");
  // Unicode 15.1 and 16, which utf8proc 2.8 does not know
  is(CharClass::letter, U"\u1C89\u1C8A\uA7CB\uA7DC\U000105C0\U00011380\U0001E5F0\U0002EBF0\U0002EE5D");
  is(CharClass::number, U"\U00010D40\U00010D49\U0001CCF9\U0001E5F1\U0001E5FA");
  is(CharClass::other, U"\u1C8B\U0001138A\U0001E5CF\U0001E5FB\U0002EE5E\U00010D66");
  // marks, signs, joiners, controls, unassigned, private use
  is(CharClass::other,
     U"_'.\u0301\u0E31\u200D\u20AC\u00D7\u001C\u180E\u200B\uFEFF\u0378\U0001D455\U0001D7CD\uE000\U0001F600\U0010FFFF");
}

// The shortcut for ASCII must agree with utf8proc.
BOOST_AUTO_TEST_CASE(ascii_agrees_with_utf8proc) {
  for (char32_t c = 0; c < 0x80; ++c) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    const bool number = category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
    BOOST_TEST((tenon::char_class(c) == tenon::CharClass::letter) == letter);
    BOOST_TEST((tenon::char_class(c) == tenon::CharClass::number) == number);
  }
}

BOOST_AUTO_TEST_SUITE_END()
