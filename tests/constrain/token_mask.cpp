#include "tenon/constrain/token_mask.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "samples.h"
#include "tenon/constrain/compile.h"

BOOST_AUTO_TEST_SUITE(constrain_token_mask)

using namespace tenon;
using namespace tenon::constrain;
using namespace tenon::test;
using Made = std::unique_ptr<Automaton>;
using State = Automaton::State;

namespace {

constexpr State kDead = Automaton::kDead;

class Checker {
 public:
  Checker(const std::string& constraint, const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        automaton_(made(constraint)),
        fresh_(made(constraint)),
        masks_(*automaton_, vocabulary) {}

  // A random walk over allowed tokens that prefers long ones. Every mask is checked.
  void walk(std::mt19937& random, int steps) {
    State state = automaton_->start(), same = fresh_->start();
    for (int i = 0; i < steps; ++i) {
      const auto mask = masks_.mask(state);
      BOOST_REQUIRE(mask.size() == vocabulary_.words());
      const std::vector<MaskWord> right = brute_force(same);
      if (!std::equal(mask.begin(), mask.end(), right.begin())) return report(mask, right, i);
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < vocabulary_.width(); ++id) {
        if (allows(right, id) && !vocabulary_.bytes(id).empty()) allowed.push_back(id);
      }
      BOOST_TEST(masks_.must_end(state) == allowed.empty());
      if (allowed.empty()) {
        BOOST_TEST(fresh_->accepts(same));
        return;
      }
      TokenId token = allowed[random() % allowed.size()];
      for (int draw = 0; draw < 2; ++draw) {
        const TokenId other = allowed[random() % allowed.size()];
        if (vocabulary_.bytes(other).size() < vocabulary_.bytes(token).size() && random() % 3 > 0)
          token = other;  // otherwise texts end soon
      }
      state = masks_.advance(state, token);
      same = step_all(same, vocabulary_.bytes(token));
      BOOST_REQUIRE(state != kDead);
      BOOST_REQUIRE(same != kDead);
      ++checked_;
    }
  }
  int checked() const { return checked_; }
  Automaton& automaton() { return *automaton_; }
  TokenMasks& masks() { return masks_; }

  // Expected mask: every token by itself, byte by byte.
  std::vector<MaskWord> brute_force(State state) {
    std::vector<MaskWord> row(vocabulary_.words());
    for (TokenId id = 0; id < vocabulary_.width(); ++id) {
      const std::string_view bytes = vocabulary_.bytes(id);
      if (!bytes.empty() && step_all(state, bytes) != kDead) allow(row, id);
    }
    for (const TokenId end : vocabulary_.ends()) {
      if (fresh_->accepts(state)) allow(row, end);
    }
    return row;
  }

 private:
  State step_all(State state, std::string_view bytes) {
    for (const char byte : bytes) {
      state = fresh_->step(state, static_cast<std::uint8_t>(byte));
      if (state == kDead) break;
    }
    return state;
  }
  void report(std::span<const MaskWord> mask, std::span<const MaskWord> right, int step) {
    for (TokenId id = 0; id < vocabulary_.width(); ++id) {
      if (allows(mask, id) == allows(right, id)) continue;
      BOOST_ERROR("step " << step << ": token " << id << " '" << vocabulary_.bytes(id) << "' is "
                          << (allows(right, id) ? "forbidden" : "allowed"));
      return;
    }
    BOOST_ERROR("step " << step << ": bits beyond the width are set");
  }

  const Vocabulary& vocabulary_;
  const Made automaton_, fresh_;
  TokenMasks masks_;
  int checked_ = 0;
};

void check_all(const Vocabulary& vocabulary, int walks, int steps) {
  std::mt19937 random(20261122);
  int checked = 0;
  for (const std::string& constraint : constraints()) {
    BOOST_TEST_CONTEXT(constraint) {
      Checker checker(constraint, vocabulary);
      for (int i = 0; i < walks; ++i) checker.walk(random, steps);
      checked += checker.checked();
    }
  }
  BOOST_TEST_MESSAGE(checked << " masks");
  BOOST_TEST(checked > walks * 20);
}

}  // namespace

BOOST_AUTO_TEST_CASE(masks_of_single_bytes) { check_all(Vocabulary::bytes(), 6, 60); }

BOOST_AUTO_TEST_CASE(masks_of_awkward_tokens) { check_all(awkward(), 8, 40); }

BOOST_AUTO_TEST_CASE(masks_of_the_default_model) {
  const Tokenizer tokenizer = Tokenizer::load(TENON_SOURCE_DIR "/examples/models/tales");
  check_all(Vocabulary::from(tokenizer, tokenizer.vocab_size() + 5, {tokenizer.end_of_text().value()}), 4, 40);
}

BOOST_AUTO_TEST_CASE(masks_of_gpt2) {
  const std::filesystem::path folder = TENON_SOURCE_DIR "/../shared/gpt2-tokenizer";
  if (!std::filesystem::exists(folder / "vocab.json")) {
    std::cerr << "SKIPPED: " << folder << " is not here\n";
    return;
  }
  const Tokenizer tokenizer = Tokenizer::load(folder);
  check_all(Vocabulary::from(tokenizer, tokenizer.vocab_size(), {tokenizer.end_of_text().value()}), 1, 25);
}

BOOST_AUTO_TEST_CASE(long_plain_tokens_fit_where_there_is_room) {
  const Vocabulary vocabulary = awkward();
  std::mt19937 random(7);
  for (int most = 29; most <= 42; ++most) {
    for (const int least : {0, 1, 31, 33, 40}) {
      if (least > most) continue;
      const std::string schema =
          R"({"type":"string","minLength":)" + std::to_string(least) + R"(,"maxLength":)" + std::to_string(most) + "}";
      for (const std::string& whole : {"s " + schema, R"(s {"type":"array","items":)" + schema + "}",
                                       R"(s {"type":"object","additionalProperties":)" + schema + "}"}) {
        BOOST_TEST_CONTEXT(whole) {
          Checker checker(whole, vocabulary);
          for (int i = 0; i < 3; ++i) checker.walk(random, 12);
        }
      }
    }
    const Made automaton = made(R"(s {"type":"string","maxLength":)" + std::to_string(most) + "}");
    TokenMasks masks(*automaton, vocabulary);
    const State inside = automaton->step(automaton->start(), '"');
    for (const TokenId id : vocabulary.long_plain())
      BOOST_TEST(allows(masks.mask(inside), id) == (vocabulary.characters(id) <= most));
  }
}

BOOST_AUTO_TEST_CASE(rows_that_were_dropped_are_made_again) {
  const Vocabulary vocabulary = awkward();
  for (const std::string constraint : {"r a{0,700}[bc]", R"(s {"type":"string","minLength":600,"pattern":"^a*b$"})",
                                       R"(s {"type":"string","maxLength":30,"minLength":20})"}) {
    Checker checker(constraint, vocabulary);
    TokenMasks& masks = checker.masks();
    std::vector<State> states;
    std::vector<std::vector<MaskWord>> rows;
    State state = checker.automaton().start();
    if (constraint[0] == 's') state = checker.automaton().step(state, '"');
    for (; state != kDead && states.size() < 690; state = checker.automaton().step(state, 'a')) {
      states.push_back(state);
      const auto row = masks.mask(state);
      rows.emplace_back(row.begin(), row.end());
    }
    std::mt19937 random(3);
    for (std::size_t i = 0; i < 2000; ++i) {
      const std::size_t at = i < states.size() ? i : random() % states.size();
      const auto row = masks.mask(states[at]);
      BOOST_REQUIRE(std::equal(row.begin(), row.end(), rows[at].begin()));
    }
    BOOST_TEST(states.size() > (constraint.back() == ']' ? 512u : 30u));
  }
}

BOOST_AUTO_TEST_CASE(tokens_that_are_no_text_lead_nowhere) {
  const Vocabulary vocabulary({"a", "", "ab", "<end>"}, 40, {3, 39});
  const Made automaton = made("r (ab?)*");
  TokenMasks masks(*automaton, vocabulary);
  for (const TokenId id : {1, 3, 4, 39, 40, -1}) BOOST_TEST(masks.advance(automaton->start(), id) == kDead);
  const auto row = masks.mask(automaton->start());
  BOOST_TEST(row.size() == 2u);
  for (TokenId id = 0; id < 64; ++id) BOOST_TEST(allows(row, id) == (id == 0 || id == 2 || id == 3 || id == 39));
  const State then = masks.advance(automaton->start(), 2);
  BOOST_TEST(then != kDead);
  BOOST_TEST(allows(masks.mask(then), 39));
}

BOOST_AUTO_TEST_CASE(nothing_but_the_end) {
  const Vocabulary vocabulary = Vocabulary::bytes();
  const auto must_end = [&](const char* constraint, const std::string& text) {
    const Made automaton = made(constraint);
    TokenMasks masks(*automaton, vocabulary);
    State state = automaton->start();
    for (const char c : text) state = automaton->step(state, static_cast<std::uint8_t>(c));
    const auto row = masks.mask(state);
    const bool alone =
        allows(row, 256) && std::all_of(row.begin(), row.begin() + 8, [](MaskWord word) { return word == 0; });
    BOOST_TEST(masks.must_end(state) == alone);
    return masks.must_end(state);
  };
  BOOST_TEST(must_end("r ab", "ab"));
  BOOST_TEST(!must_end("r ab", "a"));
  BOOST_TEST(!must_end("r ab", ""));
  BOOST_TEST(!must_end("r a+", "aa"));
  BOOST_TEST(must_end("r a{0,3}", "aaa"));
  BOOST_TEST(must_end("s {}", "[1]"));
  BOOST_TEST(!must_end("s {}", "12"));
  BOOST_TEST(!must_end("s {}", "\"a"));
  BOOST_TEST(must_end("s {}", "\"a\""));
  BOOST_TEST(must_end("s {\"enum\":[1,12]}", "12"));
  BOOST_TEST(!must_end("s {\"enum\":[1,12]}", "1"));
  BOOST_TEST(must_end("g root ::= \"(\" root \")\" | \"\"", "()"));
}

// The text that a constraint forces after `text`, by bytes and by longer tokens.
BOOST_AUTO_TEST_CASE(forced_text_is_guessed) {
  const Vocabulary bytes = Vocabulary::bytes();
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* longer : {"na", "name", "\":", "{\"", " \"", "{\"nobody"}) tokens.emplace_back(longer);
  const Vocabulary words(tokens, 263, {262});
  const auto guessed = [](const char* constraint, const std::string& text, const Vocabulary& vocabulary,
                          int most = 40) {
    const Made automaton = made(constraint);
    TokenMasks masks(*automaton, vocabulary);
    State state = automaton->start();
    BlankHabits habits;
    std::uint8_t last = 0;
    for (const char c : text) state = masks.advance(state, static_cast<std::uint8_t>(c), habits, last);
    std::vector<TokenId> ids;
    DraftWriter out(ids, most, vocabulary.width());
    masks.guess(state, habits, last, out);
    std::string all;
    for (const TokenId id : ids) all += std::string(vocabulary.bytes(id)) + "|";
    return all;
  };
  BOOST_TEST(guessed("r ab(c|d)ef", "", bytes) == "a|b|");
  BOOST_TEST(guessed("r ab(c|d)ef", "abc", bytes) == "e|f|");
  BOOST_TEST(guessed("r ab(c|d)ef", "abc", bytes, 1) == "e|");
  BOOST_TEST(guessed("r ab(c|d)ef", "abcef", bytes) == "");
  BOOST_TEST(guessed("r a+", "a", bytes) == "");        // the text may end
  BOOST_TEST(guessed("r a *b", "a", bytes) == " |b|");  // of blanks without end, it guesses one
  constexpr const char* kName =
      R"(s {"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false})";
  BOOST_TEST(guessed(kName, "", words) == "{\"|name|\":| \"|");  // of the blank that may stand there, it guesses one
  BOOST_TEST(guessed(kName, "{\"name\":\"x", words) == "");
  BOOST_TEST(guessed(kName, "{\"name\":\"x\"", words) == "}|");
  // After the first choice, blanks are guessed where the text put them before; those within strings do not count.
  constexpr const char* kThree =
      R"(s {"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"enum":["."]}},)"
      R"("required":["a","b","c"],"additionalProperties":false})";
  BOOST_TEST(guessed(kThree, R"({"a": "x","b": "y")", bytes) == R"(,|"|c|"|:| |"|.|"|}|)");
  BOOST_TEST(guessed(kThree, R"({"a":"x", "b":"y")", bytes) == R"(,| |"|c|"|:|"|.|"|}|)");
  BOOST_TEST(guessed(kThree, R"({"a":"x","b":"y, z: u")", bytes) == R"(,|"|c|"|:|"|.|"|}|)");
}

BOOST_AUTO_TEST_SUITE_END()
