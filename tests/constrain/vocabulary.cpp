#include "tenon/constrain/vocabulary.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tenon/tokenizer/unicode.h"

BOOST_AUTO_TEST_SUITE(constrain_vocabulary)

using namespace tenon;
using namespace tenon::constrain;

namespace {

std::vector<std::string> random_tokens(std::mt19937& random, std::size_t count) {
  const std::vector<std::string> pieces = {"a",
                                           "b",
                                           "\"",
                                           "\\",
                                           "\n",
                                           "\x1f",
                                           "\x7f",
                                           "\xC3",
                                           "\xBC",
                                           "\xC3\xBC",
                                           "\xE2\x82\xAC",
                                           "\xE2\x82",
                                           "\xF0\x9F\x98\x80",
                                           "\xFF",
                                           std::string(1, '\0'),
                                           " "};
  std::vector<std::string> tokens(count);
  for (std::string& token : tokens) {
    const bool plain = random() % 2 == 0;
    for (std::size_t left = random() % (random() % 8 == 0 ? 60 : 4); left > 0; --left) {
      token += plain ? pieces[random() % 2] : pieces[random() % pieces.size()];
    }
  }
  return tokens;
}

// Every node has the right depth, byte and end. Every token is at the node of its bytes, and no node is superfluous.
void check_trie(const TokenTrie& trie, const std::map<std::string, std::vector<TokenId>>& expected) {
  std::map<std::string, std::vector<TokenId>> found;
  std::set<std::string> prefixes;
  std::vector<std::size_t> ends;
  std::string path;
  for (std::size_t i = 0; i < trie.size(); ++i) {
    const TokenTrie::Node& node = trie.node(i);
    BOOST_REQUIRE(node.depth <= path.size() + 1);
    ends.resize(node.depth);
    path.resize(node.depth - 1U);
    for (std::size_t above = 0; above + 1 < ends.size(); ++above) BOOST_REQUIRE(i < ends[above]);
    if (node.depth > 1) BOOST_REQUIRE(node.end <= ends[node.depth - 2U]);
    BOOST_REQUIRE(node.end > i);
    BOOST_REQUIRE((node.end == trie.size() || trie.node(node.end).depth <= node.depth));
    ends.back() = node.end;
    path += static_cast<char>(node.byte);
    BOOST_REQUIRE(prefixes.insert(path).second);
    for (const TokenId id : trie.tokens(i)) found[path].push_back(id);
    std::size_t below = 0;
    for (std::size_t j = i; j < node.end && trie.size() < 2000; ++j) below += trie.tokens(j).size();
    if (trie.size() < 2000) BOOST_REQUIRE(trie.subtree(i).size() == below);
    BOOST_REQUIRE(!trie.subtree(i).empty());
  }
  BOOST_TEST((found == expected));
  BOOST_TEST(prefixes.size() == trie.size());
}

// By definition: whole characters that JSON does not escape.
int plain_characters(const std::string& bytes) {
  if (bytes.empty() || find_invalid_utf8(bytes) != std::string::npos) return 0;
  int count = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\') return 0;
    count += (byte & 0xC0) != 0x80;
  }
  return count;
}

// `tokens`: empty for those that are never allowed.
void check(const Vocabulary& vocabulary, const std::vector<std::string>& tokens) {
  std::map<std::string, std::vector<TokenId>> all, others;
  std::size_t long_ones = 0, longest = 0;
  bool same_bytes = true, same_rows = true;
  for (TokenId id = 0; id < vocabulary.width(); ++id) {
    const std::string bytes = static_cast<std::size_t>(id) < tokens.size() ? tokens[static_cast<std::size_t>(id)] : "";
    same_bytes = same_bytes && vocabulary.bytes(id) == bytes;
    const int characters = plain_characters(bytes);
    if (!bytes.empty()) all[bytes].push_back(id);
    if (!bytes.empty() && characters == 0) others[bytes].push_back(id);
    same_rows =
        same_rows && vocabulary.characters(id) == characters && allows(vocabulary.plain(), id) == (characters > 0);
    for (int k = 0; k <= Vocabulary::kRows; ++k) {
      same_rows = same_rows && allows(vocabulary.plain_up_to(k), id) == (characters > 0 && characters <= k);
    }
    long_ones += characters > Vocabulary::kRows;
    longest = std::max(longest, bytes.size());
  }
  BOOST_TEST(same_bytes);
  BOOST_TEST(same_rows);
  BOOST_TEST(vocabulary.longest() == longest);
  check_trie(vocabulary.trie(), all);
  check_trie(vocabulary.remainder(), others);
  BOOST_TEST(vocabulary.long_plain().size() == long_ones);
  for (std::size_t i = 0; i < long_ones; ++i) {
    const int characters = vocabulary.characters(vocabulary.long_plain()[i]);
    BOOST_TEST(characters > Vocabulary::kRows);
    if (i > 0) BOOST_TEST(vocabulary.characters(vocabulary.long_plain()[i - 1]) <= characters);
  }
  for (std::size_t bit = static_cast<std::size_t>(vocabulary.width()); bit < 32 * vocabulary.words(); ++bit) {
    BOOST_TEST(!allows(vocabulary.plain(), static_cast<TokenId>(bit)));
  }
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id)
    tokens.emplace_back(tokenizer.is_special(id) ? "" : tokenizer.bytes(id));
  return tokens;
}

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_alone) {
  const Vocabulary vocabulary = Vocabulary::bytes();
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  check(vocabulary, tokens);
  BOOST_TEST(vocabulary.width() == 257);
  BOOST_TEST(vocabulary.words() == 9U);
  BOOST_TEST(vocabulary.trie().size() == 256U);
  BOOST_TEST(vocabulary.remainder().size() == 256U - (128 - 32 - 2));
  BOOST_TEST(vocabulary.has_all_bytes());
  BOOST_REQUIRE(vocabulary.ends().size() == 1U);
  BOOST_TEST(vocabulary.ends().front() == 256);
  BOOST_TEST(vocabulary.bytes(256).empty());
}

BOOST_AUTO_TEST_CASE(no_tokens) {
  const Vocabulary none({}, 0, {0});
  check(none, {});
  BOOST_TEST(none.words() == 0U);
  BOOST_TEST(none.ends().empty());
  BOOST_TEST(!none.has_all_bytes());
  check(Vocabulary({"", ""}, 33, {}), {});
}

BOOST_AUTO_TEST_CASE(whatever_the_tokens_are) {
  std::mt19937 random(20261122);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> tokens = random_tokens(random, random() % 200);
    const int width = static_cast<int>(tokens.size() + random() % 70);
    const Vocabulary vocabulary(tokens, width, {0, width - 1, 0, width, -1});
    for (const TokenId end : vocabulary.ends()) {
      if (static_cast<std::size_t>(end) < tokens.size()) tokens[static_cast<std::size_t>(end)].clear();
    }
    check(vocabulary, tokens);
  }
}

BOOST_AUTO_TEST_CASE(tokens_of_the_same_bytes_are_all_kept) {
  const Vocabulary vocabulary({"b", "ab", "b", "", "a", "ab", "abc"}, 7, {});
  const TokenTrie& trie = vocabulary.trie();
  BOOST_REQUIRE(trie.size() == 4U);  // a, ab, abc, b
  const auto listed = [](std::span<const TokenId> ids) { return std::vector<TokenId>(ids.begin(), ids.end()); };
  BOOST_TEST(listed(trie.tokens(1)) == (std::vector<TokenId>{1, 5}), boost::test_tools::per_element());
  BOOST_TEST(listed(trie.subtree(0)) == (std::vector<TokenId>{4, 1, 5, 6}), boost::test_tools::per_element());
  BOOST_TEST(listed(trie.tokens(3)) == (std::vector<TokenId>{0, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(all_bytes_but_one) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(byte == 200 ? 2U : 1U, static_cast<char>(byte));
  BOOST_TEST(!Vocabulary(tokens, 256, {}).has_all_bytes());
  tokens.emplace_back(1, static_cast<char>(200));
  BOOST_TEST(Vocabulary(tokens, 257, {}).has_all_bytes());
  BOOST_TEST(!Vocabulary(tokens, 257, {'a'}).has_all_bytes());
}

BOOST_AUTO_TEST_CASE(everything_counts_for_the_hash) {
  std::set<std::uint64_t> hashes;
  const auto add = [&](std::vector<std::string> tokens, int width, std::vector<TokenId> ends) {
    hashes.insert(Vocabulary(std::move(tokens), width, std::move(ends)).hash());
  };
  add({"a", "b"}, 4, {3});
  add({"b", "a"}, 4, {3});
  add({"ab", ""}, 4, {3});
  add({"", "ab"}, 4, {3});
  add({"a", "b"}, 5, {3});
  add({"a", "b"}, 4, {2});
  add({"a", "b"}, 4, {2, 3});
  add({"a", "b"}, 4, {});
  BOOST_TEST(hashes.size() == 8U);
  add({"a", "b"}, 4, {3, 2, 3});
  BOOST_TEST(hashes.size() == 8U);
}

BOOST_AUTO_TEST_CASE(invalid_vocabularies_are_refused) {
  const auto has_kind = [](Error::Kind kind) { return [kind](const Error& error) { return error.kind() == kind; }; };
  BOOST_CHECK_EXCEPTION(Vocabulary({"a", "b"}, 1, {}), Error, has_kind(Error::Kind::invalid_request));
  BOOST_CHECK_EXCEPTION(Vocabulary({}, -1, {}), Error, has_kind(Error::Kind::invalid_request));
  BOOST_CHECK_EXCEPTION(Vocabulary({std::string(65536, 'a')}, 1, {}), Error, has_kind(Error::Kind::unsupported));
  const std::string longest(65535, 'a');
  const Vocabulary vocabulary({longest}, 1, {});
  BOOST_TEST(vocabulary.trie().size() == 65535U);
  BOOST_TEST(vocabulary.characters(0) == 65535);
}

BOOST_AUTO_TEST_CASE(the_default_model) {
  const Tokenizer tokenizer = Tokenizer::load(TENON_SOURCE_DIR "/examples/models/tales");
  const TokenId end = tokenizer.end_of_text().value();
  const Vocabulary vocabulary = Vocabulary::from(tokenizer, tokenizer.vocab_size() + 5, {end});
  BOOST_TEST(vocabulary.bytes(end).empty());
  BOOST_TEST(vocabulary.has_all_bytes());
  check(vocabulary, tokens_of(tokenizer));
  // a model with fewer logits than its tokenizer has tokens
  auto fewer = tokens_of(tokenizer);
  fewer.resize(1000);
  check(Vocabulary::from(tokenizer, 1000, {end}), fewer);
}

namespace {

std::string written(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += tokenizer.bytes(id);
  return text;
}

}  // namespace

// Guessed text has the tokens that the model was trained on, not the longest ones.
BOOST_AUTO_TEST_CASE(a_text_is_split_as_its_tokenizer_does) {
  const Tokenizer tokenizer = Tokenizer::load(TENON_SOURCE_DIR "/examples/models/tales");
  const Vocabulary vocabulary = Vocabulary::from(tokenizer);
  const Vocabulary longest(tokens_of(tokenizer), tokenizer.vocab_size(), {});  // has no tokenizer
  int others = 0;
  for (const std::string text :
       {"\"armour\": ", ", \"strength\": \"", "{\"first_name\": \"", "\xc3\xa9t\xc3\xa9", ""}) {
    BOOST_TEST(vocabulary.split(text) == tokenizer.encode(text));
    BOOST_TEST(written(tokenizer, longest.split(text)) == text);
    others += longest.split(text) != vocabulary.split(text);
    // Bytes that are not whole characters have no tokens of the tokenizer.
    std::vector<TokenId> ids = tokenizer.encode(text);
    for (const TokenId id : longest.split("\xc3z")) ids.push_back(id);
    BOOST_TEST(vocabulary.split(text + "\xc3z") == ids);
  }
  BOOST_TEST(others > 0);
}

BOOST_AUTO_TEST_CASE(a_text_is_split_up_to_a_byte_without_token) {
  const Vocabulary vocabulary({"a", "ab", "b"}, 3, {});
  BOOST_TEST(vocabulary.split("abba") == (std::vector<TokenId>{1, 2, 0}));
  BOOST_TEST(vocabulary.split("abxa") == (std::vector<TokenId>{1}));
  // The tokenizer's ids beyond the logits are no tokens.
  const Tokenizer tokenizer = Tokenizer::load(TENON_SOURCE_DIR "/examples/models/tales");
  const Vocabulary fewer = Vocabulary::from(tokenizer, 300, {});
  const std::vector<TokenId> ids = fewer.split("Once upon a time");
  for (const TokenId id : ids) BOOST_TEST(id < 300);
  BOOST_TEST(written(tokenizer, ids) == "Once upon a time");
}

// The space that SentencePiece puts in front of a text is not in the text.
BOOST_AUTO_TEST_CASE(a_text_is_split_without_a_space_in_front) {
  int others = 0;
  for (const std::string name : {"llama2", "mistral", "metaspace", "gemma"}) {
    const std::string folder = TENON_SOURCE_DIR "/tests/tokenizer/data/" + name;
    const Tokenizer tokenizer = Tokenizer::load(folder);
    const Vocabulary vocabulary = Vocabulary::from(tokenizer);
    const Vocabulary longest(tokens_of(tokenizer), tokenizer.vocab_size(), {});
    std::ifstream cases(folder + "/cases.jsonl");
    for (std::string line; std::getline(cases, line);) {
      const std::string text = nlohmann::json::parse(line).at("text");
      const std::string behind = "{\"" + text;  // does not begin with a space
      const std::vector<TokenId> whole = tokenizer.encode("\n" + behind), ids = vocabulary.split(behind);
      if (written(tokenizer, whole).ends_with("\n" + behind)) {  // no character was normalised or is unknown
        BOOST_TEST(written(tokenizer, ids) == behind, name << ": " << behind);
        BOOST_TEST((whole.size() > ids.size() && std::equal(ids.rbegin(), ids.rend(), whole.rbegin())),
                   name << ": " << behind);
        others += longest.split(behind) != ids;
      }
    }
  }
  BOOST_TEST(others > 0);
}

// The text of a special token that counts as its spelling is that token, as in a call of a tool.
BOOST_AUTO_TEST_CASE(a_spelled_token_is_one_token) {
  const Tokenizer tokenizer = Tokenizer::load(TENON_SOURCE_DIR "/tests/tokenizer/data/qwen2");
  const SpecialToken& special = tokenizer.special_tokens().front();
  const std::string text = special.text + "{\"a";
  const std::vector<TokenId> spelled = {special.id};
  const Vocabulary with = Vocabulary::from(tokenizer, tokenizer.vocab_size(), {}, spelled);
  BOOST_TEST(with.split(text).front() == special.id);
  BOOST_TEST(with.split(text) == tokenizer.encode(text, true));
  const Vocabulary without = Vocabulary::from(tokenizer, tokenizer.vocab_size(), {});
  BOOST_TEST(without.split(text) == tokenizer.encode(text));
  // One that does not count as its spelling is ordinary text.
  const SpecialToken& other = tokenizer.special_tokens().back();
  BOOST_REQUIRE(other.id != special.id);
  BOOST_TEST(written(tokenizer, with.split(other.text + "{")) == other.text + "{");
  BOOST_TEST(with.split(other.text + "{").front() != other.id);
}

BOOST_AUTO_TEST_CASE(gpt2) {
  const std::filesystem::path folder = TENON_SOURCE_DIR "/../shared/gpt2-tokenizer";
  if (!std::filesystem::exists(folder / "vocab.json")) {
    std::cerr << "SKIPPED: " << folder << " is not here\n";
    return;
  }
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const Vocabulary vocabulary = Vocabulary::from(tokenizer, tokenizer.vocab_size(), {tokenizer.end_of_text().value()});
  check(vocabulary, tokens_of(tokenizer));
  BOOST_TEST(vocabulary.has_all_bytes());
  BOOST_TEST(vocabulary.trie().size() == 98'023U);
  BOOST_TEST(vocabulary.trie().tokens().size() == 50'256U);
  BOOST_TEST(vocabulary.remainder().tokens().size() == 534U);
  BOOST_TEST(vocabulary.remainder().size() == 636U);
}

BOOST_AUTO_TEST_SUITE_END()
