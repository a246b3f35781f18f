// Texts that must end within a number of tokens always do, and no token that could end in time is forbidden.
#include "tenon/constrain/token_distance.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "samples.h"
#include "tenon/constrain/constraints.h"
#include "tenon/constrain/token_mask.h"

BOOST_AUTO_TEST_SUITE(constrain_token_distance)

using namespace tenon;
using namespace tenon::constrain;
using namespace tenon::test;
using State = Automaton::State;

namespace {

std::vector<TokenId> ids_of(std::span<const MaskWord> row, int width) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < width; ++id) {
    if (allows(row, id)) ids.push_back(id);
  }
  return ids;
}

// Expected mask, token by token.
std::vector<TokenId> right(Automaton& automaton, const Vocabulary& vocabulary, State state, int tokens) {
  std::vector<std::pair<TokenId, int>> all;
  int nearest = automaton.accepts(state) ? 0 : FewestBytes::kEndless;
  for (TokenId id = 0; id < vocabulary.width(); ++id) {
    State to = vocabulary.bytes(id).empty() ? Automaton::kDead : state;
    for (const char byte : vocabulary.bytes(id)) {
      if (to != Automaton::kDead) to = automaton.step(to, static_cast<std::uint8_t>(byte));
    }
    if (to != Automaton::kDead)
      all.push_back({id, automaton.distance(to)}), nearest = std::min(nearest, all.back().second);
  }
  const int most = automaton.accepts(state) ? tokens - 1 : std::max(tokens - 1, nearest);
  std::vector<TokenId> ids;
  for (const auto& [id, distance] : all) {
    if (distance <= most) ids.push_back(id);
  }
  if (automaton.accepts(state)) ids.insert(ids.end(), vocabulary.ends().begin(), vocabulary.ends().end());
  std::sort(ids.begin(), ids.end());
  return ids;
}

struct Walks {
  int in_time = 0, cut_short = 0, masks = 0;
};

// Random walks within a budget. `every`: one mask in `every` is compared with right(); 0: none.
void walk(Automaton& automaton, const Vocabulary& vocabulary, std::mt19937& random, int budget, int every,
          Walks& counts) {
  TokenMasks masks(automaton, vocabulary);
  State state = automaton.start();
  const bool possible = automaton.distance(state) <= budget;
  for (int left = budget; left > 0; --left, ++counts.masks) {
    const auto ids = ids_of(masks.mask_within(state, left), vocabulary.width());
    BOOST_REQUIRE(!ids.empty());
    if (every > 0 && counts.masks % every == 0) BOOST_REQUIRE(ids == right(automaton, vocabulary, state, left));
    const bool ends_alone =
        std::all_of(ids.begin(), ids.end(), [&](TokenId id) { return vocabulary.bytes(id).empty(); });
    BOOST_REQUIRE(masks.must_end(state, left) == ends_alone);
    const TokenId token = ids[random() % ids.size()];
    const auto& ends = vocabulary.ends();
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) return void(++counts.in_time);
    const int before = automaton.distance(state);
    state = masks.advance(state, token);
    BOOST_REQUIRE(state != Automaton::kDead);
    if (before > left) BOOST_REQUIRE(automaton.distance(state) < before);  // as soon as possible
  }
  if (possible) BOOST_REQUIRE(automaton.accepts(state));
  ++(automaton.accepts(state) ? counts.in_time : counts.cut_short);
}

// Number of texts under mask() alone that exceed the same budgets.
int runs_out(Automaton& automaton, const Vocabulary& vocabulary, std::mt19937& random, int budget) {
  TokenMasks masks(automaton, vocabulary);
  State state = automaton.start();
  for (int left = budget; left > 0; --left) {
    const auto ids = ids_of(masks.mask(state), vocabulary.width());
    const TokenId token = ids[random() % ids.size()];
    if (vocabulary.bytes(token).empty()) return 0;
    state = masks.advance(state, token);
  }
  return !automaton.accepts(state);
}

}  // namespace

BOOST_AUTO_TEST_CASE(texts_end_in_time) {
  std::mt19937 random(5);
  Walks counts;
  int without = 0;
  for (const Vocabulary& vocabulary : {Vocabulary::bytes(), awkward()}) {
    for (const std::string& constraint : constraints()) {
      const auto automaton = made(constraint);
      for (const int budget : {1, 2, 3, 5, 8, 13, 21, 34, 55, 89}) {
        BOOST_TEST_CONTEXT(constraint << ", " << budget << " tokens") {
          walk(*automaton, vocabulary, random, budget, 7, counts);
          if (automaton->distance(automaton->start()) <= budget)
            without += runs_out(*automaton, vocabulary, random, budget);
        }
      }
    }
  }
  BOOST_TEST_MESSAGE(counts.in_time << " in time, " << counts.cut_short << " with too small a budget; " << without
                                    << " run out otherwise");
  BOOST_TEST(counts.in_time > 300);
  BOOST_TEST(without > 100);  // the test can fail: without the limit, texts run out
}

BOOST_AUTO_TEST_CASE(under_random_constraints) {
  Random random(21);
  std::mt19937 draws(6);
  Walks counts;
  int without = 0;
  const Vocabulary vocabulary = awkward();
  for (int i = 0; i < 240; ++i) {
    const ConstraintLimits limits{.depth = i % 5 == 0 ? 3 : 64};
    const std::string text = i % 2 == 0 ? random_schema(random) : random_grammar(random);
    const auto automaton =
        made_or_none([&] { return i % 2 == 0 ? json_schema(text, {}, limits) : grammar(text, limits); });
    if (!automaton) continue;
    const int least = automaton->distance(automaton->start());
    for (const int budget : {least, least + 1, least + 6, 3 * least + 20, least / 2 + 1}) {
      BOOST_TEST_CONTEXT(text << ", " << budget << " tokens") {
        unless_refused([&] {
          walk(*automaton, vocabulary, draws, budget, 11, counts);
          if (budget >= least) without += runs_out(*automaton, vocabulary, draws, budget);
        });
      }
    }
  }
  BOOST_TEST(counts.in_time > 500);
  BOOST_TEST(without > 100);
}

BOOST_AUTO_TEST_CASE(an_ample_budget_changes_nothing) {
  std::mt19937 random(7);
  const Vocabulary vocabulary = awkward();
  for (const std::string& constraint : constraints()) {
    const auto automaton = made(constraint);
    TokenMasks masks(*automaton, vocabulary);
    State state = automaton->start();
    for (int i = 0; i < 30; ++i) {
      const auto all = ids_of(masks.mask(state), vocabulary.width());
      BOOST_TEST((ids_of(masks.mask_within(state, 1 << 30), vocabulary.width()) == all), constraint);
      const TokenId token = all[random() % all.size()];
      if (vocabulary.bytes(token).empty()) break;
      state = masks.advance(state, token);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_answer_counts_its_tokens) {
  Constraints constraints(Vocabulary::bytes());
  const auto regex = constraints.regex("(ab|xyz)*");
  BOOST_TEST(regex->counts_tokens());
  const auto text = [&](ConstraintState& state, int tokens) {
    std::string all;
    for (const TokenId id : ids_of(state.mask_within(tokens), 257)) all += id == 256 ? '$' : static_cast<char>(id);
    return all;
  };
  const auto state = regex->start();
  BOOST_TEST(text(*state, 3) == "ax$");
  BOOST_TEST(text(*state, 2) == "a$");
  state->advance('a');
  BOOST_TEST(!state->must_end());
  BOOST_TEST(text(*state, 1) == "b");
  state->advance('b');
  BOOST_TEST(state->must_end());  // no tokens are left
  state->mask();
  BOOST_TEST(!state->must_end());
  BOOST_TEST(text(*state, 1) == "$");
  BOOST_TEST(state->must_end());
}

// Prints times. It checks a bound only where the machine cannot be the cause.
BOOST_AUTO_TEST_CASE(time_of_gpt2s_vocabulary) {
  const std::filesystem::path folder = TENON_SOURCE_DIR "/../shared/gpt2-tokenizer";
  if (!std::filesystem::exists(folder / "vocab.json")) return;
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const Vocabulary vocabulary = Vocabulary::from(tokenizer);
  std::mt19937 random(8);
  for (const std::string& constraint : constraints()) {
    const auto automaton = made(constraint);
    TokenMasks masks(*automaton, vocabulary);
    double plain = 0, first = 0, worst = 0, again = 0;
    int n = 0;
    const auto timed = [](auto&& act) {
      const auto begin = std::chrono::steady_clock::now();
      act();
      return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    };
    State state = automaton->start();
    for (int left = 60; left > 0; --left, ++n) {
      plain += timed([&] { masks.mask(state); });
      const double us = timed([&] { masks.mask_within(state, left); });
      first += us, worst = std::max(worst, us);
      again += timed([&] { masks.mask_within(state, left); });
      const auto ids = ids_of(masks.mask_within(state, left), vocabulary.width());
      const TokenId token = ids[random() % ids.size()];
      if (vocabulary.bytes(token).empty()) break;
      state = masks.advance(state, token);
    }
    BOOST_TEST_MESSAGE(constraint.substr(0, 60) << ": us a mask " << plain / n << ", within " << first / n
                                                << " more, at worst " << worst << "; again " << again / n);
    BOOST_TEST(worst < 200e3);
  }
}

BOOST_AUTO_TEST_SUITE_END()
