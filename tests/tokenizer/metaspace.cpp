#include "tenon/tokenizer/metaspace.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>

BOOST_AUTO_TEST_SUITE(tokenizer_metaspace)

namespace {

using tenon::detail::Metaspace;
using Prepend = Metaspace::Prepend;

// Writes _ for U+2581.
std::string spelled(std::string_view text, Prepend prepend, bool first = true) {
  std::string in, out;
  for (const char c : text) in += c == '_' ? std::string(tenon::detail::kMetaspace) : std::string(1, c);
  const std::string result = tenon::detail::spell_spaces(in, {prepend, false}, first);
  for (std::size_t at = 0; at < result.size(); ++at) {
    const bool space = std::string_view(result).substr(at).starts_with(tenon::detail::kMetaspace);
    out += space ? '_' : result[at];
    at += space ? 2 : 0;
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(prepend_modes) {
  BOOST_TEST(spelled("a b", Prepend::never) == "a_b");
  BOOST_TEST(spelled("a b", Prepend::always) == "_a_b");
  BOOST_TEST(spelled("a b", Prepend::first) == "_a_b");
  BOOST_TEST(spelled("a", Prepend::first, false) == "a");
  BOOST_TEST(spelled("a", Prepend::always, false) == "_a");
  for (const std::string text : {" a", "_a"}) {
    BOOST_TEST(spelled(text, Prepend::never) == "_a");
    BOOST_TEST(spelled(text, Prepend::always) == "_a");
    BOOST_TEST(spelled(text, Prepend::first) == "_a");
  }
  BOOST_TEST(spelled("  ", Prepend::always) == "__");
  BOOST_TEST(spelled("\ta\n", Prepend::always) == "_\ta\n");  // other white space is kept
}

BOOST_AUTO_TEST_CASE(and_back) {
  BOOST_TEST(tenon::detail::unspell_spaces("\u2581a\u2581\u2581b\u2582") == " a  b\u2582");
  BOOST_TEST(tenon::detail::unspell_spaces("\xE2\x96") == "\xE2\x96");
  BOOST_TEST(tenon::detail::unspell_spaces("") == "");
}

BOOST_AUTO_TEST_SUITE_END()
