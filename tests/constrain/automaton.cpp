#include "tenon/constrain/automaton.h"
#include "tenon/constrain/gbnf.h"
#include "tenon/constrain/schema.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "samples.h"
#include "tenon/constrain/compile.h"
#include "texts.h"

BOOST_AUTO_TEST_SUITE(constrain_automaton)

using namespace tenon;
using namespace tenon::constrain;
using namespace tenon::test;
using Made = std::unique_ptr<Automaton>;
using State = Automaton::State;

namespace {

constexpr State kDead = Automaton::kDead;

Made of_schema(const std::string& text, ConstraintLimits limits = {}) {
  return json_schema(OrderedJson::parse(text), {}, limits);
}

State walk(Automaton& automaton, std::string_view text) {
  State state = automaton.start();
  for (const char c : text) {
    if (state == kDead) break;
    state = automaton.step(state, static_cast<std::uint8_t>(c));
  }
  return state;
}

bool matches(Automaton& automaton, std::string_view text) {
  const State state = walk(automaton, text);
  return state != kDead && automaton.accepts(state);
}

// Every byte that is allowed.
std::string allowed(Automaton& automaton, State state) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    if (automaton.step(state, static_cast<std::uint8_t>(byte)) != kDead) bytes += static_cast<char>(byte);
  }
  return bytes;
}

template <class Act>
std::string refusal(Act&& act) {
  try {
    act();
    return "";
  } catch (const Refused& refused) {
    return (refused.kind() == Error::Kind::unsupported ? "unsupported " : "invalid ") + refused.where() + " " +
           refused.reason();
  }
}
bool begins(const std::string& text, const std::string& with) {
  if (!text.starts_with(with)) BOOST_TEST_MESSAGE("it says: " << text);
  return text.starts_with(with);
}

// A naive matcher: sets of expressions, each with what its callers expect. `depth`: most open calls. `all`: calls
// count that have nothing left to read.
class Reference {
 public:
  Reference(Grammar& grammar, std::size_t depth, bool all)
      : grammar_(grammar), e_(grammar.expressions), depth_(depth), all_(all) {}

  bool match(std::string_view text) {
    std::set<Place> places;
    add(places, {grammar_.start, {}});
    for (const char c : text) {
      std::set<Place> next;
      for (const auto& [e, callers] : places) {
        const Expr rest = e_.derivative(e, static_cast<unsigned char>(c));
        if (rest != Expressions::kNever) add(next, {rest, callers});
      }
      places = std::move(next);
    }
    return std::any_of(places.begin(), places.end(),
                       [&](const Place& place) { return place.second.empty() && e_.nullable(place.first); });
  }

 private:
  using Place = std::pair<Expr, std::vector<Expr>>;

  void add(std::set<Place>& places, Place place) {
    if (!places.insert(place).second) return;
    const auto& [e, callers] = place;
    if (e_.nullable(e) && !callers.empty()) add(places, {callers.back(), {callers.begin(), callers.end() - 1}});
    std::vector<Expressions::Call> calls;
    e_.first_calls(e, calls);
    for (const auto& call : calls) {
      Place inside = {grammar_.rules[static_cast<std::size_t>(call.rule)], callers};
      if (all_ || call.rest != Expressions::kEmpty) inside.second.push_back(call.rest);
      if (inside.second.size() <= depth_) add(places, std::move(inside));
    }
  }

  Grammar& grammar_;
  Expressions& e_;
  const std::size_t depth_;
  const bool all_;
};

// All states, each with those reached by one byte. Empty where there are more than `most`.
std::optional<std::vector<std::set<State>>> all_states(Automaton& automaton, std::size_t most) {
  std::vector<State> states = {automaton.start()};
  std::set<State> seen = {automaton.start()};
  std::vector<std::set<State>> next;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states.size() > most) return std::nullopt;
    std::set<State> reached;
    for (int byte = 0; byte < 256; ++byte) {
      const State to = automaton.step(states[i], static_cast<std::uint8_t>(byte));
      if (to == kDead) continue;
      reached.insert(to);
      if (seen.insert(to).second) states.push_back(to);
    }
    if (next.size() <= static_cast<std::size_t>(states[i])) next.resize(static_cast<std::size_t>(states[i]) + 1);
    next[static_cast<std::size_t>(states[i])] = std::move(reached);
  }
  return next;
}

// Number of states from which no end can be reached.
std::size_t dead_ends(Automaton& automaton, const std::vector<std::set<State>>& next) {
  std::vector<bool> ends(next.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t s = next.size(); s-- > 0;) {
      if (ends[s]) continue;
      ends[s] = automaton.accepts(static_cast<State>(s)) || std::any_of(next[s].begin(), next[s].end(), [&](State to) {
                  return static_cast<std::size_t>(to) < ends.size() && ends[static_cast<std::size_t>(to)];
                });
      changed |= ends[s];
    }
  }
  return static_cast<std::size_t>(std::count(ends.begin(), ends.end(), false));
}

// Whether some text leads from the state to an end. The search prefers closing bytes.
bool can_end(Automaton& automaton, State from) {
  std::string order = "]}\":";
  for (int byte = 0; byte < 256; ++byte) {
    if (order.find(static_cast<char>(byte)) == order.npos) order += static_cast<char>(byte);
  }
  std::vector<std::pair<State, std::size_t>> path = {{from, 0}};
  std::set<State> seen = {from};
  while (!path.empty() && seen.size() < 50'000) {
    auto& [state, tried] = path.back();
    if (automaton.accepts(state)) return true;
    if (tried == order.size()) {
      path.pop_back();
      continue;
    }
    const State to = automaton.step(state, static_cast<std::uint8_t>(order[tried++]));
    if (to != kDead && seen.insert(to).second) path.emplace_back(to, 0);
  }
  return false;
}

// All texts of up to seven letters a and b.
std::vector<std::string> short_texts() {
  std::vector<std::string> made = {""};
  for (std::size_t i = 0; made[i].size() < 7; ++i) {
    for (const char letter : {'a', 'b'}) made.push_back(made[i] + letter);
  }
  return made;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rules_that_no_text_matches_are_trimmed) {
  const Made a = grammar("root ::= \"a\" b | \"c\" d | d b\nb ::= \"x\" b\nd ::= \"d\" | b");
  BOOST_TEST(allowed(*a, a->start()) == "c");
  BOOST_TEST(allowed(*a, walk(*a, "c")) == "d");
  BOOST_TEST(matches(*a, "cd"));
  const Made mutual = grammar("root ::= (\"x\" p)* \"y\"\np ::= \"a\" q\nq ::= \"b\" p");
  BOOST_TEST(allowed(*mutual, mutual->start()) == "y");
  const Made twice = grammar("root ::= \"x\" p{2} | \"z\"\np ::= p2\np2 ::= \"(\" p2 \")\"");
  BOOST_TEST(allowed(*twice, twice->start()) == "z");
  const Made tree = of_schema(
      R"({"properties":{"a":{"$ref":"#"},"b":{"type":"null"}},"type":"object","additionalProperties":false})");
  BOOST_TEST(matches(*tree, R"({"a":{"a":{"b":null}}})"));
}

BOOST_AUTO_TEST_CASE(unsatisfiable_grammars_are_invalid) {
  for (const char* text : {"root ::= \"a\" root", "root ::= p\np ::= \"(\" q\nq ::= p \")\"", "root ::= root",
                           "root ::= \"a\" p+\np ::= \"b\" p"}) {
    BOOST_TEST(begins(refusal([&] { grammar(text); }), "invalid # unsatisfiable"), text);
  }
  for (const char* text : {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "false",
                           R"({"type":"array","items":{"$ref":"#"},"minItems":1})",
                           R"({"allOf":[{"type":"string","pattern":"^a"},{"pattern":"^b"}]})",
                           R"({"allOf":[{"type":"null"},{"type":"string"}]})"}) {
    BOOST_TEST(begins(refusal([&] { of_schema(text); }), "invalid "), text);
  }
  BOOST_TEST(begins(refusal([] { regex("a[^\\x00-\\u{10FFFF}]"); }), "invalid "));
}

BOOST_AUTO_TEST_CASE(calls_nest_as_deep_as_the_limit_and_no_deeper) {
  for (const int depth : {1, 2, 5, 64}) {
    const Made parens = grammar("root ::= \"(\" root \")\" | \"x\"", {.depth = depth});
    const std::string open(static_cast<std::size_t>(depth), '('), close(static_cast<std::size_t>(depth), ')');
    BOOST_TEST(matches(*parens, open + "x" + close));
    BOOST_TEST(allowed(*parens, walk(*parens, open)) == "x");
    // A rule that needs two more levels must not begin where only one is left.
    const Made pairs = grammar(
        "root ::= \"(\" root \")\" | \"<\" p \">\" | \"x\"\np ::= \"<\" q \">\" | \"<<\" p p \">>\"\n"
        "q ::= \"q\" | \"q\" q \"q\"",
        {.depth = depth});
    BOOST_TEST(allowed(*pairs, walk(*pairs, open)) == "x");
    if (depth > 1) BOOST_TEST(allowed(*pairs, walk(*pairs, open.substr(1))) == "(x");
    if (depth > 2) BOOST_TEST(allowed(*pairs, walk(*pairs, open.substr(2))) == "(<x");
  }
  const Made lists = of_schema(R"({"type":"array","items":{"$ref":"#"}})", {.depth = 10});
  std::string open;
  while (walk(*lists, open + "[") != kDead) open += '[';
  BOOST_TEST(open.size() >= 10u);
  BOOST_TEST(allowed(*lists, walk(*lists, open)) == "]");
  BOOST_TEST(matches(*lists, open + std::string(open.size(), ']')));
  const Made deeper = of_schema(R"({"type":"array","items":{"$ref":"#"}})", {.depth = 11});
  BOOST_TEST(walk(*deeper, open + "[") != kDead);
  BOOST_TEST(walk(*deeper, open + "[[") == kDead);
}

BOOST_AUTO_TEST_CASE(a_call_with_nothing_behind_it_takes_no_depth) {
  const Made list = grammar("root ::= item | item \",\" root\nitem ::= [0-9] | \"<\" root \">\"", {.depth = 3});
  std::string text = "7";
  for (int i = 1; i < 10'000; ++i) text += ",7";
  BOOST_TEST(matches(*list, text));
  BOOST_TEST(matches(*list, text + ",<" + text + ">"));
  BOOST_TEST(list->states() < 60u);
  const Made mutual = grammar("root ::= \"a\" p | \"\"\np ::= \"b\" root", {.depth = 3});
  std::string ab;
  for (int i = 0; i < 10'000; ++i) ab += "ab";
  BOOST_TEST(matches(*mutual, ab));
  BOOST_TEST(!matches(*mutual, ab + "a"));
}

// The text after a call may need more depth than the call itself.
BOOST_AUTO_TEST_CASE(text_after_a_call_needs_depth_too) {
  const std::string text =
      "root ::= \"(\" (p r | \"y\") \")\" | \"(\" root \")\" | \"x\"\np ::= \"p\" p \"q\" | \"qz\"\n"
      "r ::= \"<\" s \">\" | \"<\" r r \">\"\ns ::= \"[\" t \"]\" | \"[\" s s \"]\"\nt ::= \"t\" | \"t\" t \"t\"";
  for (const int depth : {1, 2, 3, 4, 5, 64}) {
    const Made automaton = grammar(text, {.depth = depth});
    for (int open = 1; open <= depth; ++open) {
      const std::string bytes = allowed(*automaton, walk(*automaton, std::string(static_cast<std::size_t>(open), '(')));
      // r is three levels deep, inside open - 1 brackets that are closed after calls.
      BOOST_TEST(bytes == (depth - open < 2 ? "(xy" : "(pqxy"),
                 "depth " << depth << ", " << open << " open: " << bytes);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_state_of_a_random_grammar_is_a_dead_end) {
  Random random(1);
  int explored = 0, large = 0;
  for (int round = 0; round < 1200; ++round) {
    const std::string text = random_grammar(random);
    const int depth = 1 + random.below(5);
    const Made automaton = made_or_none([&] { return grammar(text, {.bytes = 8 << 20, .depth = depth}); });
    if (!automaton) continue;
    try {
      const auto next = all_states(*automaton, 400);
      ++(next ? explored : large);
      if (next) BOOST_TEST(dead_ends(*automaton, *next) == 0u, text << "depth " << depth);
    } catch (const Refused&) {
      ++large;
    }
  }
  BOOST_TEST_MESSAGE(explored << " automata explored, " << large << " too large");
  BOOST_TEST(explored > 200);
}

BOOST_AUTO_TEST_CASE(steps_agree_with_the_plainest_matcher_on_random_grammars) {
  Random random(2);
  const auto texts = short_texts();
  int compared = 0, matched = 0;
  for (int round = 0; round < 500; ++round) {
    const std::string text = random_grammar(random);
    const int depth = random.once_in(2) ? 20 : 1 + random.below(4);
    const Made automaton = made_or_none([&] { return grammar(text, {.depth = depth}); });
    if (!automaton) continue;
    Grammar plain;
    compile_gbnf(plain, text);
    Reference fewer(plain, static_cast<std::size_t>(depth), true), more(plain, static_cast<std::size_t>(depth), false);
    BOOST_TEST_CONTEXT(text << "depth " << depth) {
      for (const std::string& each : texts) {
        if (each.size() > (depth < 20 ? 7u : 5u)) break;
        bool found = false;
        if (!refusal([&] { found = matches(*automaton, each); }).empty()) break;  // too ambiguous
        if (found)
          BOOST_TEST(more.match(each), "accepts " << each);
        else
          BOOST_TEST(!fewer.match(each), "rejects " << each);
        matched += found;
      }
    }
    ++compared;
  }
  BOOST_TEST_MESSAGE(compared << " grammars, " << matched << " texts match");
  BOOST_TEST(compared > 100);
  BOOST_TEST(matched > 2000);
}

BOOST_AUTO_TEST_CASE(walks_under_random_schemas_can_always_end) {
  Random random(3);
  int walks = 0;
  for (int round = 0; round < 150; ++round) {
    const std::string text = random_schema(random);
    const int depth = 3 + random.below(8);
    const Made automaton = made_or_none([&] { return of_schema(text, {.depth = depth}); });
    if (!automaton) continue;
    Grammar plain;
    compile_schema(plain, OrderedJson::parse(text));
    test::Texts reference(plain);
    BOOST_TEST_CONTEXT(text << " depth " << depth) {
      std::string walked;
      State state = automaton->start();
      for (int steps = 0; steps < 120; ++steps) {
        if (steps % 4 == 0) BOOST_REQUIRE_MESSAGE(can_end(*automaton, state), walked);
        std::string bytes = allowed(*automaton, state), opening;
        for (const char c : bytes) {
          if (c == '[' || c == '{' || c == '"' || c == ',') opening += c;  // part of the nesting
        }
        if (bytes.empty()) break;
        walked += random.of(opening.empty() || random.once_in(4) ? bytes : opening);
        state = automaton->step(state, static_cast<std::uint8_t>(walked.back()));
        if (walked.size() < 40 && automaton->accepts(state)) BOOST_TEST(reference.match(walked), walked);
      }
      ++walks;
    }
  }
  BOOST_TEST(walks > 80);
}

BOOST_AUTO_TEST_CASE(steps_agree_with_the_plainest_matcher_on_random_schemas) {
  Random random(4);
  const std::vector<std::string> pieces = {"[", "]", "{", "}",    "\"",   ",",     ":",      "a",
                                           "b", "1", "-", "null", "true", "\"a\"", "\"b\":", "[1, {\"a\": 2}]",
                                           " ", "."};
  const std::vector<std::string> values = {"1",
                                           "null",
                                           "\"a\"",
                                           "\"ab\"",
                                           "[]",
                                           "{}",
                                           "[1, {\"a\": 2}]",
                                           "[null]",
                                           "[[1],[]]",
                                           "{\"a\":1}",
                                           "{\"b\": null}",
                                           "{\"a\": [], \"b\": {}}",
                                           "-1.5",
                                           "19.99",
                                           "20",
                                           "\"2024-02-29\"",
                                           "\"2023-02-29\"",
                                           "{\"a\":1,\"b\":2,\"c\":null}",
                                           "[1,2,3]"};
  int matched = 0;
  for (int round = 0; round < 120; ++round) {
    const std::string text = random_schema(random);
    const Made automaton = made_or_none([&] { return of_schema(text); });
    if (!automaton) continue;
    Grammar plain;
    compile_schema(plain, OrderedJson::parse(text));
    test::Texts reference(plain);
    BOOST_TEST_CONTEXT(text) {
      for (int i = 0; i < 60; ++i) {
        std::string each = random.of(values);
        if (i >= 20)
          each.insert(static_cast<std::size_t>(random.below(static_cast<int>(each.size()) + 1)), random.of(pieces));
        if (i >= 40) each.erase(static_cast<std::size_t>(random.below(static_cast<int>(each.size()))), 1);
        BOOST_TEST(matches(*automaton, each) == reference.match(each), each);
        matched += matches(*automaton, each);
      }
    }
  }
  BOOST_TEST(matched > 200);
}

BOOST_AUTO_TEST_CASE(too_many_configurations_are_refused) {
  std::string rules, ways;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "r" + std::to_string(i);
    ways += (i > 0 ? " | " : "") + name + " \"" + std::to_string(i) + "\"";
    rules += name + " ::= \"a\" " + name + "? \"b" + std::to_string(i) + "\"\n";
  }
  BOOST_TEST(begins(refusal([&] { grammar("root ::= " + ways + "\n" + rules); }), "unsupported # too complex"));
  BOOST_TEST(begins(refusal([&] { grammar("root ::= \"xz\" (" + ways + ") | \"y\"\n" + rules); }),
                    "unsupported # too complex"));
  const std::string far(300, 'x');  // beyond the states that are made in advance
  const Made later = grammar("root ::= \"" + far + "\" (" + ways + ") | \"y\"\n" + rules);
  BOOST_TEST(begins(refusal([&] { walk(*later, far); }), "unsupported # too complex"));
  BOOST_TEST(begins(refusal([&] { walk(*later, far); }), "unsupported # too complex"));  // again
  BOOST_TEST(matches(*later, "y"));
  // The number of ways is the number of rules to the power of the depth.
  std::string doubling = "root ::= d0\n";
  for (int i = 0; i < 60; ++i)
    doubling +=
        "d" + std::to_string(i) + " ::= \"a\" d" + std::to_string(i + 1) + "? d" + std::to_string(i + 1) + "?\n";
  const auto begin = std::chrono::steady_clock::now();
  refusal([&] {
    const Made made = grammar(doubling + "d60 ::= \"a\"");
    walk(*made, std::string(100, 'a'));
  });
  BOOST_TEST((std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)));
}

BOOST_AUTO_TEST_CASE(limits_refuse) {
  std::string ways = "a";
  for (int i = 0; i < 20'000; ++i) ways += "|word" + std::to_string(i);
  BOOST_TEST(
      begins(refusal([&] { regex(ways, {.bytes = 1 << 20}); }), "unsupported # too complex: it needs more than 1 MiB"));
  const std::string meet =
      R"({"type":"string","allOf":[{"pattern":"^(a|b)*a(a|b){30}$"},{"pattern":"^(a|b)*b(a|b){30}$"}]})";
  const auto begin = std::chrono::steady_clock::now();
  const std::string late = refusal([&] { of_schema(meet, {.time = std::chrono::milliseconds(50)}); });
  BOOST_TEST(begins(late, "unsupported # too complex: it takes more than 50 ms"));
  BOOST_TEST((std::chrono::steady_clock::now() - begin < std::chrono::seconds(2)));
  std::string nested;
  for (int i = 0; i < 40; ++i) nested += R"({"type":"array","items":)";
  BOOST_TEST(begins(refusal([&] { of_schema(nested + "{}" + std::string(40, '}'), {.nesting = 5}); }),
                    "unsupported # too complex: nested"));
}

BOOST_AUTO_TEST_CASE(a_text_that_needs_too_many_states_is_refused_and_others_go_on) {
  Random random(5);
  const Made automaton = regex("(a|b)*a(a|b){60}", {.bytes = 1 << 20});
  std::string said;
  for (int i = 0; i < 2000 && said.empty(); ++i) {
    std::string text;
    while (text.size() < 200) text += random.once_in(2) ? 'a' : 'b';
    said = refusal([&] { walk(*automaton, text); });
  }
  BOOST_TEST(begins(said, "unsupported # too complex: it needs more than 1 MiB"));
  const State first = automaton->step(automaton->start(), 'a');  // already made
  BOOST_TEST(first != kDead);
  BOOST_TEST(automaton->step(automaton->start(), 'a') == first);
  BOOST_TEST(automaton->step(automaton->start(), 'c') == kDead);
}

BOOST_AUTO_TEST_SUITE_END()
