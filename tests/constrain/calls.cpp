#include "tenon/constrain/calls.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/constrain/constraints.h"

BOOST_AUTO_TEST_SUITE(constrain_calls)

using namespace tenon::constrain;

namespace {

CallText function(const std::string& name, const std::string& parameters) {
  return {name, "{\"name\": \"" + name + "\", \"arguments\": ", parameters, "}"};
}

CallsForm hermes(bool text) {
  return {.functions = {function("a", R"({"type": "object", "properties": {"x": {"type": "integer"},
                                          "kids": {"type": "array", "items": {"$ref": "#"}}}})"),
                        function("b", R"({"$defs": {"s": {"type": "string"}}, "type": "object",
                                          "properties": {"s": {"$ref": "#/$defs/s"}}, "required": ["s"]})")},
          .marker = "<tool_call>",
          .begin = "\n",
          .between = "\n</tool_call>\n<tool_call>\n",
          .end = "\n</tool_call>",
          .most = 2,
          .text = text};
}

// Llama 3's style: a call is bare JSON, at the start of an answer alone.
CallsForm bare() {
  return {.functions = {{"f", " \"f\", \"parameters\": ", R"({"type": "object", "properties": {}})", "}"}},
          .marker = "{\"name\":",
          .begin = "",
          .between = "; {\"name\":",
          .end = "",
          .most = 1,
          .text = true,
          .at_start = true};
}

enum class Is { dead, open, complete };

Is state_of(Automaton& automaton, std::string_view text) {
  Automaton::State state = automaton.start();
  for (const char byte : text) {
    state = automaton.step(state, static_cast<std::uint8_t>(byte));
    if (state == Automaton::kDead) return Is::dead;
  }
  return automaton.accepts(state) ? Is::complete : Is::open;
}

void check(const CallsForm& form, Is expected, const std::vector<std::string>& texts) {
  const auto automaton = calls(form);
  for (const std::string& text : texts) BOOST_TEST((state_of(*automaton, text) == expected), text);
}

const std::string kA = "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": 5}}\n</tool_call>";
const std::string kB = "<tool_call>\n{\"name\": \"b\", \"arguments\": {\"s\": \"<tool_call>\"}}\n</tool_call>";

}  // namespace

BOOST_AUTO_TEST_CASE(calls_that_must_come) {
  check(hermes(false), Is::complete, {kA, kB, kA + "\n" + kB});
  check(hermes(false), Is::open, {"", "<tool_call>", kA + "\n", kA.substr(0, 40)});
  check(hermes(false), Is::dead,
        {"Hello", kA + " ", kA + "\n" + kB + "\n", "<tool_call>\n{\"name\": \"c\"",
         "<tool_call>\n{\"name\": \"b\", \"arguments\": {}}",
         "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": \"s\""});
  check(hermes(false), Is::complete,
        {"<tool_call>\n{\"name\": \"a\", \"arguments\": {\"kids\": [{\"x\": 1}, {}]}}\n</tool_call>"});
}

BOOST_AUTO_TEST_CASE(text_may_come_first) {
  check(hermes(true), Is::complete, {"", "Hello", "1 < 2 <tool_cal", kA, "I look.\n" + kA, kA + "\n" + kB});
  check(hermes(true), Is::open, {"Hello <tool_call>", "<tool_call>\n{"});
  check(hermes(true), Is::dead, {"<tool_call> or not", kA + "Hello", "<tool_call><tool_call>"});
}

BOOST_AUTO_TEST_CASE(calls_at_the_start_alone) {
  CallsForm form = bare();
  check(form, Is::complete, {"", "Hello {\"name\": 5}", "{\"age\": 1}", "{\"name\": \"f\", \"parameters\": {}}"});
  check(form, Is::open, {"{\"name\":"});
  check(form, Is::dead, {"{\"name\": 5", "{\"name\": \"f\", \"parameters\": {}};"});
}

BOOST_AUTO_TEST_CASE(reasoning_may_contain_the_marker) {
  CallsForm form = hermes(true);
  form.think_begin = "<think>", form.think_end = "</think>";
  check(form, Is::complete,
        {"<think>a <tool_call> b</think>c", "\n<think> <tool_call>", "<think></think>" + kA, kA, "c"});
  check(form, Is::dead, {"<think> </think> <tool_call>no"});
  form.thinking = true;
  check(form, Is::complete, {"a <tool_call> b</think>c", "</think>" + kA, ""});
  check(form, Is::dead, {"a</think><tool_call>no"});
}

// Answers are calls alone or a text of a form, of every kind.
BOOST_AUTO_TEST_CASE(calls_or_a_form) {
  CallsForm form = hermes(true);
  form.answer_kind = "schema";
  form.answer =
      R"({"type": "object", "properties": {"t": {"type": "string"}, "next": {"$ref": "#"}}, "required": ["t"]})";
  check(form, Is::complete,
        {kA, kA + "\n" + kB, R"({"t": "a <tool_call> b"})", R"({"t": "", "next": {"t": "", "next": {"t": ""}}})"});
  check(form, Is::open, {"", "{", "<tool", R"({"t": "a")"});
  check(form, Is::dead, {"Hello", " " + kA, R"({"t": 5)", R"({"t": ""})" + kA});
  form.think_end = "</think>", form.thinking = true;  // a form begins with the first byte
  check(form, Is::dead, {"a", "</think>"});
  const std::vector<CallsForm> others = [&] {
    std::vector<CallsForm> all(3, form);
    all[0].answer_kind = "regex", all[0].answer = "[a-c]+";
    all[1].answer_kind = "choice", all[1].answer = R"(["a", "bc"])";
    all[2].answer_kind = "grammar", all[2].answer = "root ::= \"a\" | \"b\" root";
    return all;
  }();
  for (const CallsForm& each : others) {
    check(each, Is::complete, {"a", kB});
    check(each, Is::dead, {"d", "{", kA + "a"});
    BOOST_TEST(name_of(each) != name_of(form));
  }
}

BOOST_AUTO_TEST_CASE(a_form_that_looks_like_calls_is_refused) {
  CallsForm form = bare();
  form.answer_kind = "schema";
  form.answer = R"({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})";
  check(form, Is::complete, {R"({"name": "f"})", R"({"name":"f"})", R"({"name": "f", "parameters": {}})"});
  for (const std::string kind : {"schema", "regex", "any"}) {
    form.answer_kind = kind;
    form.answer = kind == "schema" ? R"({"type": "object"})" : ".*";
    BOOST_CHECK_EXCEPTION(calls(form), Refused, [&](const Refused& refused) {
      return refused.where() == (kind == "any" ? "answer_kind" : "answer");
    });
  }
  form.text = false;
  BOOST_CHECK_THROW(calls(form), Refused);
}

BOOST_AUTO_TEST_CASE(refusals_name_the_function) {
  CallsForm form = hermes(false);
  form.functions[1].parameters = R"({"type": "strange"})";
  BOOST_CHECK_EXCEPTION(calls(form), Refused, [](const Refused& refused) {
    return refused.where() == "b: #/type" && refused.reason() == "'strange' is no type";
  });
  form.functions.clear();
  BOOST_CHECK_THROW(calls(form), Refused);
}

BOOST_AUTO_TEST_CASE(every_member_counts_in_the_name) {
  const CallsForm form = hermes(true);
  std::vector<CallsForm> others(6, form);
  others[0].most = 3, others[1].text = false, others[2].thinking = true, others[3].end = "", others[4].at_start = true;
  others[5].functions[0].parameters += " ";
  for (const CallsForm& other : others) BOOST_TEST(name_of(other) != name_of(form));
  BOOST_TEST(name_of(form) == name_of(hermes(true)));
}

// Marker and calls are allowed token by token, and text until the marker.
BOOST_AUTO_TEST_CASE(masks_follow_the_form) {
  Constraints constraints(Vocabulary::bytes());
  const auto constraint = constraints.calls(hermes(true));
  BOOST_TEST((constraint == constraints.calls(hermes(true))));
  BOOST_TEST(constraint->counts_tokens());
  const auto state = constraint->start();
  for (const char byte : "x" + kA) {
    BOOST_REQUIRE(allows(state->mask(), static_cast<unsigned char>(byte)));
    BOOST_TEST(!state->must_end());
    state->advance(static_cast<unsigned char>(byte));
  }
  BOOST_TEST(allows(state->mask(), 256));
  BOOST_TEST(allows(state->mask(), '\n'));
  BOOST_TEST(!allows(state->mask(), ' '));
}

BOOST_AUTO_TEST_SUITE_END()
