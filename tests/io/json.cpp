#include "tenon/io/json.h"

#include <boost/test/unit_test.hpp>

#include "scratch.h"

BOOST_AUTO_TEST_SUITE(io_json)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {
struct Case {
  const char* name;
  std::string text;
  std::vector<std::string> words;
};

std::string repeat(const std::string& part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}
}  // namespace

BOOST_AUTO_TEST_CASE(input_that_is_not_strict_json_is_refused_with_its_position) {
  using namespace std::string_literals;
  const std::vector<Case> cases = {
      {"nothing", "", {"unexpected end", "line 1, column 1"}},
      {"only spaces", " \n ", {"unexpected end", "line 2"}},
      {"cut object", "{\"a\":\n 1", {"unexpected end", "line 2, column 3"}},
      {"cut string", "{\"a", {"line 1, column 4"}},
      {"two documents", "{} {}", {"not valid JSON", "line 1, column 4"}},
      {"a comma too many", "[1,]", {"line 1, column 4"}},
      {"a comment", "{} // no", {"not valid JSON"}},
      {"single quotes", "{'a':1}", {"column 2"}},
      {"NaN", "{\"a\":NaN}", {"column 6"}},
      {"Infinity", "[Infinity]", {"column 2"}},
      {"-Infinity", "[-Infinity]", {"column 3"}},
      {"number past a double", "[1e400]", {"number overflow"}},
      {"negative number past a double", "[-1e400]", {"number overflow"}},
      {"leading zero", "[01]", {"not valid JSON"}},
      {"plus sign", "[+1]", {"not valid JSON"}},
      {"hexadecimal", "[0x10]", {"not valid JSON"}},
      {"byte-order mark", "\xef\xbb\xbf{}", {"byte-order mark"}},
      {"UTF-16", "\xff\xfe{\0}\0"s, {"NUL"}},
      {"NUL as an end", "{}\0anything"s, {"NUL", "column 3"}},
      {"NUL in a string", "[\"\0\"]"s, {"NUL"}},
      {"newline in a string", "[\"\n\"]", {"not valid JSON"}},
      {"invalid UTF-8", "[\"\xff\"]", {"UTF-8"}},
      {"overlong UTF-8", "[\"\xc0\x80\"]", {"UTF-8"}},
      {"surrogate in UTF-8", "[\"\xed\xa0\x80\"]", {"UTF-8"}},
      {"UTF-8 past U+10FFFF", "[\"\xf4\x90\x80\x80\"]", {"UTF-8"}},
      {"lone surrogate", "[\"\\ud800\"]", {"surrogate"}},
      {"unknown escape", "[\"\\x41\"]", {"not valid JSON"}},
      {"duplicate key", "{\"a\":1,\"b\":2,\"a\":3}", {"duplicate", "\"a\""}},
      {"duplicate key by escape", "{\"t\":1,\"\\u0074\":3}", {"duplicate", "\"t\""}},
      {"duplicate key of nested value", "{\"a\":{},\"a\":[1]}", {"duplicate", "\"a\""}},
      {"duplicate key far inside", "{\"a\":{\"c\":[{},{\"x\":1,\"x\":2}]}}", {"duplicate", "\"x\" in a.c[1]"}},
      {"65 lists", repeat("[", 65) + repeat("]", 65), {"deeper than 64"}},
      {"60,000 lists", repeat("[", 60'000), {"deeper than 64"}},
      {"60,000 objects", repeat("{\"a\":", 60'000), {"deeper than 64"}},
  };
  for (const auto& each : cases) {
    BOOST_TEST_CONTEXT(each.name) {
      const std::string sorted = refusal([&] { parse_json(each.text, "some.json"); });
      const std::string ordered = refusal([&] { parse_json<OrderedJson>(each.text, "some.json"); });
      BOOST_TEST(mentions(sorted, each.words), sorted);
      BOOST_TEST(sorted.starts_with("some.json: "), sorted);
      BOOST_TEST(ordered == sorted);
    }
  }
}

BOOST_AUTO_TEST_CASE(sound_documents_are_as_nlohmann_reads_them) {
  for (const std::string text :
       {"{}", "[]", "null", " true ", "-0", "12", "-5", "1.5e3", "18446744073709551615", "-9223372036854775808", "\"\"",
        "{\"b\":1,\"a\":[1,[2,{\"c\":null}],\"\\ud83d\\ude00\"],\"\":{}}", "{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":2}}",
        "1e-400"}) {
    BOOST_TEST(parse_json(text, "f") == Json::parse(text));
    BOOST_TEST(parse_json<OrderedJson>(text, "f").dump() == OrderedJson::parse(text).dump());
  }
  BOOST_TEST(parse_json(repeat("[", 64) + repeat("]", 64), "f").size() == 1u);
  // transformers writes 10^30 for "no limit" into tokenizer_config.json.
  BOOST_TEST(parse_json("[1000000000000000019884624838656]", "f")[0].is_number_float());
}

BOOST_AUTO_TEST_CASE(key_order_is_kept_where_asked) {
  BOOST_TEST(parse_json<OrderedJson>("{\"z\":1,\"a\":{\"y\":2,\"b\":3}}", "f").dump() ==
             "{\"z\":1,\"a\":{\"y\":2,\"b\":3}}");
}

BOOST_AUTO_TEST_CASE(limits_hold) {
  BOOST_TEST(mentions(refusal([] { parse_json("[[[1]]]", "f", {.depth = 2}); }), {"f", "deeper than 2", "[0]"}));
  BOOST_TEST(refusal([] { parse_json("[[1]]", "f", {.depth = 2}); }) == "accepted");
  BOOST_TEST(mentions(refusal([] { parse_json("[1,2,3]", "f", {.values = 3}); }), {"f", "more than 3"}));
  BOOST_TEST(refusal([] { parse_json("[1,2]", "f", {.values = 3}); }) == "accepted");
}

BOOST_AUTO_TEST_CASE(the_kind_of_refusal_is_the_callers) {
  try {
    parse_json("{", "body", {.refusal = Error::Kind::invalid_request});
    BOOST_FAIL("accepted");
  } catch (const Error& error) {
    BOOST_TEST((error.kind() == Error::Kind::invalid_request));
    BOOST_TEST(error.where() == "body");
  }
}

BOOST_AUTO_TEST_CASE(a_message_never_echoes_much_or_breaks_a_line) {
  for (const std::string& text : {"[\"" + std::string(1'000'000, 'x'),
                                  "{\"" + repeat("\\n", 100'000) + "\":1,\"" + repeat("\\n", 100'000) + "\":1}"}) {
    const std::string message = refusal([&] { parse_json(text, "f"); });
    BOOST_TEST(message != "accepted");
    BOOST_TEST(message.size() < 1'500u);
    BOOST_TEST(message.find('\n') == message.npos);
  }
}

// nlohmann's lexer alone spells each newline as <U+000A> in its message, which takes seconds and gigabytes.
BOOST_AUTO_TEST_CASE(much_white_space_costs_little, *boost::unit_test::timeout(10)) {
  const std::string newlines(20'000'000, '\n');
  BOOST_TEST(refusal([&] { parse_json(newlines + "[1," + newlines + "2]" + newlines, "f"); }) == "accepted");
  BOOST_TEST(mentions(refusal([&] { parse_json("[" + newlines + "x", "f"); }), {"line 20000001, column 1:"}));
  BOOST_TEST(parse_json("[ \t\r\n\"a  \\\" \\\\\"\n\n, \" \"  ]", "f") == Json::array({"a  \" \\", " "}));
  for (const char* text : {"[tr\nue]", "[1 2]", "[1\n\n2]", "[\"a\n\nb\"]", "[\"\\\n\"]", "[- 1]", "{\"a\" \n \n 1}"})
    BOOST_TEST(mentions(refusal([&] { parse_json(text, "f"); }), {"not valid JSON"}));
}

// 50,000 keys, as in vocab.json. nlohmann's own ordered_json compares each pair of keys: 1.25e9 comparisons.
BOOST_AUTO_TEST_CASE(large_objects_are_read_in_order_n_log_n, *boost::unit_test::timeout(10)) {
  std::string text = "{\"first\":0";
  for (int i = 0; i < 50'000; ++i) text += ",\"k" + std::to_string(i) + "\":" + std::to_string(i);
  BOOST_TEST(parse_json<OrderedJson>(text + "}", "f").size() == 50'001u);
  BOOST_TEST(parse_json(text + "}", "f").size() == 50'001u);
  BOOST_TEST(mentions(refusal([&] { parse_json<OrderedJson>(text + ",\"k7\":1}", "f"); }), {"duplicate", "k7"}));
}

BOOST_AUTO_TEST_CASE(every_cut_of_a_document_is_refused) {
  const std::string text = "{\"a\": [1, -2.5e3, \"x\\u0041\\n\"], \"b\": {\"c\": true, \"d\": null}}";
  for (std::size_t n = 0; n < text.size(); ++n)
    BOOST_TEST(refusal([&] { parse_json(text.substr(0, n), "f"); }) != "accepted");
  BOOST_TEST(refusal([&] { parse_json(text, "f"); }) == "accepted");
}

BOOST_AUTO_TEST_CASE(files_are_read_within_their_limit) {
  const Scratch scratch;
  scratch.write("a.json", "{\"a\": 1}");
  BOOST_TEST(read_json_file(scratch / "a.json", 8)["a"] == 1);
  BOOST_TEST(mentions(refusal([&] { read_json_file(scratch / "a.json", 7); }), {"a.json", "limit"}));
  BOOST_TEST(mentions(refusal([&] { read_json_file(scratch / "b.json", 7); }), {"b.json", "not exist"}));
}

BOOST_AUTO_TEST_SUITE_END()
