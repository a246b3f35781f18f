#include "tenon/tokenizer/letter_case.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(tokenizer_letter_case)

using tenon::detail::lower_case;

// Expected: Lowercase of tokenizers 0.22.2.
BOOST_AUTO_TEST_CASE(letters) {
  BOOST_TEST(lower_case(U'A') == "a");
  BOOST_TEST(lower_case(U'1') == "1");
  BOOST_TEST(lower_case(U'\u00c9') == "\u00e9");
  BOOST_TEST(lower_case(U'\u0130') == "i\u0307");
  BOOST_TEST(lower_case(U'\u03a3') == "\u03c3");  // also at the end of a word
  BOOST_TEST(lower_case(U'\u1c89') == "\u1c8a");  // newer than utf8proc's tables
  BOOST_TEST(lower_case(U'\ua7dc') == "\u019b");
  BOOST_TEST(lower_case(U'\U00010d50') == "\U00010d70");
}

BOOST_AUTO_TEST_SUITE_END()
