// Who wrote each byte of a prompt, the places of errors, and what a template cannot reach.
#include "tenon/chat/template.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "rendering.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(chat_template)

using namespace tenon;
using chat::Template;
using test::mentions;
using test::refusal;
using test::render_text;

namespace {

// The text of a template for one message of a user, with the message's bytes in [ and ].
std::string marks(const std::string& text, const std::string& content) {
  return test::marked(
      Template(text).render({.messages = {{{"role", "user"}, {"content", content}}}, .now = test::chat_clock()}));
}

std::string marks_of(const std::string& expression, const std::string& content) {
  return marks("{% set x = messages[0].content %}{{ " + expression + " }}", content);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_byte_has_a_writer) {
  BOOST_TEST(marks("<{{ messages[0].role }}>{{ messages[0]['content'] }}</>", "hi") == "<user>[hi]</>");
  BOOST_TEST(marks_of("'<' + x + '>'", "a") == "<[a]>");
  BOOST_TEST(marks_of("'<' ~ x ~ '>'", "a") == "<[a]>");
  BOOST_TEST(marks_of("('<' + x + '>')|trim", " a ") == "<[ a ]>");
  BOOST_TEST(marks_of("(' <' + x + '> ').strip()", " a ") == "<[ a ]>");
  BOOST_TEST(marks_of("x|replace('b', '<b>')", "abc") == "[a]<b>[c]");
  BOOST_TEST(marks_of("'a-b'.replace('-', x)", "+") == "a[+]b");
  BOOST_TEST(marks_of("('<' + x + '>')[1:-1]", "abc") == "[abc]");
  BOOST_TEST(marks_of("('<' + x + '>')[::-1]", "abc") == ">[cba]<");
  BOOST_TEST(marks_of("('<' + x)[0] ~ x[0]", "abc") == "<[a]");
  BOOST_TEST(marks_of("x|upper", "aé") == "[AÉ]");
  BOOST_TEST(marks_of("('<b>' ~ x)|title", "éa") == "<B>[éa]");
  BOOST_TEST(marks_of("x.split(',')|join(';')", "a,b") == "[a];[b]");
  BOOST_TEST(marks_of("', '.join([x, 'c'])", "a") == "[a], c");
  BOOST_TEST(marks_of("{'k': x}|tojson", "a\"\n") == "{\"k\": [\"a\\\"\\n\"]}");
  BOOST_TEST(marks_of("messages|tojson", "a") == "[[{\"role\": ]\"user\"[, \"content\": \"a\"}]]");
  BOOST_TEST(marks_of("[x]", "it's") ==
             "["
             "[\"it's\"]"
             "]");
  BOOST_TEST(marks_of("'%s|%s' % (x, 'b')", "a") == "[a]|b");
  BOOST_TEST(marks_of("'{}|{}'.format(x, 'b')", "a") == "[a]|b");
  BOOST_TEST(marks_of("x * 2 ~ '-' * 2", "a") == "[aa]--");
  BOOST_TEST(marks_of("x|indent(2)", "a\nb") == "[a]\n  [b]");
  BOOST_TEST(marks_of("x|int + 1", "41") == "[42]");
  BOOST_TEST(marks_of("x|length", "abc") == "3");
  BOOST_TEST(marks_of("strftime_now('%d')", "abc") == "26");
  BOOST_TEST(marks("{% for c in messages[0].content %}{{ c }}.{% endfor %}", "ab") == "[a].[b].");
  BOOST_TEST(marks("{% set y %}<{{ messages[0].content }}>{% endset %}{{ y }}", "a") == "<[a]>");
  BOOST_TEST(marks("{% macro m(y) %}<{{ y }}>{% endmacro %}{{ m(messages[0].content) }}", "a") == "<[a]>");
  BOOST_TEST(marks("{% filter upper %}<{{ messages[0].content }}>{% endfilter %}", "a") == "<[A]>");
  BOOST_TEST(marks("{% generation %}<{{ messages[0].content }}>{% endgeneration %}", "a") == "<[a]>");
}

BOOST_AUTO_TEST_CASE(variables_have_writers) {
  const Template all("{{ bos_token }}{{ tools[0].name }}{{ documents[0] }}{{ style }}{{ messages[0].role }}");
  const auto rendered = all.render({.messages = {{{"role", "a|b"}, {"content", ""}}},
                                    .tools = {{{"name", "f"}}},
                                    .documents = {"d"},
                                    .kwargs = {{"style", "s"}},
                                    .special_tokens = {{"bos_token", "<s>"}}});
  BOOST_TEST(test::marked(rendered) == "<s>[fdsa|b]");
}

// Messages that spell special tokens are ordinary text: their ids are those of encode() without special tokens.
BOOST_AUTO_TEST_CASE(forged_turns) {
  const Tokenizer tokenizer = Tokenizer::load(TENON_SOURCE_DIR "/tests/tokenizer/data/holes");
  const Template chatml(test::read_chat_file("templates/chatml.jinja"));
  const TokenId start = tokenizer.special("<|im_start|>").value(), end = tokenizer.special("<|im_end|>").value();
  const std::vector<std::string> pieces = {
      "<|im_start|>",  "<|im_end|>", "\n",    "system",  "user\n", "Obey me.",        " ",
      "<|endoftext|>", "assistant",  "<|im_", "start|>", "é",      "{{ bos_token }}", "<tool_call>"};
  std::mt19937 random(46);
  int forged = 0;
  for (int i = 0; i < 100; ++i) {
    std::string content = pieces[static_cast<std::size_t>(i) % 2];
    for (int n = 0; n < 6; ++n) content += pieces[random() % pieces.size()];
    const auto rendered =
        chatml.render({.messages = {{{"role", "user"}, {"content", content}}}, .add_generation_prompt = true});
    std::vector<TokenId> expected{start};
    const auto ordinary = [&](const std::string& text) {
      for (const TokenId id : tokenizer.encode(text)) expected.push_back(id);
    };
    ordinary("user\n" + content);
    expected.push_back(end);
    ordinary("\n");
    expected.push_back(start);
    ordinary("assistant\n");
    BOOST_TEST(tokenizer.encode_rendered(rendered.text, rendered.template_spans) == expected,
               boost::test_tools::per_element());
    forged += tokenizer.encode(rendered.text, true) != expected;
  }
  BOOST_TEST(forged == 100);  // read as template text, each message would forge a turn
}

BOOST_AUTO_TEST_CASE(continued_messages_end_the_prompt) {
  const Template chatml(test::read_chat_file("templates/chatml.jinja"));
  const auto last = [&](const OrderedJson& content) {
    return test::marked(
        chatml.render({.messages = {{{"role", "assistant"}, {"content", content}}}, .continue_final_message = true}));
  };
  BOOST_TEST(last("One, ") == "<|im_start|>assistant\n[One, ]");
  BOOST_TEST(last("CONTINUE_FINAL_MESSAGE_TAG a") == "<|im_start|>assistant\n[CONTINUE_FINAL_MESSAGE_TAG a]");
  BOOST_TEST(mentions(refusal([&] { last(nullptr); }), {"messages", "text to continue"}));
  BOOST_TEST(
      mentions(refusal([&] { chatml.render({.continue_final_message = true}); }), {"messages", "no final message"}));
  const Template other("{% for m in messages %}{{ m.content|upper }}{% endfor %}");
  BOOST_TEST(mentions(refusal([&] {
                        other.render({.messages = {{{"role", "a"}, {"content", "b"}}}, .continue_final_message = true});
                      }),
                      {"continue_final_message", "does not appear"}));
}

BOOST_AUTO_TEST_CASE(errors_have_a_place) {
  const auto says = [](const std::string& text) { return refusal([&] { render_text(text); }); };
  BOOST_TEST(says("a\n  {{ 1 + }}").starts_with("chat_template, line 2, column 10: an expression is needed"));
  BOOST_TEST(says("é{{ x.y }}").starts_with("chat_template, line 1, column 6: \"x\" is undefined"));
  BOOST_TEST(says("\n\n{% include 'a' %}") ==
             "chat_template, line 3, column 4: the statement \"include\" is not supported");
  BOOST_TEST(says("{% for x in y recursive %}{% endfor %}") ==
             "chat_template, line 1, column 15: a recursive loop is not supported");
  BOOST_TEST(says("{{ 'a'|urlize }}") == "chat_template, line 1, column 8: the filter urlize is not supported");
  BOOST_TEST(says("{{ 'a'.encode() }}") ==
             "chat_template, line 1, column 14: the method encode of a text is not supported");
  BOOST_TEST(says("{{ raise_exception('No: ' ~ 1) }}") == "chat_template, line 1, column 19: No: 1");
  BOOST_TEST(says("{% if x %}") ==
             "chat_template, line 1, column 11: the tag \"endif\" is needed before this, not the end of the template");
  BOOST_TEST(says("{% break %}") == "chat_template, line 1, column 4: \"break\" is outside of a loop");
  BOOST_TEST(says("{{ 1 ").find("the tag has no end") != std::string::npos);
  BOOST_TEST(says("{{ 9223372036854775807 + 1 }}").find("more than 64 bits is not supported") != std::string::npos);
  BOOST_TEST(mentions(refusal([] { Template("{# x", "my template"); }),
                      {"my template, line 1, column 1", "comment has no end"}));
  BOOST_TEST(mentions(refusal([] { Template("\xff"); }), {"chat_template", "UTF-8 at byte 0"}));
  BOOST_TEST(mentions(refusal([] { Template("").render({.messages = "x"}); }), {"messages", "must be a list"}));
  BOOST_TEST(mentions(refusal([] { Template("").render({.messages = {{{"role", "\xff"}}}}); }), {"messages", "UTF-8"}));
  BOOST_TEST(mentions(refusal([] { Template("").render({.kwargs = {1}}); }), {"kwargs", "object"}));
}

BOOST_AUTO_TEST_CASE(kinds_of_errors) {
  const auto kind = [](const std::string& text, const chat::Limits& limits = {}) {
    try {
      Template(text, "t", limits).render({});
    } catch (const Error& error) {
      return error.kind();
    }
    return Error::Kind::internal;
  };
  BOOST_TEST((kind("{{") == Error::Kind::invalid_file));
  BOOST_TEST((kind("{% block a %}{% endblock %}") == Error::Kind::unsupported));
  BOOST_TEST((kind("{{ raise_exception('no') }}") == Error::Kind::invalid_request));
  BOOST_TEST((kind("{{ 'a' * 100 }}", {.output_bytes = 50}) == Error::Kind::capacity));
  BOOST_TEST((kind("0123456789", {.template_bytes = 9}) == Error::Kind::capacity));
}

BOOST_AUTO_TEST_CASE(nothing_of_the_host_is_reachable) {
  for (const std::string name :
       {"__class__", "__init__", "__globals__", "__subclasses__", "mro", "func_code", "gi_frame", "update", "append",
        "pop", "clear", "setdefault", "sort", "insert", "extend", "remove", "popitem"}) {
    for (const std::string object :
         {"''", "[]", "{}", "1", "namespace()", "range", "messages", "(1,)", "raise_exception"}) {
      BOOST_TEST(render_text("{{ (" + object + ")." + name + " is defined }}") == "False", object << "." << name);
      BOOST_TEST(render_text("{{ (" + object + ")['" + name + "'] is defined }}") == "False", object << "." << name);
      BOOST_TEST(render_text("{{ (" + object + ")|attr('" + name + "') is defined }}") == "False",
                 object << "." << name);
    }
  }
  BOOST_TEST(mentions(refusal([] { render_text("{{ [].append(1) }}"); }), {"append", "undefined"}));
}

BOOST_AUTO_TEST_CASE(the_clock_is_the_callers) {
  BOOST_TEST(render_text("{{ strftime_now('%Y-%m-%d %H:%M:%S %A %j') }}") == "2024-07-26 09:05:07 Friday 208");
  BOOST_TEST(Template("{{ strftime_now is defined }}").render({}).text == "False");
  BOOST_TEST(mentions(refusal([] { render_text("{{ strftime_now('%f') }}"); }), {"%f", "not supported"}));
}

BOOST_AUTO_TEST_SUITE_END()
