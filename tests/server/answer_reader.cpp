#include "conversation/answer_reader.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(server_answer_reader)

using namespace program;

namespace {

using Kind = AnswerPart::Kind;

// Neighbours of one kind together: {"text:...", "call:name", "0:arguments"}.
std::vector<std::string> joined(const std::vector<AnswerPart>& parts) {
  std::vector<std::string> out;
  std::string last;
  for (const AnswerPart& part : parts) {
    const std::string kind = part.kind == Kind::text        ? "text:"
                             : part.kind == Kind::reasoning ? "think:"
                             : part.kind == Kind::call      ? "call:"
                                                            : std::to_string(part.call) + ":";
    if (kind == last && part.kind != Kind::call)
      out.back() += part.text;
    else
      out.push_back(kind + part.text);
    last = kind;
  }
  return out;
}

std::vector<AnswerPart> parts_of(const AnswerStyle& style, const std::string& text, std::mt19937* random) {
  AnswerReader reader(style);
  std::vector<AnswerPart> all;
  const auto add = [&](std::vector<AnswerPart> some) { all.insert(all.end(), some.begin(), some.end()); };
  for (std::size_t at = 0, n; at < text.size(); at += n) {
    n = random ? std::min<std::size_t>(1 + (*random)() % 5, text.size() - at) : text.size();
    add(reader.push(std::string_view(text).substr(at, n)));
  }
  add(reader.finish());
  return all;
}

// However the text is cut.
void reads(const AnswerStyle& style, const std::string& text, const std::vector<std::string>& expected) {
  static std::mt19937 random(7);
  BOOST_TEST(joined(parts_of(style, text, nullptr)) == expected, boost::test_tools::per_element());
  for (int i = 0; i < 50; ++i)
    BOOST_TEST(joined(parts_of(style, text, &random)) == expected, boost::test_tools::per_element());
}

const AnswerStyle kHermes{.tools = tool_style_of("<tool_call>")};
const AnswerStyle kThinks{.tools = tool_style_of("<tool_call>"), .think = think_style_of("<think>")};

}  // namespace

BOOST_AUTO_TEST_CASE(hermes) {
  reads(kHermes, "Hello there.\n", {"text:Hello there.\n"});
  reads(kHermes, " \n", {"text: \n"});
  reads(kHermes, "", {});
  reads(kHermes, "1 < 2 <tool 3 <", {"text:1 < 2 <tool 3 <"});
  reads(kHermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}{\\\"\", \"b\": [1, {}]}}\n</tool_call>",
        {"call:f", "0:{\"a\": \"}{\\\"\", \"b\": [1, {}]}"});
  reads(kHermes,
        "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
        "{\"name\": \"g\", \"arguments\": {\"x\": 1}}\n</tool_call>\n",
        {"text:I look.", "call:f", "0:{}", "call:g", "1:{\"x\": 1}"});
}

BOOST_AUTO_TEST_CASE(calls_in_other_spellings) {
  reads(kHermes, "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>", {"call:f", "0:{\"a\":1}"});
  reads(kHermes, "<tool_call>\n{ \"name\" : \"f\" ,\"parameters\":{\"a\":1} }", {"call:f", "0:{\"a\":1}"});
  reads(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}", {"call:f", "0:{\"a\": 1}"});
  reads(kHermes, "<tool_call>{\"name\": \"f\"}</tool_call>", {"call:f", "0:{}"});
  reads(kHermes, "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]</tool_call>",
        {"call:f", "0:{}", "call:g", "1:{}"});
}

BOOST_AUTO_TEST_CASE(what_is_no_call_is_text) {
  reads(kHermes, "<tool_call>{\"nome\": \"f\"}</tool_call>", {"text:{\"nome\": \"f\"}"});
  reads(kHermes, "<tool_call>{\"name\": \"f", {"text:{\"name\": \"f"});
  reads(kHermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1", {"call:f", "0:{\"a\": 1"});
}

BOOST_AUTO_TEST_CASE(other_styles) {
  const AnswerStyle mistral{.tools = tool_style_of("[TOOL_CALLS] [")};
  reads(mistral, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
        {"call:f", "0:{\"a\": 1}", "call:g", "1:{}"});
  const AnswerStyle granite{.tools = tool_style_of("<|tool_call|>")};
  reads(granite, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", {"call:f", "0:{}"});
  const AnswerStyle llama{.tools = tool_style_of("<|python_tag|>")};
  reads(llama, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", \"parameters\": {}}",
        {"call:f", "0:{\"a\": 1}", "call:g", "1:{}"});
  reads(llama, "{\"a\": 1}", {"text:{\"a\": 1}"});
  reads(llama, "So {\"name\": 1}", {"text:So {\"name\": 1}"});
  // As the constraint has it: a call is the first character, and has a name.
  reads(llama, "\n{\"name\": \"f\", \"parameters\": {}}", {"text:\n{\"name\": \"f\", \"parameters\": {}}"});
  reads(llama, "{\"name\": \"\", \"parameters\": {}}", {"text:{\"name\": \"\", \"parameters\": {}}"});
  const std::string deep(100'000, '[');  // a call that is too deep to be copied is text
  const std::string call = "{\"name\": \"f\", \"x\": " + deep + std::string(deep.size(), ']') + "}";
  reads(llama, call, {"text:" + call});
}

BOOST_AUTO_TEST_CASE(reasoning) {
  reads(kThinks, "<think>\nHm <tool_call> no.\n</think>\n\nYes.", {"think:\nHm <tool_call> no.\n", "text:Yes."});
  reads(kThinks, "<think>a</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
        {"think:a", "call:f", "0:{}"});
  // The constraint allows one part of reasoning, so that a call after a second marker is a call.
  reads(kThinks, "<think>a</think> <think>b<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
        {"think:a", "text:<think>b", "call:f", "0:{}"});
  reads(kThinks, "<thing> a", {"text:<thing> a"});
  reads(kThinks, "<thi", {"text:<thi"});
  reads(kThinks, "<think>cut </thi", {"think:cut </thi"});
  AnswerStyle started = kThinks;
  started.thinking = true;
  reads(started, "a < b</think>c", {"think:a < b", "text:c"});
  reads(started, "a</think><think>b", {"think:a", "text:<think>b"});
  started.tools.reset();
  reads(started, "a</think><tool_call>", {"think:a", "text:<tool_call>"});
}

BOOST_AUTO_TEST_CASE(calls_that_the_end_cuts_are_not_whole) {
  const auto whole = [](const std::string& text) {
    AnswerReader reader(kHermes);
    reader.push(text);
    reader.finish();
    return reader.has_whole_calls();
  };
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"a": 1}})";
  for (std::size_t n = 0; n < call.size() - 1; ++n) BOOST_TEST(!whole(call.substr(0, n)), call.substr(0, n));
  BOOST_TEST(whole(call.substr(0, call.size() - 1)));  // a name and its arguments
  BOOST_TEST(whole(call));
  BOOST_TEST(whole(call + "\n</tool_call>\n<tool_call>"));
  BOOST_TEST(!whole(call + "</tool_call>" + call.substr(0, call.size() - 3)));
  BOOST_TEST(!whole("text"));
}

// Calls are an answer of their own, and begin with one of the starts: every other answer is text.
BOOST_AUTO_TEST_CASE(answers_that_are_calls_or_a_form) {
  AnswerStyle hermes = kHermes;
  hermes.starts = {"<tool_call>\n{\"name\": \"f\", \"arguments\": ", "<tool_call>\n{\"name\": \"g\", \"arguments\": "};
  const std::string call = "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  reads(hermes, call, {"call:g", "0:{\"a\": 1}"});
  for (const std::string text : {R"({"t": " <tool_call>\n{"})", "<tool_call>\n{\"name\": \"h\"", " x", "<tool"})
    reads(hermes, text, {"text:" + text});
  AnswerStyle llama{.tools = tool_style_of("<|python_tag|>"), .starts = {R"({"name": "f", "parameters": )"}};
  reads(llama, R"({"name": "f", "parameters": {"a": 1}})", {"call:f", R"(0:{"a": 1})"});
  for (const std::string text : {R"({"name": "Bob"})", R"({"name": "f"})", R"({"name": "f", "para)"})
    reads(llama, text, {"text:" + text});
}

// What a style writes, it reads.
BOOST_AUTO_TEST_CASE(written_calls_are_read) {
  const auto calls = tenon::OrderedJson::parse(
      R"([{"name": "f", "arguments": {"a": "x</tool_call>{", "b": [true, null]}}, {"name": "g", "arguments": {}}])");
  for (const char* jinja : {"<tool_call>", "[TOOL_CALLS]", "<|tool_call|>", "<|python_tag|>", "SmolLM"}) {
    const AnswerStyle style{.tools = tool_style_of(jinja)};
    reads(style, style.tools->written(calls),
          {"call:f", "0:{\"a\": \"x</tool_call>{\", \"b\": [true, null]}", "call:g", "1:{}"});
  }
}

BOOST_AUTO_TEST_SUITE_END()
