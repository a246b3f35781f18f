#include "tenon/tokenizer/padding.h"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fixtures.h"
#include "tenon/core/error.h"

BOOST_AUTO_TEST_SUITE(tokenizer_padding)

namespace {

using tenon::BatchOptions;
using tenon::Padding;
using Ids = std::vector<tenon::TokenId>;
using Mask = std::vector<std::uint8_t>;
using Positions = std::vector<int>;

const std::vector<std::string> kTexts = {"abc", "d", "ef"};

// A tokenizer with id == byte. `config`: tokenizer_config.json.
tenon::Tokenizer bytes_tokenizer(const char* config = "{}") {
  fixtures::Folder folder;
  folder.write("merges.txt", "").write("vocab.json", fixtures::vocabulary({"<pad>", "<end>"}).dump());
  folder.write("tokenizer_config.json", config);
  return tenon::Tokenizer::load(folder.path());
}

void check(const tenon::Encoding& got, int rows, int cols, const Ids& ids, const Mask& mask,
           const Positions& positions) {
  BOOST_TEST(got.rows == rows);
  BOOST_TEST(got.cols == cols);
  BOOST_TEST(got.ids == ids, boost::test_tools::per_element());
  BOOST_TEST(got.attention_mask == mask, boost::test_tools::per_element());
  BOOST_TEST(got.position_ids == positions, boost::test_tools::per_element());
}

auto names(const std::string& parameter) {
  return [parameter](const tenon::Error& error) {
    return error.kind() == tenon::Error::Kind::invalid_request && error.where() == parameter;
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(right) {
  check(tenon::encode_batch(bytes_tokenizer(), kTexts, {.padding = Padding::right, .pad = 0}), 3, 3,
        {'a', 'b', 'c', 'd', 0, 0, 'e', 'f', 0},  //
        {1, 1, 1, 1, 0, 0, 1, 1, 0},              //
        {0, 1, 2, 0, 0, 0, 0, 1, 1});
}

BOOST_AUTO_TEST_CASE(left) {
  check(tenon::encode_batch(bytes_tokenizer(), kTexts, {.padding = Padding::left, .pad = 0}), 3, 3,
        {'a', 'b', 'c', 0, 0, 'd', 0, 'e', 'f'},  //
        {1, 1, 1, 0, 0, 1, 0, 1, 1},              //
        {0, 1, 2, 0, 0, 0, 0, 0, 1});
}

BOOST_AUTO_TEST_CASE(truncation) {
  check(tenon::encode_batch(bytes_tokenizer(), kTexts, {.padding = Padding::left, .pad = 0, .max_length = 2}), 3, 2,
        {'a', 'b', 0, 'd', 'e', 'f'}, {1, 1, 0, 1, 1, 1}, {0, 1, 0, 0, 0, 1});
  const BatchOptions options{.pad = 0, .max_length = 2, .truncate = tenon::TruncationSide::left};
  check(tenon::encode_batch(bytes_tokenizer(), kTexts, options), 3, 2, {'b', 'c', 'd', 0, 'e', 'f'}, {1, 1, 1, 0, 1, 1},
        {0, 1, 0, 0, 0, 1});
  check(tenon::encode_batch(bytes_tokenizer(), kTexts, {.padding = Padding::none, .max_length = 1}), 3, 1,
        {'a', 'd', 'e'}, {1, 1, 1}, {0, 0, 0});
  check(tenon::encode_batch(bytes_tokenizer(), kTexts, {.pad = 0, .max_length = 1000}), 3, 3,
        {'a', 'b', 'c', 'd', 0, 0, 'e', 'f', 0}, {1, 1, 1, 1, 0, 0, 1, 1, 0}, {0, 1, 2, 0, 0, 0, 0, 1, 1});
}

// generate() of transformers gives every pad the position 1.
BOOST_AUTO_TEST_CASE(pads_can_have_a_position_of_their_own) {
  check(tenon::encode_batch(bytes_tokenizer(), kTexts, {.padding = Padding::left, .pad = 0, .pad_position = 1}), 3, 3,
        {'a', 'b', 'c', 0, 0, 'd', 0, 'e', 'f'}, {1, 1, 1, 0, 0, 1, 0, 1, 1}, {0, 1, 2, 1, 1, 0, 1, 0, 1});
  check(tenon::encode_batch(bytes_tokenizer(), kTexts, {.pad = 0, .pad_position = 1}), 3, 3,
        {'a', 'b', 'c', 'd', 0, 0, 'e', 'f', 0}, {1, 1, 1, 1, 0, 0, 1, 1, 0}, {0, 1, 2, 0, 1, 1, 0, 1, 1});
}

BOOST_AUTO_TEST_CASE(empty_rows_and_batches) {
  const std::vector<std::string> texts = {"", "a"};
  check(tenon::encode_batch(bytes_tokenizer(), texts, {.pad = 7}), 2, 1, {7, 'a'}, {0, 1}, {0, 0});
  check(tenon::encode_batch(bytes_tokenizer(), {}), 0, 0, {}, {}, {});
  const std::vector<std::string> nothing = {"", ""};
  check(tenon::encode_batch(bytes_tokenizer(), nothing), 2, 0, {}, {}, {});
}

BOOST_AUTO_TEST_CASE(the_pad_token_is_the_tokenizer_s_own_unless_named) {
  const std::vector<std::string> texts = {"ab", "c"};
  const auto last = [&](const tenon::Tokenizer& tokenizer) { return tenon::encode_batch(tokenizer, texts).ids.back(); };
  BOOST_TEST(last(bytes_tokenizer(R"({"eos_token": "<end>"})")) == 257);
  BOOST_TEST(last(bytes_tokenizer(R"({"eos_token": "<end>", "pad_token": {"content": "<pad>"}})")) == 256);
}

BOOST_AUTO_TEST_CASE(refusals) {
  // A class without an end of text of its own.
  const tenon::Tokenizer tokenizer = bytes_tokenizer(R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  const std::vector<std::string> broken = {"a", "\xFF"};
  BOOST_CHECK_EXCEPTION(tenon::encode_batch(tokenizer, kTexts, {.padding = Padding::none}), tenon::Error,
                        names("padding"));
  BOOST_CHECK_EXCEPTION(tenon::encode_batch(tokenizer, kTexts), tenon::Error, names("pad"));
  BOOST_CHECK_EXCEPTION(tenon::encode_batch(tokenizer, kTexts, {.pad = 258}), tenon::Error, names("token id"));
  BOOST_CHECK_EXCEPTION(tenon::encode_batch(tokenizer, kTexts, {.max_length = 0}), tenon::Error, names("max_length"));
  BOOST_CHECK_EXCEPTION(tenon::encode_batch(tokenizer, broken, {.pad = 0}), tenon::Error, names("text"));
}

BOOST_AUTO_TEST_SUITE_END()
