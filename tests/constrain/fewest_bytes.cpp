// Distances of states from the end, compared with a byte-by-byte search.
#include "tenon/constrain/fewest_bytes.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "samples.h"
#include "tenon/constrain/automaton.h"

BOOST_AUTO_TEST_SUITE(constrain_fewest_bytes)

using namespace tenon;
using namespace tenon::constrain;
using namespace tenon::test;
using State = Automaton::State;

namespace {

// Empty where too many states are within reach.
std::optional<int> searched(Automaton& automaton, State from) {
  std::vector<State> level = {from};
  std::unordered_set<State> seen = {from};
  for (int bytes = 0; !level.empty(); ++bytes) {
    std::vector<State> next;
    for (const State state : level) {
      if (automaton.accepts(state)) return bytes;
      for (int byte = 0; byte < 256; ++byte) {
        const State to = automaton.step(state, static_cast<std::uint8_t>(byte));
        if (to != Automaton::kDead && seen.insert(to).second) next.push_back(to);
      }
    }
    if (seen.size() > 3000) return std::nullopt;
    level = std::move(next);
  }
  BOOST_ERROR("no way leads to the end");
  return std::nullopt;
}

// `exact`: the call depth does not bind. Returns the number of states compared with a search.
int check(Automaton& automaton, std::mt19937& random, bool exact, int walks, int steps) {
  int compared = 0;
  for (int walk = 0; walk < walks; ++walk) {
    State state = automaton.start();
    for (int i = 0; i < steps; ++i) {
      const int distance = automaton.distance(state);
      std::vector<State> next;
      int nearest = FewestBytes::kEndless;
      for (int byte = 0; byte < 256; ++byte) {
        const State to = automaton.step(state, static_cast<std::uint8_t>(byte));
        if (to == Automaton::kDead) continue;
        next.push_back(to);
        nearest = std::min(nearest, automaton.distance(to));
      }
      BOOST_REQUIRE((distance == 0) == automaton.accepts(state));
      BOOST_REQUIRE(distance < FewestBytes::kEndless);
      if (distance > 0) BOOST_REQUIRE(nearest < distance);
      if (distance > 0 && exact) BOOST_REQUIRE(nearest == distance - 1);
      if (i % 4 == 0) {
        const auto right = searched(automaton, state);
        if (right && exact) BOOST_REQUIRE(distance == *right);
        if (right) BOOST_REQUIRE(distance >= *right);
        compared += right.has_value();
      }
      if (next.empty()) break;
      state = next[random() % next.size()];
    }
  }
  return compared;
}

}  // namespace

BOOST_AUTO_TEST_CASE(as_a_search_finds_them) {
  std::mt19937 random(1);
  int compared = 0;
  for (const std::string& constraint : constraints()) {
    BOOST_TEST_CONTEXT(constraint) {
      const auto automaton = made(constraint);
      compared += check(*automaton, random, true, 4, 24);
    }
  }
  BOOST_TEST(compared > 200);
}

BOOST_AUTO_TEST_CASE(of_random_constraints) {
  Random random(11);
  std::mt19937 walks(2);
  int tried = 0, compared = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string text = i % 2 == 0 ? random_schema(random) : random_grammar(random);
    const auto automaton = made_or_none([&] { return i % 2 == 0 ? json_schema(text) : grammar(text); });
    if (!automaton) continue;
    ++tried;
    BOOST_TEST_CONTEXT(text) {
      unless_refused([&] { compared += check(*automaton, walks, true, 2, 20); });
    }
  }
  BOOST_TEST(tried > 150);
  BOOST_TEST(compared > 1000);
}

// The shortest text may need calls that are too deep here. The counted length is reached nevertheless.
BOOST_AUTO_TEST_CASE(where_calls_are_bounded) {
  Random random(12);
  std::mt19937 walks(3);
  int tried = 0;
  for (int i = 0; i < 400; ++i) {
    const ConstraintLimits limits{.depth = 1 + i % 5};
    const std::string text = i % 4 == 0 ? random_schema(random) : random_grammar(random);
    const auto automaton =
        made_or_none([&] { return i % 4 == 0 ? json_schema(text, {}, limits) : grammar(text, limits); });
    if (!automaton) continue;
    ++tried;
    BOOST_TEST_CONTEXT(text << " depth " << limits.depth) {
      unless_refused([&] { check(*automaton, walks, false, 3, 20); });
    }
  }
  BOOST_TEST(tried > 150);
  const auto deep =
      grammar("root ::= \"(\" root \")\" | \"a\" b \"a\" | \"yyyyyyyyyy\"\nb ::= \"b\" b \"b\" | \"c\"", {.depth = 2});
  State state = deep->start();
  for (const int distance : {3, 4, 12}) {
    BOOST_TEST(deep->distance(state) == distance);
    state = deep->step(state, '(');
  }
}

BOOST_AUTO_TEST_CASE(intersections_are_searched) {
  const auto from_start = [](const std::string& constraint) {
    const auto automaton = made(constraint);
    return automaton->distance(automaton->start());
  };
  BOOST_TEST(from_start(R"(s {"type":"string","pattern":"b{3}","minLength":500})") == 502);
  BOOST_TEST(from_start(R"(s {"type":"string","pattern":"^(ab|cde){2,}$","minLength":7})") == 9);
  BOOST_TEST(from_start(R"(s {"type":"string","not":{"pattern":"^[^]{0,3}$"}})") == 6);
  BOOST_TEST(from_start(R"(s {"type":"array","items":{"type":"string","pattern":"xyz"},"minItems":100000})") ==
             2 + 100000 * 5 + 99999);
  BOOST_TEST(from_start("r [a-z]{100000}b?") == 100000);
}

// With time for a busy machine.
std::unique_ptr<Automaton> made_slowly(const std::string& schema) {
  return json_schema(schema, {}, {.time = std::chrono::seconds(60)});
}

// More derivatives than are explored. There is a path to the end nevertheless, on which each byte decreases the
// distance.
BOOST_AUTO_TEST_CASE(unexplored_derivatives_have_a_path_to_the_end) {
  std::mt19937 random(9);
  for (
      const std::string constraint :
      {R"({"type":"string","format":"email","maxLength":320})",
       R"({"type":"string","format":"uri","maxLength":2083,"minLength":1})",
       R"({"type":"string","minLength":200,"maxLength":3000,"pattern":"^([a-z]{3}|[0-9]{5})*x[a-z]{2}[0-9]*$"})",
       R"({"type":"array","minItems":2,"items":{"type":"string","minLength":100,"maxLength":1500,"pattern":"^([a-z]{3}|[0-9]{5}|;{7})*x[a-z]{2}$"}})"}) {
    const auto automaton = made_slowly(constraint);
    automaton->prepare_distances();
    State state = automaton->start();
    for (int i = 0; i < 400; ++i) {
      const int distance = automaton->distance(state);
      BOOST_REQUIRE(distance < FewestBytes::kEndless);
      BOOST_REQUIRE((distance == 0) == automaton->accepts(state));
      std::vector<State> next;
      int nearest = FewestBytes::kEndless;
      for (int byte = 0; byte < 256; ++byte) {
        const State to = automaton->step(state, static_cast<std::uint8_t>(byte));
        if (to == Automaton::kDead) continue;
        next.push_back(to);
        nearest = std::min(nearest, automaton->distance(to));
      }
      if (distance > 0) BOOST_REQUIRE(nearest < distance);
      if (next.empty()) break;
      state = next[random() % next.size()];
    }
  }
}

// Earlier queries change no result. Otherwise requests would depend on one another.
BOOST_AUTO_TEST_CASE(distances_do_not_depend_on_what_was_asked_before) {
  const std::string constraint =
      R"({"type":"string","minLength":100,"maxLength":2000,"pattern":"^([a-z]{3}|[0-9]{5}|;{7})*x[a-z]{2}[0-9]*$"})";
  const std::string text = "\"abc01234;;;;;;;q";
  const auto at = [&](Automaton& automaton) {
    State state = automaton.start();
    for (const char c : text) state = automaton.step(state, static_cast<std::uint8_t>(c));
    return automaton.distance(state);
  };
  const auto asked = made_slowly(constraint), fresh = made_slowly(constraint);
  std::mt19937 random(10);
  for (int walk = 0; walk < 20; ++walk) {
    State state = asked->start();
    for (int i = 0; i < 60; ++i) {
      asked->distance(state);
      const State to = asked->step(state, static_cast<std::uint8_t>(i == 0 ? '"' : "abx0;"[random() % 5]));
      if (to == Automaton::kDead) continue;
      state = to;
    }
  }
  BOOST_TEST(at(*asked) == at(*fresh));
}

BOOST_AUTO_TEST_SUITE_END()
