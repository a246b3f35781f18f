#include "tenon/tokenizer/characters.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fixtures.h"

BOOST_AUTO_TEST_SUITE(tokenizer_characters)

namespace {

using tenon::detail::Characters;
using tenon::detail::MergeRules;
using tenon::detail::Spellings;
using Ids = std::vector<tenon::TokenId>;

// Vocabulary: <unk>, the byte tokens, then `more`.
struct Model {
  nlohmann::json json = nlohmann::json::object();
  Spellings spellings{100'000};
  std::array<tenon::TokenId, 256> bytes{};

  explicit Model(const std::vector<std::string>& more) {
    int next = 0;
    json["<unk>"] = next++;
    for (int byte = 0; byte < 256; ++byte) json[tenon::detail::byte_fallback_spelling(byte)] = next++;
    for (const std::string& token : more) json[token] = next++;
    spellings.add_all(tenon::Fields(json, "test"));
    for (int byte = 0; byte < 256; ++byte) bytes[static_cast<std::size_t>(byte)] = byte + 1;
  }
};

Ids whole(const Characters& characters, const MergeRules& rules, std::string_view text) {
  tenon::detail::PieceMerger merger(rules);
  Ids out;
  characters.add_symbols(text, merger);
  merger.merge(out);
  return out;
}

Ids by_words(const Characters& characters, const MergeRules& rules, std::string_view text, std::size_t& words) {
  Ids out;
  for (std::size_t at = 0; at < text.size(); ++words) {
    const std::size_t end = characters.word_end(text, at);
    BOOST_REQUIRE_GT(end, at);
    const Ids more = whole(characters, rules, text.substr(at, end - at));
    out.insert(out.end(), more.begin(), more.end());
    at = end;
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_byte_has_one_fallback_spelling) {
  using tenon::detail::byte_of_fallback_spelling;
  for (int byte = 0; byte < 256; ++byte)
    BOOST_TEST(byte_of_fallback_spelling(tenon::detail::byte_fallback_spelling(byte)).value() == byte);
  for (const char* other : {"", "a", "<0x0a>", "<0xG0>", "<0x0G>", "<0X00>", "<0x000>", "<0x00", "<0x0>", "<0x00)"})
    BOOST_TEST(!byte_of_fallback_spelling(other), other);
  BOOST_TEST(!byte_of_fallback_spelling(std::string_view("<0x0\0>", 6)));
}

BOOST_AUTO_TEST_CASE(known_characters_bytes_and_unknown_ones) {
  const Model model({"a", "\u4E2D"});
  const MergeRules none;
  BOOST_TEST(tenon::detail::byte_fallback_spelling(0x0A) == "<0x0A>");
  BOOST_TEST(whole({model.spellings, model.bytes, std::nullopt, true}, none, "a\u00E9\u4E2D\n") ==
             Ids({257, 0xC3 + 1, 0xA9 + 1, 258, 0x0A + 1}));
  BOOST_TEST(whole({model.spellings, std::nullopt, "<unk>", false}, none, "a\u00E9\u00E9a\n") ==
             Ids({257, 0, 0, 257, 0}));
  BOOST_TEST(whole({model.spellings, std::nullopt, "<unk>", true}, none, "a\u00E9\u00E9a\n") == Ids({257, 0, 257, 0}));
}

BOOST_AUTO_TEST_CASE(words_end_where_no_rule_joins) {
  const Model model({"a", "b", "ab", "_", "_a"});
  Characters characters(model.spellings, model.bytes, std::nullopt, true);
  characters.add_rule("a", "b");
  characters.add_rule("_", "a");
  BOOST_TEST(characters.word_end("ab_ab", 0) == 2u);
  BOOST_TEST(characters.word_end("ab_ab", 2) == 5u);
  BOOST_TEST(characters.word_end("ba", 0) == 1u);
  BOOST_TEST(characters.word_end("\u00E9\u00E9", 0) == 2u);  // no rule merges these bytes
  BOOST_TEST(characters.word_end("a", 0) == 1u);
  Characters fused(model.spellings, std::nullopt, "<unk>", true);
  BOOST_TEST(fused.word_end("\u00E9\u00E9\n_", 0) == 5u);  // one unknown token
  Characters apart(model.spellings, std::nullopt, "<unk>", false);
  BOOST_TEST(apart.word_end("\u00E9\u00E9\n_", 0) == 2u);
}

// Random rules, also over byte tokens and the unknown token. Merging word by word must equal merging the whole text.
BOOST_AUTO_TEST_CASE(word_by_word_is_the_whole) {
  std::mt19937 random(14);
  std::size_t words = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> parts = {"a", "b", "c", "_"};
    std::vector<std::string> symbols = parts;
    symbols.insert(symbols.end(), {"<unk>", "<0xC3>", "<0xA9>"});
    std::vector<std::pair<std::string, std::string>> rules;
    std::set<std::string> seen(parts.begin(), parts.end());
    for (int i = 0; i < 6; ++i) {
      const auto part = [&] { return symbols[fixtures::pick(random, static_cast<std::uint32_t>(symbols.size()))]; };
      const auto rule = std::pair(part(), part());
      if (!seen.insert(rule.first + rule.second).second) continue;
      rules.push_back(rule);
      parts.push_back(rule.first + rule.second);
      symbols.push_back(parts.back());
    }
    const Model model(parts);
    const bool bytes = round % 3 == 0, fuse = round % 3 == 1;
    Characters characters(model.spellings, bytes ? std::optional(model.bytes) : std::nullopt, "<unk>", fuse);
    MergeRules merges;
    merges.order = tenon::detail::MergeOrder::one_by_one;
    std::shuffle(rules.begin(), rules.end(), random);
    for (const auto& [left, right] : rules) {
      tenon::detail::add_merge(left, right, model.spellings, {"test", "test"}, merges);
      characters.add_rule(left, right);
    }
    for (int text = 0; text < 60; ++text) {
      std::string it;
      for (std::uint32_t i = fixtures::pick(random, 20); i > 0; --i)
        it += std::vector<std::string>{"a", "b", "c", "_", "\u00E9", "<", ">"}[fixtures::pick(random, 7)];
      BOOST_REQUIRE_EQUAL(nlohmann::json(by_words(characters, merges, it, words)),
                          nlohmann::json(whole(characters, merges, it)));
    }
  }
  BOOST_TEST(words > 50'000u);  // the texts did have words
}

BOOST_AUTO_TEST_SUITE_END()
