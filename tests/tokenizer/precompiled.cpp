#include "tenon/tokenizer/precompiled.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/error.h"

BOOST_AUTO_TEST_SUITE(tokenizer_precompiled)

using tenon::detail::decode_base64;
using tenon::detail::grapheme_end;

BOOST_AUTO_TEST_CASE(base64) {
  BOOST_TEST(decode_base64("", "x") == "");
  BOOST_TEST(decode_base64("YQ==", "x") == "a");
  BOOST_TEST(decode_base64("YWI=", "x") == "ab");
  BOOST_TEST(decode_base64("YWJj/+8A", "x") == std::string("abc\xff\xef\0", 6));
  for (const char* text : {"YQ", "YQ=", "====", "Y===", "YQ==YQ==", "YW-j", "YWJj\n"})
    BOOST_CHECK_THROW(decode_base64(text, "x"), tenon::Error);
}

// Unicode Standard Annex 29.
BOOST_AUTO_TEST_CASE(grapheme_clusters) {
  const auto clusters = [](std::string_view text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = grapheme_end(text, at);
      out.emplace_back(text.substr(at, end - at));
      at = end;
    }
    return out;
  };
  using Found = std::vector<std::string>;
  BOOST_TEST(clusters("ab") == Found({"a", "b"}));
  BOOST_TEST(clusters("e\u0301\r\n\n") == Found({"e\u0301", "\r\n", "\n"}));
  BOOST_TEST(clusters("\u1100\u1161\u11a8\uac00") == Found({"\u1100\u1161\u11a8", "\uac00"}));
}

BOOST_AUTO_TEST_SUITE_END()
