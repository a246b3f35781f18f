#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/pretokenize.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fixtures.h"
#include "tenon/core/error.h"

BOOST_AUTO_TEST_SUITE(tokenizer_bpe)

namespace {

using Ids = std::vector<tenon::TokenId>;

// GPT-2's encoder.py word for word: find the lowest rank, merge it everywhere, start again. Quadratic.
Ids naive_encode(std::string_view text, const std::map<std::pair<std::string, std::string>, int>& ranks,
                 const std::map<std::string, int>& ids) {
  Ids out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = tenon::piece_end(text, at);
    std::vector<std::string> word;
    for (; at < end; ++at) word.emplace_back(1, text[at]);
    while (word.size() > 1) {
      int best = std::numeric_limits<int>::max();
      std::pair<std::string, std::string> pair;
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        const auto found = ranks.find({word[i], word[i + 1]});
        if (found != ranks.end() && found->second < best) best = found->second, pair = found->first;
      }
      if (best == std::numeric_limits<int>::max()) break;
      std::vector<std::string> merged;
      for (std::size_t i = 0; i < word.size(); ++i) {
        const bool here = i + 1 < word.size() && word[i] == pair.first && word[i + 1] == pair.second;
        merged.push_back(here ? word[i] + word[i + 1] : word[i]);
        i += here ? 1 : 0;
      }
      word = merged;
    }
    for (const std::string& part : word) out.push_back(ids.at(part));
  }
  return out;
}

// A small vocabulary over the letters a to d and the space. Rules are in random order, so some stand before the rules
// that make their parts, which training never writes.
struct RandomVocabulary {
  std::map<std::pair<std::string, std::string>, int> ranks;
  std::map<std::string, int> ids;
  fixtures::Folder folder;

  explicit RandomVocabulary(std::mt19937& random) {
    std::vector<std::string> parts = {"a", "b", "c", "d", " "};
    std::vector<std::pair<std::string, std::string>> rules;
    for (int i = 0; i < 40; ++i) {
      const std::string left = parts[fixtures::pick(random, static_cast<std::uint32_t>(parts.size()))];
      const std::string right = parts[fixtures::pick(random, static_cast<std::uint32_t>(parts.size()))];
      if (left.size() + right.size() > 12 || !seen_.insert({left, right}).second) continue;
      rules.emplace_back(left, right);
      if (std::find(parts.begin(), parts.end(), left + right) == parts.end()) parts.push_back(left + right);
    }
    std::shuffle(rules.begin(), rules.end(), random);
    std::vector<std::string> more;
    for (std::size_t i = 5; i < parts.size(); ++i) more.push_back(spell(parts[i]));
    for (int byte = 0; byte < 256; ++byte) ids[std::string(1, static_cast<char>(byte))] = byte;
    for (std::size_t i = 5; i < parts.size(); ++i) ids[parts[i]] = static_cast<int>(256 + i - 5);
    std::string merges;
    for (const auto& rule : rules) {
      ranks.emplace(rule, static_cast<int>(ranks.size()));
      merges += spell(rule.first) + " " + spell(rule.second) + "\n";
    }
    folder.write("vocab.json", fixtures::vocabulary(more).dump()).write("merges.txt", merges);
  }

 private:
  static std::string spell(const std::string& bytes) {
    std::string out;
    for (const char c : bytes) out += tenon::detail::spell_byte(static_cast<unsigned char>(c));
    return out;
  }
  std::set<std::pair<std::string, std::string>> seen_;
};

std::string prose(std::size_t bytes) {
  std::ifstream file(fixtures::tales() / "expected.json");
  const auto expected = nlohmann::json::parse(file);
  std::string text;
  while (text.size() < bytes)
    for (const auto& each : expected["base"]) text += each["greedy_text"].get<std::string>();
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(reference_cases) {
  if (!std::filesystem::exists(fixtures::gpt2() / "cases.jsonl")) {
    std::cerr << "SKIPPED: " << fixtures::gpt2() << " is not here\n";
    return;
  }
  const auto tokenizer = tenon::Tokenizer::load(fixtures::gpt2(), 50257);
  BOOST_TEST(tokenizer.end_of_text().value() == 50256);
  BOOST_TEST(tokenizer.encode("<|endoftext|>").size() == 7u);
  std::ifstream file(fixtures::gpt2() / "cases.jsonl");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const auto json = nlohmann::json::parse(line);
    const auto text = json["text"].get<std::string>();
    const auto ids = json["ids"].get<Ids>();
    BOOST_TEST(tokenizer.encode(text) == ids, json["text"].dump());
    BOOST_TEST(tokenizer.decode(ids) == text);
  }
  BOOST_TEST(cases == 273);
}

BOOST_AUTO_TEST_CASE(prompts_of_the_default_model) {
  const auto tokenizer = tenon::Tokenizer::load(fixtures::tales(), 4096);
  std::ifstream file(fixtures::tales() / "expected.json");
  const auto expected = nlohmann::json::parse(file);
  for (const auto& each : expected["base"]) {
    BOOST_TEST(tokenizer.encode(each["prompt"].get<std::string>()) == each["input_ids"].get<Ids>());
    BOOST_TEST(tokenizer.decode(each["greedy_ids"].get<Ids>()) == each["greedy_text"].get<std::string>());
  }
}

BOOST_AUTO_TEST_CASE(special_tokens_enter_by_id_alone) {
  const auto tokenizer = tenon::Tokenizer::load(fixtures::tales());
  BOOST_TEST(tokenizer.vocab_size() == 4096);
  BOOST_TEST(tokenizer.end_of_text().value() == 4095);
  BOOST_TEST(tokenizer.begin_of_text().value() == 4095);
  BOOST_TEST(!tokenizer.pad().has_value());
  BOOST_TEST(tokenizer.is_special(4095));
  BOOST_TEST(!tokenizer.is_special(4094));
  BOOST_TEST(tokenizer.special("<|endoftext|>").value() == 4095);
  BOOST_TEST(!tokenizer.special("the").has_value());
  const Ids ids = tokenizer.encode("a<|endoftext|>b");
  BOOST_TEST(std::count(ids.begin(), ids.end(), 4095) == 0);
  BOOST_TEST(tokenizer.decode(ids) == "a<|endoftext|>b");
  BOOST_TEST(tokenizer.decode(Ids{4095}) == "<|endoftext|>");
}

BOOST_AUTO_TEST_CASE(random_text_comes_back) {
  const auto tokenizer = tenon::Tokenizer::load(fixtures::tales());
  std::mt19937 random(6);
  for (int round = 0; round < 2'000; ++round) {
    const std::string text = fixtures::random_text(random, 1 + fixtures::pick(random, 60));
    BOOST_REQUIRE_EQUAL(tokenizer.decode(tokenizer.encode(text)), text);
  }
  std::string all;  // every code point, and so every byte of UTF-8
  for (std::uint32_t c = 0; c < 0x110000; c += c == 0xD7FF ? 0x801 : 1) fixtures::append(all, c);
  BOOST_TEST((tokenizer.decode(tokenizer.encode(all)) == all));
}

BOOST_AUTO_TEST_CASE(every_byte_has_a_token) {
  const auto tokenizer = tenon::Tokenizer::load(fixtures::tales());
  std::set<std::string_view> tokens;
  for (tenon::TokenId id = 0; id < tokenizer.vocab_size(); ++id) tokens.insert(tokenizer.bytes(id));
  for (int byte = 0; byte < 256; ++byte) BOOST_TEST(tokens.contains(std::string(1, static_cast<char>(byte))));
  for (char c = 0; c >= 0 && c < 127; ++c)
    BOOST_TEST(tokenizer.decode(tokenizer.encode(std::string(1, c))) == std::string(1, c));
}

BOOST_AUTO_TEST_CASE(equals_the_naive_loop_on_random_rules) {
  std::mt19937 random(7);
  for (int vocabulary = 0; vocabulary < 60; ++vocabulary) {
    const RandomVocabulary rules(random);
    const auto tokenizer = tenon::Tokenizer::load(rules.folder.path());
    for (int round = 0; round < 40; ++round) {
      std::string text;
      for (std::uint32_t i = fixtures::pick(random, 50); i > 0; --i) text += "abcd  ab"[fixtures::pick(random, 8)];
      BOOST_REQUIRE_EQUAL(nlohmann::json(tokenizer.encode(text)),
                          nlohmann::json(naive_encode(text, rules.ranks, rules.ids)));
    }
  }
}

// aaaa: pairs of equal symbols overlap. The leftmost merges first.
BOOST_AUTO_TEST_CASE(pairs_that_overlap_merge_from_the_left) {
  fixtures::Folder folder;
  folder.write("vocab.json", fixtures::vocabulary({"aa", "aaa"}).dump()).write("merges.txt", "a a\naa a\n");
  const auto tokenizer = tenon::Tokenizer::load(folder.path());
  BOOST_TEST(tokenizer.encode("aa") == Ids({256}));
  BOOST_TEST(tokenizer.encode("aaa") == Ids({257}));
  BOOST_TEST(tokenizer.encode("aaaa") == Ids({256, 256}));
  BOOST_TEST(tokenizer.encode("aaaaa") == Ids({256, 257}));
}

// No time is checked: quadratic work would take minutes, and the test's limit is seconds.
BOOST_AUTO_TEST_CASE(long_inputs_end) {
  const auto tokenizer = tenon::Tokenizer::load(fixtures::tales());
  constexpr std::size_t n = 1'000'000;
  std::string letters;
  std::mt19937 random(8);
  for (std::size_t i = 0; i < n; ++i) letters += static_cast<char>('a' + fixtures::pick(random, 26));
  for (const std::string& text : {std::string(n, 'a'), std::string(n, ' '), std::string(n, '\n'), std::string(n, '.'),
                                  std::string(n, '\0'), letters, prose(n)}) {
    const Ids ids = tokenizer.encode(text);
    BOOST_TEST(ids.size() <= text.size());
    BOOST_TEST((tokenizer.decode(ids) == text));
  }
}

// More distinct words than the cache of an encoder holds.
BOOST_AUTO_TEST_CASE(words_beyond_the_memory_of_a_call) {
  const auto tokenizer = tenon::Tokenizer::load(fixtures::tales());
  std::string text;
  Ids expected;
  for (int i = 0; i < 150'000; ++i) {
    std::string word = " ";
    for (int n = i % 75'000; n > 0; n /= 26) word += static_cast<char>('a' + n % 26);
    text += word;
    const Ids ids = tokenizer.encode(word);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  BOOST_TEST((tokenizer.encode(text) == expected));
}

BOOST_AUTO_TEST_CASE(text_that_is_not_utf8_is_refused) {
  const auto tokenizer = tenon::Tokenizer::load(fixtures::tales());
  BOOST_TEST(tokenizer.encode("").empty());
  for (const std::string text : {"\x80", "ab\xC3",
                                 "a\xFF"
                                 "b",
                                 "\xED\xA0\x80", "\xC0\x80"})
    BOOST_CHECK_EXCEPTION(tokenizer.encode(text), tenon::Error, [](const tenon::Error& error) {
      return error.kind() == tenon::Error::Kind::invalid_request && error.where() == "text";
    });
}

BOOST_AUTO_TEST_CASE(ids_outside_the_vocabulary_are_refused) {
  const auto tokenizer = tenon::Tokenizer::load(fixtures::tales(), 4100);
  BOOST_TEST(tokenizer.vocab_size() == 4100);
  BOOST_TEST(tokenizer.bytes(4099) == "");  // a row of the embedding without a token
  for (const tenon::TokenId id : {-1, 4100, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    BOOST_CHECK_THROW(tokenizer.bytes(id), tenon::Error);
    BOOST_CHECK_THROW(tokenizer.decode(Ids{0, id}), tenon::Error);
  }
}

BOOST_AUTO_TEST_CASE(many_threads_share_one_and_it_moves) {
  auto loaded = tenon::Tokenizer::load(fixtures::tales());
  const tenon::Tokenizer tokenizer = std::move(loaded);
  const std::string text = prose(20'000);
  const Ids expected = tokenizer.encode(text);
  std::vector<Ids> got(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& mine : got) threads.emplace_back([&] { mine = tokenizer.encode(text); });
  }
  for (const Ids& each : got) BOOST_TEST((each == expected));
}

BOOST_AUTO_TEST_SUITE_END()
