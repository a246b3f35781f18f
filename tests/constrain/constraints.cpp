#include "tenon/constrain/constraints.h"

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(constrain_constraints)

using namespace tenon;
using namespace tenon::constrain;
using Json = nlohmann::ordered_json;

namespace {

template <class Act>
std::optional<Error::Kind> error_of(Act&& act) {
  try {
    act();
    return std::nullopt;
  } catch (const Error& error) {
    return error.kind();
  }
}

std::vector<TokenId> allowed(ConstraintState& state) {
  const auto row = state.mask();
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < static_cast<TokenId>(32 * row.size()); ++id) {
    if (allows(row, id)) ids.push_back(id);
  }
  return ids;
}
std::string text_of(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += id == 256 ? '$' : static_cast<char>(id);
  return text;
}

void write(ConstraintState& state, const std::string& text) {
  for (const char c : text) state.advance(static_cast<unsigned char>(c));
}

// A random text under the constraint, with the end as '$'.
std::string random_text(const Constraint& constraint, unsigned seed, std::size_t most) {
  std::mt19937 random(seed);
  const auto state = constraint.start();
  std::string text;
  while (text.size() < most) {
    const auto ids = allowed(*state);
    const TokenId id = ids.at(random() % ids.size());
    if (id == 256) return text + '$';
    state->advance(id);
    text += static_cast<char>(id);
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(equal_texts_are_compiled_once) {
  Constraints constraints(Vocabulary::bytes());
  const auto schema = constraints.json_schema(R"({"type": "integer"})");
  BOOST_TEST(constraints.json_schema(R"({"type":"integer"})") == schema);  // same JSON value, other text
  BOOST_TEST(constraints.json_schema(OrderedJson{{"type", "integer"}}) == schema);
  BOOST_TEST(constraints.regex("a") == constraints.regex("a"));
  BOOST_TEST(constraints.grammar("root ::= \"a\"") == constraints.grammar("root ::= \"a\""));
  BOOST_TEST(schema->vocab() == 257);
  BOOST_TEST(schema->bytes() > 0u);
  // The order of keys matters.
  const auto ab = constraints.json_schema(R"({"properties":{"a":{},"b":{}}})"),
             ba = constraints.json_schema(R"({"properties":{"b":{},"a":{}}})");
  BOOST_TEST(ab != ba);
}

BOOST_AUTO_TEST_CASE(the_same_text_of_another_kind_is_another_constraint) {
  Constraints constraints(Vocabulary::bytes());
  const auto schema = constraints.json_schema("true");
  const auto regex = constraints.regex("true");
  BOOST_TEST((static_cast<const void*>(schema.get()) != regex.get()));
  BOOST_TEST(text_of(allowed(*regex->start())) == "t");
  BOOST_TEST(text_of(allowed(*schema->start())) == "\"-0123456789[fnt{");
  const auto grammar = constraints.grammar("root ::= [ab]");
  const auto same = constraints.regex("root ::= [ab]");
  BOOST_TEST(text_of(allowed(*grammar->start())) == "ab");
  BOOST_TEST(text_of(allowed(*same->start())) == "r");
}

BOOST_AUTO_TEST_CASE(a_choice_is_exactly_one_of_its_texts) {
  Constraints constraints(Vocabulary::bytes());
  const std::vector<std::string> texts = {"yes", "no", "nothing", "", "\"q\""};
  const auto choice = constraints.choice(texts);
  const auto next = [&](const std::string& text) {
    const auto state = choice->start();
    write(*state, text);
    return text_of(allowed(*state));
  };
  BOOST_TEST(next("") == "\"ny$");
  BOOST_TEST(next("no") == "t$");
  BOOST_TEST(next("not") == "h");
  BOOST_TEST(next("yes") == "$");
  BOOST_TEST(next("\"q") == "\"");
  // Order and repetition do not matter; the boundaries between texts do.
  BOOST_TEST(constraints.choice(std::vector<std::string>{"no", "nothing", "yes", "", "\"q\""}) == choice);
  const std::vector<std::string> one = {"a 1 b"}, two = {"a", "b"};
  BOOST_TEST(constraints.choice(one) != constraints.choice(two));
  BOOST_TEST((error_of([&] { constraints.choice(std::vector<std::string>{}); }) == Error::Kind::invalid_request));
  // A list of thousands is accepted. Texts that are prefixes of one another more than a thousand deep are refused
  // without a stack overflow.
  std::vector<std::string> many;
  for (int i = 0; i < 20'000; ++i) many.push_back("item " + std::to_string(i));
  BOOST_TEST(text_of(allowed(*constraints.choice(many)->start())) == "i");
  std::vector<std::string> nested;
  for (std::size_t i = 1; i <= 3000; ++i) nested.emplace_back(i, 'a');
  BOOST_TEST((error_of([&] { constraints.choice(nested); }) == Error::Kind::unsupported));
}

BOOST_AUTO_TEST_CASE(old_constraints_leave_the_cache_and_stay_valid_for_their_users) {
  Constraints constraints(Vocabulary::bytes());
  const auto kept = constraints.regex("kept"), left = constraints.regex("left");
  const std::weak_ptr<const CompiledConstraint> unused = constraints.regex("unused");
  BOOST_TEST(!unused.expired());
  for (int i = 0; i < 100; ++i) {
    constraints.regex("number " + std::to_string(i));
    if (i % 10 == 0) BOOST_TEST(constraints.regex("kept") == kept);
  }
  BOOST_TEST(unused.expired());
  BOOST_TEST(constraints.regex("left") != left);
  BOOST_TEST(text_of(allowed(*left->start())) == "l");
}

BOOST_AUTO_TEST_CASE(options_and_limits_hold_for_all_constraints) {
  const auto second = [](Constraints& constraints) {
    const auto state = constraints.json_schema(R"({"type":"array","items":{"const":1}})")->start();
    write(*state, "[1,");
    return text_of(allowed(*state));
  };
  Constraints single(Vocabulary::bytes()),
      compact(Vocabulary::bytes(), {.whitespace = SchemaOptions::Whitespace::compact});
  BOOST_TEST(second(single) == " 1");
  BOOST_TEST(second(compact) == "1");
  Constraints small(Vocabulary::bytes(), {}, {.bytes = 64 << 10});
  std::string ways = "a";
  for (int i = 0; i < 5000; ++i) ways += "|word" + std::to_string(i);
  BOOST_TEST((error_of([&] { small.regex(ways); }) == Error::Kind::unsupported));
  BOOST_TEST(!error_of([&] { small.regex("a"); }));
  BOOST_TEST(!error_of([&] { single.regex(ways); }));
}

BOOST_AUTO_TEST_CASE(answers_under_one_constraint_do_not_disturb_one_another) {
  Constraints constraints(Vocabulary::bytes());
  const auto shared = constraints.json_schema(
      R"({"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"]})");
  const auto one = shared->start(), two = shared->start();
  write(*one, "{\"a\"");
  const auto of_one = one->mask();
  const std::vector<std::uint32_t> before(of_one.begin(), of_one.end());
  BOOST_TEST(text_of(allowed(*two)) == "{");
  write(*two, "{\"a\": \"xy");
  two->mask();
  shared->start()->mask();
  BOOST_TEST(std::equal(of_one.begin(), of_one.end(), before.begin()));  // valid until the next call on the same answer
  BOOST_TEST(text_of(allowed(*one)) == ":");
  write(*two, "z\"");
  BOOST_TEST(text_of(allowed(*two)) == "}");
  BOOST_TEST(!two->must_end());
  write(*two, "}");
  BOOST_TEST(two->must_end());
  BOOST_TEST(text_of(allowed(*two)) == "$");
  BOOST_TEST(!one->must_end());
}

BOOST_AUTO_TEST_CASE(a_forbidden_token_fails_its_answer_alone) {
  Constraints constraints(Vocabulary::bytes());
  const auto shared = constraints.regex("ab");
  const auto one = shared->start(), two = shared->start();
  BOOST_TEST((error_of([&] { one->advance('b'); }) == Error::Kind::internal));
  BOOST_TEST((error_of([&] { shared->start()->advance(256); }) == Error::Kind::internal));
  write(*two, "ab");
  BOOST_TEST(two->must_end());
}

BOOST_AUTO_TEST_CASE(an_answer_keeps_its_constraint) {
  std::unique_ptr<ConstraintState> state;
  {
    Constraints constraints(Vocabulary::bytes());
    state = constraints.regex("a[bc]")->start();
  }
  write(*state, "a");
  BOOST_TEST(text_of(allowed(*state)) == "bc");
}

BOOST_AUTO_TEST_CASE(refusals_have_kind_and_reason) {
  Constraints constraints(Vocabulary::bytes());
  using Kind = Error::Kind;
  const std::vector<std::pair<std::string, Kind>> schemas = {
      {"{", Kind::invalid_request},
      {"", Kind::invalid_request},
      {"{\"type\":\"strin\"}", Kind::invalid_request},
      {"false", Kind::invalid_request},
      {"{\"a\":1,\"a\":2}", Kind::invalid_request},
      {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}", Kind::unsupported},
      {"{\"$ref\":\"http://example.com/x\"}", Kind::unsupported},
      {"[]", Kind::invalid_request},
      {"{\"enum\":[\"\xFF\"]}", Kind::invalid_request}};
  for (const auto& [text, kind] : schemas) BOOST_TEST((error_of([&] { constraints.json_schema(text); }) == kind), text);
  for (const auto& [text, kind] : std::vector<std::pair<std::string, Kind>>{{"(", Kind::invalid_request},
                                                                            {"(?>a)", Kind::unsupported},
                                                                            {"a(?=b)", Kind::invalid_request},
                                                                            {"a{2,1}", Kind::invalid_request}}) {
    BOOST_TEST((error_of([&] { constraints.regex(text); }) == kind), text);
  }
  for (const auto& [text, kind] :
       std::vector<std::pair<std::string, Kind>>{{"", Kind::invalid_request},
                                                 {"root ::= \"a\" root", Kind::invalid_request},
                                                 {"root ::= p", Kind::invalid_request}}) {
    BOOST_TEST((error_of([&] { constraints.grammar(text); }) == kind), text);
  }
  // A refused constraint is not cached.
  BOOST_TEST((error_of([&] { constraints.regex("("); }) == Kind::invalid_request));
  BOOST_TEST((error_of([] { Constraints none(Vocabulary({"a", "b"}, 3, {2})); }) == Kind::unsupported));
}

namespace {

// The text of the lowest allowed tokens, up to the end or `most` tokens.
std::string first_text(ConstraintState& state, std::size_t most) {
  std::string text;
  for (; text.size() < most; state.advance(static_cast<unsigned char>(text.back()))) {
    const TokenId id = allowed(state).at(0);
    if (id == 256) break;
    text += static_cast<char>(id);
  }
  return text;
}

// For tests that do not measure time: other work may share the machine.
const ConstraintLimits kPatient = {.time = std::chrono::seconds(60), .step_time = std::chrono::seconds(20)};

// The shortest text has 97 * 89 * 13 = 112,229 characters. The search explores 16,384 states and walks 256 bytes at
// most.
const char* const kTooLong =
    R"({"type":"string","allOf":[{"pattern":"^(a{97})+$"},{"pattern":"^(a{89})+$"},{"pattern":"^(a{13})+$"}]})";

}  // namespace

BOOST_AUTO_TEST_CASE(counting_is_refused_early_and_harms_no_other_answer) {
  Constraints constraints(Vocabulary::bytes(), {}, kPatient);
  const auto shared = constraints.json_schema(kTooLong);
  const auto plain = shared->start();
  const std::string before = first_text(*plain, 3);
  const std::size_t bytes = shared->bytes();
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    BOOST_TEST((error_of([&] { shared->counts_tokens(); }) == Error::Kind::unsupported));
    if (i > 0) BOOST_TEST(std::clock() - begin < CLOCKS_PER_SEC / 20);  // remembered
  }
  BOOST_TEST((error_of([&] { shared->start()->mask_within(100); }) == Error::Kind::unsupported));
  BOOST_TEST(shared->bytes() == bytes);
  BOOST_TEST(first_text(*plain, 50) == std::string(50, 'a'));
  BOOST_TEST(first_text(*shared->start(), 3) == before);
  const auto phases = constraints.json_schema(
      R"({"type":"string","minLength":1500,"pattern":"^([a-z]{3}|[0-9]{5}|;{7})*x[a-z]{2}[0-9]*$"})");
  BOOST_TEST((error_of([&] { phases->counts_tokens(); }) == Error::Kind::unsupported));
}

BOOST_AUTO_TEST_CASE(lists_of_unique_items_reach_min_items) {
  Constraints constraints(Vocabulary::bytes(), {}, kPatient);
  const auto written = [&](int values, int least) {
    Json::array_t names;
    for (int i = 0; i < values; ++i) names.push_back("v" + std::to_string(i));
    const Json schema = {{"type", "array"},
                         {"items", {{"enum", names}}},
                         {"uniqueItems", true},
                         {"minItems", least},
                         {"maxItems", least}};
    const Json list = Json::parse(first_text(*constraints.json_schema(schema.dump())->start(), 4000));
    std::set<std::string> different;
    for (const Json& item : list) different.insert(item.get<std::string>());
    BOOST_TEST(list.size() == static_cast<std::size_t>(least));
    BOOST_TEST(different.size() == list.size());
  };
  const std::clock_t begin = std::clock();
  written(15, 10), written(26, 5), written(30, 30);
  BOOST_TEST(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 30.0);
}

BOOST_AUTO_TEST_CASE(counting_tables_are_made_once_and_leave_plain_answers_alone) {
  std::string text = "root ::= r0\n";  // 60 rules in a circle, each with 60 ways to call the next one
  for (int rule = 0; rule < 60; ++rule) {
    text += "r" + std::to_string(rule) + " ::= \"end of rule\"";
    for (int way = 0; way < 60; ++way) {
      text += " | \"" + std::to_string(way) + "_\" r" + std::to_string((rule + 1) % 60) + " \"" + std::to_string(way) +
              "\"";
    }
    text += "\n";
  }
  Constraints constraints(Vocabulary::bytes());
  const auto shared = constraints.grammar(text);
  const auto plain = shared->start();
  plain->mask();
  const std::size_t bytes = shared->bytes();
  BOOST_TEST(shared->counts_tokens());
  BOOST_TEST(shared->bytes() < 6 * bytes);  // the plain and the counting automaton, and the tables of the latter
  const std::size_t counting = shared->bytes();
  for (int i = 0; i < 20; ++i) {
    BOOST_TEST(shared->counts_tokens());
    const auto state = shared->start();
    state->mask_within(50);
    write(*state, "0");
  }
  BOOST_TEST(shared->bytes() < counting + (1 << 20));  // the tables are not made again
  BOOST_TEST(first_text(*plain, 11).size() == 11u);
}

BOOST_AUTO_TEST_CASE(tables_give_their_bytes_back) {
  Budget budget({.bytes = 1000});
  {
    Spent spent(budget);
    spent.add(900);
    BOOST_TEST((error_of([&] { spent.add(200); }) == Error::Kind::unsupported));
    BOOST_TEST(budget.bytes() == 900u);
  }
  BOOST_TEST(budget.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(new_answers_can_count_after_the_automaton_was_replaced) {
  const ConstraintLimits limits{.bytes = std::size_t{512} << 10};  // less than all these answers need
  Constraints constraints(Vocabulary::bytes(), {}, limits);
  const auto shared = constraints.regex("([a-z]{1,40}[0-9]{1,40}){2,60}end");
  std::mt19937 random(4);
  std::size_t largest = 0;
  for (int i = 0; i < 60; ++i) {
    BOOST_TEST(shared->counts_tokens());
    const auto state = shared->start();
    for (int left = 300; left > 0; --left) {
      const auto row = state->mask_within(left);
      std::vector<TokenId> ids;
      for (TokenId id = 0; id < 257; ++id) {
        if (allows(row, id)) ids.push_back(id);
      }
      const TokenId id = ids.at(random() % ids.size());
      if (id == 256) break;
      state->advance(id);
    }
    BOOST_TEST(allows(state->mask(), 256));
    largest = std::max(largest, shared->bytes());
  }
  BOOST_TEST_MESSAGE("at most " << largest << " bytes");
}

BOOST_AUTO_TEST_CASE(an_answer_may_begin_to_count_later) {
  Constraints constraints(Vocabulary::bytes());
  const auto state = constraints.regex("(ab|xyz)*")->start();
  state->mask();
  write(*state, "xy");
  state->mask_within(2);
  write(*state, "z");
  BOOST_TEST(state->must_end());
}

BOOST_AUTO_TEST_CASE(rows_count_among_what_is_kept) {
  Constraints constraints(Vocabulary::bytes());
  const auto shared = constraints.regex("[a-c]{0,300}");
  const auto state = shared->start();
  state->mask();
  const std::size_t before = shared->bytes();
  for (int i = 0; i < 100; ++i) state->mask(), write(*state, "a");
  BOOST_TEST(shared->bytes() > before + 100 * 9 * sizeof(MaskWord));
}

BOOST_AUTO_TEST_CASE(threads_share_constraints) {
  const std::vector<std::string> schemas = {
      R"({"type":"object","properties":{"a":{"type":"string","maxLength":9},"b":{"type":"array","items":{"type":"integer","minimum":0,"maximum":99},"maxItems":4}}})",
      R"({"type":"string","pattern":"^[a-f]{2,6}$"})", R"({"enum":["x","xy",1,null]})",
      R"({"anyOf":[{"type":"boolean"},{"type":"array","items":{"$ref":"#"},"maxItems":2}]})"};
  std::vector<std::string> alone;
  {
    Constraints constraints(Vocabulary::bytes());
    for (unsigned i = 0; i < 40; ++i)
      alone.push_back(random_text(*constraints.json_schema(schemas[i % schemas.size()]), i, 60));
  }
  Constraints constraints(Vocabulary::bytes());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned round = 0; round < 120; ++round) {
        const unsigned i = (round * 7 + t * 13) % 40;
        try {
          if (random_text(*constraints.json_schema(schemas[i % schemas.size()]), i, 60) != alone[i]) ++wrong;
          // Evicts other constraints.
          if (round % 8 == 0) constraints.regex("other " + std::to_string(t * 1000 + round));
        } catch (const std::exception&) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(wrong == 0);
}

// SmolLM2's vocabulary lacks some control characters and bytes that no text has.
BOOST_AUTO_TEST_CASE(a_vocabulary_may_lack_bytes_that_hardly_any_text_needs) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const std::size_t byte : {0x04, 0x1D, 0xC0, 0xF1, 0xFF}) tokens[byte] = "xy";
  Constraints constraints(Vocabulary(tokens, 257, {256}));
  const auto state = constraints.json_schema(std::string_view(R"({"type": "string", "maxLength": 2})"))->start();
  for (const char byte : std::string("\"a\xC3\xA9\"")) {
    BOOST_REQUIRE(allows(state->mask(), static_cast<unsigned char>(byte)));
    state->advance(static_cast<unsigned char>(byte));
  }
  BOOST_TEST(state->must_end());
  const auto stuck = constraints.regex("a\\x04b")->start();
  stuck->mask();
  stuck->advance('a');
  BOOST_CHECK_THROW(stuck->mask(), Refused);
  tokens['q'] = "zz";
  BOOST_CHECK_THROW(Constraints(Vocabulary(tokens, 257, {256})), Error);
}

BOOST_AUTO_TEST_SUITE_END()
