#include "tenon/tokenizer/normal_form.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>

#include "fixtures.h"

BOOST_AUTO_TEST_SUITE(tokenizer_normal_form)

namespace {

// A form by utf8proc, for texts up to the first NUL. Quadratic in runs of marks.
std::string peer(const std::string& text, utf8proc_uint8_t* (*form)(const utf8proc_uint8_t*) = utf8proc_NFC) {
  auto* const bytes = form(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  BOOST_REQUIRE(bytes != nullptr);
  std::string out(reinterpret_cast<const char*>(bytes));
  std::free(bytes);
  return out;
}

// Whether utf8proc orders or composes the character, and tokenizers, whose tables are older, does not.
bool is_newer(std::uint32_t c) {
  using namespace tenon::detail;
  return is_in(c, kNewCompatibility) || is_new_mark(static_cast<utf8proc_int32_t>(c)) || c == 0x11930 || c == 0x11938;
}

}  // namespace

// Unicode Standard Annex 15, figures 3 to 6.
BOOST_AUTO_TEST_CASE(examples_of_the_standard) {
  using tenon::to_nfc;
  BOOST_TEST(to_nfc("") == "");
  BOOST_TEST(to_nfc("plain \u00E9") == "plain \u00E9");
  BOOST_TEST(to_nfc("e\u0301") == "\u00E9");
  BOOST_TEST(to_nfc("\u212B \u2126") == "\u00C5 \u03A9");
  BOOST_TEST(to_nfc("A\u030A o\u0302") == "\u00C5 \u00F4");
  BOOST_TEST(to_nfc("\u1E69 s\u0323\u0307 s\u0307\u0323 \u1E0B\u0323 q\u0307\u0323") ==
             "\u1E69 \u1E69 \u1E69 \u1E0D\u0307 q\u0323\u0307");
  BOOST_TEST(to_nfc("\uFB01 2\u2075 \u0132") == "\uFB01 2\u2075 \u0132");  // compatibility characters stay
  BOOST_TEST(to_nfc("\u1112\u1161\u11AB \uD55C") == "\uD55C \uD55C");
  BOOST_TEST(to_nfc("\u0958 \u2ADC") == "\u0915\u093C \u2ADD\u0338");  // composition exclusions
  BOOST_TEST(to_nfc(std::string("a\0e\u0301", 5)) == std::string("a\0\u00E9", 4));
}

BOOST_AUTO_TEST_CASE(other_forms) {
  using tenon::NormalForm;
  using tenon::to_normal_form;
  BOOST_TEST(to_normal_form("\u00E9\uFB01", NormalForm::nfd) == "e\u0301\uFB01");
  BOOST_TEST(to_normal_form("e\u0301\uFB01 \u00B2", NormalForm::nfkc) == "\u00E9fi 2");
  BOOST_TEST(to_normal_form("\u00E9\uFB01", NormalForm::nfkd) == "e\u0301fi");
  BOOST_TEST(to_normal_form("\uFDFA", NormalForm::nfkd).size() == 33u);  // 18 characters
  BOOST_TEST(to_normal_form("\u1E69", NormalForm::nfd) == "s\u0323\u0307");
  // Newer than tokenizers' tables; the results are its own.
  BOOST_TEST(to_normal_form("\u32FF", NormalForm::nfkc) == "\u32FF");
  BOOST_TEST(to_normal_form("\u0C15\u0C4D\u0C3C", NormalForm::nfc) == "\u0C15\u0C4D\u0C3C");
  BOOST_TEST(to_normal_form("a\u0898\u0301", NormalForm::nfc) == "a\u0898\u0301");
  BOOST_TEST(to_normal_form("\U00011938", NormalForm::nfd) == "\U00011938");
  BOOST_TEST(to_normal_form("\U00011935\U00011930", NormalForm::nfc) == "\U00011935\U00011930");
}

BOOST_AUTO_TEST_CASE(every_code_point_in_every_form) {
  const std::pair<tenon::NormalForm, utf8proc_uint8_t* (*)(const utf8proc_uint8_t*)> forms[] = {
      {tenon::NormalForm::nfd, utf8proc_NFD},
      {tenon::NormalForm::nfkc, utf8proc_NFKC},
      {tenon::NormalForm::nfkd, utf8proc_NFKD}};
  for (const auto& [form, peer_form] : forms) {
    for (std::uint32_t c = 1; c < 0x110000; c += c == 0xD7FF ? 0x801 : 1) {
      if (is_newer(c)) continue;
      std::string text = "a";
      fixtures::append(text, c);
      BOOST_REQUIRE_EQUAL(tenon::to_normal_form(text, form), peer(text, peer_form));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_code_point_as_utf8proc_has_it) {
  for (std::uint32_t c = 1; c < 0x110000; c += c == 0xD7FF ? 0x801 : 1) {
    if (is_newer(c)) continue;
    for (const char* const before : {"", "a", "\u0327", "\u1100"}) {
      std::string text = before;
      fixtures::append(text, c);
      BOOST_REQUIRE_EQUAL(tenon::to_nfc(text), peer(text));
    }
  }
}

BOOST_AUTO_TEST_CASE(random_marks_as_utf8proc_has_them_and_twice_is_once) {
  std::mt19937 random(13);
  constexpr std::uint32_t marks[] = {0x300,  0x301,  0x304, 0x308,  0x323, 0x327,  0x338,  0x340, 0x344, 0xF71, 0xF73,
                                     0xF75,  0x5B0,  0x64B, 0x93C,  0x94D, 0x1161, 0x11A8, 'a',   'o',   's',   ' ',
                                     0x1100, 0xAC00, 0xE9,  0x1E69, 0xDCF, 0xDCA,  0xDD9,  0x9C7, 0x9BE, 0x1112};
  for (int round = 0; round < 100'000; ++round) {
    std::string text;
    for (std::uint32_t i = fixtures::pick(random, 10); i > 0; --i) {
      const std::uint32_t any = std::max(1u, fixtures::random_code_point(random));
      fixtures::append(text, fixtures::pick(random, 12) == 0 && !is_newer(any)
                                 ? any
                                 : marks[fixtures::pick(random, std::size(marks))]);
    }
    const std::string normal = tenon::to_nfc(text);
    BOOST_REQUIRE_EQUAL(normal, peer(text));
    BOOST_REQUIRE_EQUAL(tenon::to_nfc(normal), normal);
  }
}

// Marks in the worst order. Exchanging neighbours would take 10^12 steps.
BOOST_AUTO_TEST_CASE(a_long_run_of_marks_ends) {
  std::string text = "a";
  for (int i = 0; i < 500'000; ++i) text += "\u0301\u0323";
  const std::string normal = tenon::to_nfc(text);
  BOOST_TEST(normal.starts_with("\u1EA1\u0323\u0323"));
  BOOST_TEST(normal.ends_with("\u0301\u0301"));
  std::string tibetan;
  for (int i = 0; i < 300'000; ++i) tibetan += "\u0F73";  // a starter that decomposes to two marks
  BOOST_TEST(tenon::to_nfc(tibetan).ends_with("\u0F72\u0F72"));
}

BOOST_AUTO_TEST_SUITE_END()
