#include "tenon/tokenizer/stream_decoder.h"

#include <boost/test/unit_test.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fixtures.h"
#include "tenon/core/error.h"

BOOST_AUTO_TEST_SUITE(tokenizer_stream_decoder)

namespace {

// A tokenizer with id == byte. Ids 256 to 259 are parts of characters: two bytes of a three-byte character, and
// possible continuations.
tenon::Tokenizer bytes_tokenizer() {
  fixtures::Folder folder;
  const auto spell = [](std::string_view bytes) {
    std::string out;
    for (const char c : bytes) out += tenon::detail::spell_byte(static_cast<unsigned char>(c));
    return out;
  };
  folder.write("merges.txt", "#version: 0.2\n");
  folder.write(
      "vocab.json",
      fixtures::vocabulary({spell("\xE2\x82"), spell("\xAC\xF0"), spell("\x9F\x98\x80"), spell("a\xE2")}).dump());
  return tenon::Tokenizer::load(folder.path(), 270);
}

std::string stream(const tenon::Tokenizer& tokenizer, const std::vector<tenon::TokenId>& ids) {
  tenon::StreamDecoder decoder(tokenizer);
  std::string text;
  for (const tenon::TokenId id : ids) {
    const std::string part = decoder.push(id);
    BOOST_REQUIRE_EQUAL(tenon::find_invalid_utf8(part), part.npos);
    text += part;
  }
  return text + decoder.finish();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_character_appears_when_it_is_whole) {
  const tenon::Tokenizer tokenizer = bytes_tokenizer();
  tenon::StreamDecoder decoder(tokenizer);
  BOOST_TEST(decoder.push(259) == "a");
  BOOST_TEST(decoder.push(0x82) == "");
  BOOST_TEST(decoder.push(257) == "\u20AC");
  BOOST_TEST(decoder.push(258) == "\U0001F600");
  BOOST_TEST(decoder.finish() == "");
}

BOOST_AUTO_TEST_CASE(invalid_bytes_are_replaced_at_once) {
  const tenon::Tokenizer tokenizer = bytes_tokenizer();
  tenon::StreamDecoder decoder(tokenizer);
  BOOST_TEST(decoder.push(256) == "");
  BOOST_TEST(decoder.push('x') == "\uFFFDx");  // two bytes of a character are one maximal subpart
  BOOST_TEST(decoder.push(0xFF) == "\uFFFD");
  BOOST_TEST(decoder.push(256) == "");
  BOOST_TEST(decoder.finish() == "\uFFFD");
  BOOST_TEST(decoder.finish() == "");
  BOOST_TEST(decoder.push('y') == "y");
}

BOOST_AUTO_TEST_CASE(ids_without_a_token_are_empty_and_others_refused) {
  const tenon::Tokenizer tokenizer = bytes_tokenizer();
  tenon::StreamDecoder decoder(tokenizer);
  BOOST_TEST(decoder.push(265) == "");
  BOOST_CHECK_THROW(decoder.push(270), tenon::Error);
  BOOST_CHECK_THROW(decoder.push(-1), tenon::Error);
}

BOOST_AUTO_TEST_CASE(random_tokens_stream_as_they_decode) {
  const tenon::Tokenizer tokenizer = bytes_tokenizer();
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<tenon::TokenId> ids;
    for (std::uint32_t i = fixtures::pick(random, 16); i > 0; --i)
      ids.push_back(static_cast<int>(fixtures::pick(random, 2) == 0 ? fixtures::pick(random, 260)
                                                                    : 0x80 + fixtures::pick(random, 132)));
    BOOST_REQUIRE_EQUAL(stream(tokenizer, ids), tenon::sanitize_utf8(tokenizer.decode(ids)));
  }
}

BOOST_AUTO_TEST_CASE(random_tokens_of_the_default_model_stream_as_they_decode) {
  const tenon::Tokenizer tokenizer = tenon::Tokenizer::load(fixtures::tales());
  std::mt19937 random(4);
  std::vector<tenon::TokenId> ids;
  for (int i = 0; i < 20'000; ++i) ids.push_back(static_cast<int>(fixtures::pick(random, 4096)));
  BOOST_TEST(stream(tokenizer, ids) == tenon::sanitize_utf8(tokenizer.decode(ids)));
}

// The continuation of a prompt keeps its leading space, and the bytes of fallback tokens join to characters.
BOOST_AUTO_TEST_CASE(a_continuation_keeps_its_space) {
  const tenon::Tokenizer tokenizer = tenon::Tokenizer::load(fixtures::data() / "llama2");
  const auto ids = tokenizer.encode("river \u00DE\U0001F600");
  BOOST_TEST(tokenizer.decode(ids) == "river \u00DE\U0001F600");
  BOOST_TEST(stream(tokenizer, ids) == " river \u00DE\U0001F600");
  tenon::StreamDecoder decoder(tokenizer);
  const tenon::TokenId first_byte = 3;  // <0x00>
  BOOST_TEST(decoder.push(first_byte + 0xC3) == "");
  BOOST_TEST(decoder.push(first_byte + 0xA9) == "\u00E9");
  BOOST_TEST(decoder.push(first_byte + 0xC3) == "");
  BOOST_TEST(decoder.push(first_byte + 'x') == "\uFFFDx");  // the library gives U+FFFD twice (docs/tokenizers.md)
}

// The same bytes, split into other tokens, give the same text.
BOOST_AUTO_TEST_CASE(the_cut_does_not_matter) {
  const tenon::Tokenizer tokenizer = tenon::Tokenizer::load(fixtures::tales());
  std::vector<tenon::TokenId> one_byte(256);
  for (int byte = 0; byte < 256; ++byte)
    for (tenon::TokenId id = 0; id < tokenizer.vocab_size(); ++id)
      if (tokenizer.bytes(id) == std::string(1, static_cast<char>(byte))) one_byte[static_cast<std::size_t>(byte)] = id;
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const std::string text = fixtures::random_text(random, 40);
    std::vector<tenon::TokenId> bytes;
    for (const char c : text) bytes.push_back(one_byte[static_cast<unsigned char>(c)]);
    BOOST_REQUIRE_EQUAL(stream(tokenizer, tokenizer.encode(text)), text);
    BOOST_REQUIRE_EQUAL(stream(tokenizer, bytes), text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
