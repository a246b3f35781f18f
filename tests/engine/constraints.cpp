// Constraints in the engine: texts keep to them, whatever runs beside them. An answer is the one that the request gets
// alone. A constraint that throws fails its own request.
#include <boost/test/unit_test.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tenon/constrain/constraints.h"
#include "tenon/tenon.h"

BOOST_AUTO_TEST_SUITE(engine_constraints)

using namespace tenon;

namespace {

const std::string kTales = std::string(TENON_SOURCE_DIR) + "/examples/models/tales";
constexpr const char* kCharacter =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}, "age": {"type": "integer"},
    "strength": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 1, "maxItems": 3}},
    "required": ["name", "age", "strength"], "additionalProperties": false})";
constexpr const char* kSky = "(sun|rain|wind)( and (sun|rain|wind)){2,5}";

const ModelFiles& files() {
  static const ModelFiles loaded = load_checkpoint(kTales);
  return loaded;
}

constrain::Constraints& constraints() {
  static const ModelConfig config = Engine<Gpt2>(files()).config();
  static constrain::Constraints made(constrain::Vocabulary::from(*files().tokenizer, config.vocab, config.eos));
  return made;
}

Request request(std::shared_ptr<const Constraint> constraint, std::uint64_t seed = 0, int tokens = 80) {
  return {.prompt = "A character of the tale:",
          .constraint = std::move(constraint),
          .options = {.max_new_tokens = tokens, .temperature = seed ? 1.0f : 0.0f, .seed = seed, .logits_hash = true}};
}

bool is_character(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.size() != 3 || !json["name"].is_string() || !json["age"].is_number_integer())
    return false;
  return json["strength"].is_array() && json["strength"].size() >= 1 && json["strength"].size() <= 3;
}

// [own]
// Allows five tokens whose ids are odd, or five whose ids are even. Then the text must end.
struct Parity {
  std::vector<std::uint32_t> row;
  int left = 5;

  Parity(int vocab, bool odd) : row(static_cast<std::size_t>(vocab + 31) / 32, odd ? 0xaaaaaaaau : 0x55555555u) {
    if (vocab % 32 != 0) row.back() &= (1u << (vocab % 32)) - 1;
  }
  std::span<const std::uint32_t> mask() const { return row; }
  void advance(TokenId) { --left; }
  bool must_end() const { return left == 0; }
};
static_assert(TokenConstraint<Parity>);
// [/own]

struct Throws : Parity {
  Throws(int vocab, int when) : Parity(vocab, true), left_until(when) {}
  int left_until;
  std::span<const std::uint32_t> mask() const {
    if (left <= left_until) throw Error(Error::Kind::unsupported, "constraint", "is tired");
    return row;
  }
};
struct Narrow : Parity {
  using Parity::Parity;
  std::span<const std::uint32_t> mask() const { return std::span(row).first(1); }
};
struct Nothing : Parity {
  explicit Nothing(int vocab) : Parity(vocab, true) { row.assign(row.size(), 0); }
};

int vocab() { return constraints().regex("a")->vocab(); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_schema_is_kept_at_any_temperature) {
  Engine<Gpt2> engine(files());
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 12; ++seed)
    requests.push_back(request(constraints().json_schema(kCharacter), seed, 160));
  int complete = 0;
  for (const Completion& answer : engine.complete(requests)) {
    BOOST_TEST(answer.error.empty(), answer.error);
    if (answer.reason != FinishReason::stop) continue;
    ++complete;
    BOOST_TEST(is_character(answer.text), answer.text);
  }
  BOOST_TEST(complete >= 10);
}

BOOST_AUTO_TEST_CASE(texts_are_finished_within_their_budget) {
  Engine<Gpt2> engine(files());
  std::vector<Request> requests;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    // [within]
    requests.push_back(request(constraints().json_schema(kCharacter), seed, 40));
    requests.back().options.finish_within_budget = true;
    // [/within]
  }
  const auto finished = engine.complete(requests);
  for (const Completion& answer : finished) {
    BOOST_TEST(answer.error.empty(), answer.error);
    BOOST_TEST(is_character(answer.text), answer.text);
    BOOST_TEST((answer.reason == FinishReason::stop));
    BOOST_TEST(answer.ids.size() <= 40u);
  }
  int cut_off = 0;
  for (Request& each : requests) each.options.finish_within_budget = false;
  const auto unfinished = engine.complete(requests);
  for (const Completion& answer : unfinished) cut_off += !is_character(answer.text);
  BOOST_TEST(cut_off > 0);
  // With room enough nothing changes.
  for (Request& each : requests) each.options.max_new_tokens = 400;
  const auto ample = engine.complete(requests);
  for (Request& each : requests) each.options.finish_within_budget = true;
  const auto same = engine.complete(requests);
  for (std::size_t i = 0; i < same.size(); ++i) BOOST_TEST(same[i].ids == ample[i].ids);
  requests[0].constraint = constraint_of(Parity(vocab(), true), vocab());
  requests[1].options.max_new_tokens = 7;  // less than the shortest text: it gets as far as it can
  requests.resize(2);
  const auto others = engine.complete(requests);
  BOOST_TEST(others[0].error.find("finish_within_budget") != std::string::npos, others[0].error);
  BOOST_TEST(others[1].error.empty(), others[1].error);
}

BOOST_AUTO_TEST_CASE(a_finished_text_ignores_the_end_token) {
  Engine<Gpt2> engine(files());
  for (const int tokens : {2, 3, 5, 9}) {
    Request each = request(constraints().regex("x(abcdefgh)*"), 3, tokens);
    each.options.finish_within_budget = each.options.ignore_eos = true;
    const Completion answer = engine.complete(each);
    BOOST_TEST(answer.error.empty(), answer.error);
    BOOST_TEST((answer.text.size() - 1) % 8 == 0u, answer.text);
  }
}

BOOST_AUTO_TEST_CASE(beside_others_as_alone) {
  const std::string weather = kTales + "/adapters/weather";
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    requests.push_back(request(nullptr, seed, 20));
    requests.push_back(request(constraints().json_schema(kCharacter), seed, 40));
    requests.push_back(request(constraints().regex(kSky), seed));
    requests.push_back(request(constraints().grammar("root ::= [a-z]+ (\" \" [a-z]+){3}"), seed));
    requests.push_back(request(constraints().json_schema(kCharacter), seed, 40));
    requests.back().adapters = {{weather}};
  }
  std::vector<Completion> truth;
  for (const Request& each : requests)
    truth.push_back(Engine<Gpt2>(files(), {.threads = 1, .prefix_reuse = false}).complete(each));
  const auto check = [&](auto&& engine) {
    const auto answers = engine.complete(requests);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      BOOST_TEST(answers[i].error.empty(), answers[i].error);
      BOOST_TEST(answers[i].ids == truth[i].ids, i << ": " << answers[i].text << " for " << truth[i].text);
      BOOST_TEST((answers[i].logits_hash == truth[i].logits_hash), i);
    }
    return engine.stats().preemptions;
  };
  check(Engine<Gpt2>(files()));
  BOOST_TEST(check(Engine<Gpt2>(files(), {.token_budget = 7, .cache_tokens = 256})) > 0u);
  check(Engine<Gpt2, Scheduler<StaticPolicy>>(files(), StaticPolicy{.n = 3}));
}

BOOST_AUTO_TEST_CASE(an_answer_ends_where_nothing_else_may_come) {
  Engine<Gpt2> engine(files());
  const Completion answer = engine.complete(request(constraints().regex("abc")));
  BOOST_TEST(answer.text == "abc");
  BOOST_TEST((answer.reason == FinishReason::stop));
  Request goes_on = request(constraints().regex("(abc)+"), 0, 12);
  goes_on.options.ignore_eos = true;
  const Completion longer = engine.complete(goes_on);
  BOOST_TEST(longer.ids.size() == 12u);
  BOOST_TEST(longer.text.starts_with("abcabc"));
}

BOOST_AUTO_TEST_CASE(every_choice_has_a_constraint_of_its_own) {
  Engine<Gpt2> engine(files());
  Request several = request(constraints().regex(kSky), 5);
  several.options.n = 4;
  const Completion answer = engine.complete(several);
  BOOST_TEST(answer.others.size() == 3u);
  std::set<std::string> texts = {answer.text};
  BOOST_TEST((answer.reason == FinishReason::stop));
  for (const auto& other : answer.others) {
    BOOST_TEST((other.reason == FinishReason::stop));
    texts.insert(other.text);
  }
  BOOST_TEST(texts.size() > 1u);
  for (const std::string& text : texts) BOOST_TEST(std::regex_match(text, std::regex(kSky)), text);
}

BOOST_AUTO_TEST_CASE(a_users_own) {
  Engine<Gpt2> engine(files());
  for (const bool odd : {false, true}) {
    const Completion answer = engine.complete(request(constraint_of(Parity(vocab(), odd), vocab()), 3));
    BOOST_TEST(answer.error.empty(), answer.error);
    BOOST_TEST((answer.ids.size() == 5u || answer.reason == FinishReason::stop));
    for (const TokenId id : answer.ids) BOOST_TEST(id % 2 == (odd ? 1 : 0));
  }
}

BOOST_AUTO_TEST_CASE(an_error_of_a_constraint_fails_only_its_own_request) {
  Engine<Gpt2> engine(files());
  std::vector<Request> requests = {request(nullptr, 0, 8),
                                   request(constraint_of(Throws(vocab(), 5), vocab())),
                                   request(constraint_of(Throws(vocab(), 3), vocab())),
                                   request(constraint_of(Narrow(vocab(), true), vocab())),
                                   request(constraint_of(Nothing(vocab()), vocab())),
                                   request(constraint_of(Parity(vocab(), true), vocab() + 1))};
  const auto answers = engine.complete(requests);
  BOOST_TEST(answers[0].error.empty());
  const char* const named[] = {"tired", "tired", "width", "no token is allowed", "logits"};
  for (std::size_t i = 1; i < answers.size(); ++i) {
    BOOST_TEST(answers[i].error.find(named[i - 1]) != std::string::npos, answers[i].error);
  }
}

// A text that may end at once and cannot grow ends at once, also where the end of text is ignored.
BOOST_AUTO_TEST_CASE(a_text_without_room_is_empty) {
  Engine<Gpt2> engine(files());
  for (const bool finish : {false, true}) {
    for (const char* pattern : {"", "(abcdefgh)*"}) {
      if (!finish && *pattern) continue;
      for (const int tokens : {1, 3}) {
        Request r = request(constraints().regex(pattern), 1, tokens);
        r.options.ignore_eos = true;
        r.options.finish_within_budget = finish;
        const auto answer = engine.complete(r);
        BOOST_TEST(answer.error == "");
        BOOST_TEST(answer.text == "");
        BOOST_TEST(to_string(answer.reason) == "stop");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_service_takes_them) {
  Service<Engine<Gpt2>> service(files());
  auto stream = service.submit(request(constraints().regex("[0-9]{3}-[0-9]{4}")));
  std::string text;
  while (auto event = stream.next()) text += event->text;
  BOOST_TEST(text.size() == 8u);
  BOOST_CHECK_THROW(service.submit(request(constraint_of(Parity(vocab(), true), vocab() + 1))), Error);
}

BOOST_AUTO_TEST_SUITE_END()
