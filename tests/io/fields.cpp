#include "tenon/io/fields.h"
#include "tenon/io/json.h"

#include <boost/test/unit_test.hpp>

#include "scratch.h"

BOOST_AUTO_TEST_SUITE(io_fields)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;

namespace {
const Json kDocument = parse_json(R"({
  "n": 12, "zero": 0, "minus": -1, "int_max": 2147483647, "past_int": 2147483648,
  "past_int64": 9223372036854775808, "u64": 18446744073709551615, "huge": 1e30, "min_int64": -9223372036854775808,
  "half": 1.5, "whole": 12.0, "tiny": 1e-5, "text": "12", "yes": true, "nothing": null,
  "list": ["a", "b"], "mixed": ["a", 1], "empty": [], "inner": {"r": 4, "in": {"r": "4"}}
})",
                                  "config.json");
const Fields kFields(kDocument, "config.json");
}  // namespace

BOOST_AUTO_TEST_CASE(sound_values_are_read) {
  const Fields& f = kFields;
  BOOST_TEST(f.positive_int("n") == 12);
  BOOST_TEST(f.positive_int("int_max") == 2147483647);
  BOOST_TEST(f.integer("minus", -1, 1) == -1);
  BOOST_TEST(f.integer("zero", 0, 0) == 0);
  BOOST_TEST(f.number("half", 0, 2) == 1.5);
  BOOST_TEST(f.number("n", 12, 12) == 12.0);
  BOOST_TEST(f.positive("tiny") == 1e-5);
  BOOST_TEST(f.boolean("yes"));
  BOOST_TEST(f.string("text") == "12");
  BOOST_TEST(f.choice("text", {"11", "12"}) == "12");
  BOOST_TEST(f.strings("list") == (std::vector<std::string>{"a", "b"}));
  BOOST_TEST(f.strings("empty").empty());
  BOOST_TEST(f.object("inner").positive_int("r") == 4);
  BOOST_TEST(f.has("n"));
  BOOST_TEST(!f.has("nothing"));
  BOOST_TEST(!f.has("absent"));
}

BOOST_AUTO_TEST_CASE(fallbacks_stand_in_for_what_is_absent_or_null_and_for_nothing_else) {
  const Fields& f = kFields;
  for (const std::string key : {"nothing", "absent"}) {
    BOOST_TEST(f.positive_int(key, 7) == 7);
    BOOST_TEST(f.integer(key, 0, 1, 7) == 7);
    BOOST_TEST(f.number(key, 0, 1, 7) == 7.0);
    BOOST_TEST(f.positive(key, 7) == 7.0);
    BOOST_TEST(f.boolean(key, true));
    BOOST_TEST(f.flag(key, true) == (key == "absent"));  // null is false
    BOOST_TEST(!f.flag(key, false));
    BOOST_TEST(f.string(key, "x") == "x");
    BOOST_TEST(f.choice(key, {"a"}, "x") == "x");
    BOOST_TEST(!f.optional_positive_int(key).has_value());
  }
  BOOST_TEST(f.optional_positive_int("n").value() == 12);
  BOOST_TEST(refusal([&] { f.positive_int("text", 7); }) != "accepted");
  BOOST_TEST(refusal([&] { f.optional_positive_int("zero"); }) != "accepted");
  BOOST_TEST(f.flag("yes", false));
  BOOST_TEST(refusal([&] { f.boolean("zero", true); }) != "accepted");
  BOOST_TEST(refusal([&] { f.flag("zero", true); }) != "accepted");
}

BOOST_AUTO_TEST_CASE(refusals_name_file_field_and_what_was_found) {
  const Fields& f = kFields;
  for (const std::string key : {"zero", "minus", "past_int", "past_int64", "u64", "huge", "min_int64", "half", "whole",
                                "text", "yes", "nothing", "list", "inner", "absent"}) {
    const std::string message = refusal([&] { f.positive_int(key); });
    BOOST_TEST(message.starts_with("config.json: " + key + ": "), message);
  }
  BOOST_TEST(mentions(refusal([&] { f.positive_int("text"); }), {"integer", "the string \"12\""}));
  BOOST_TEST(mentions(refusal([&] { f.positive_int("absent"); }), {"is missing"}));
  BOOST_TEST(mentions(refusal([&] { f.positive_int("nothing"); }), {"is null"}));
  BOOST_TEST(mentions(refusal([&] { f.positive_int("past_int64"); }), {"is 9223372036854775808"}));
  BOOST_TEST(mentions(refusal([&] { f.integer("n", 0, 11); }), {"from 0 to 11", "is 12"}));
  BOOST_TEST(mentions(refusal([&] { f.number("half", 0, 1); }), {"half", "from 0.0 to 1.0", "is 1.5"}));
  BOOST_TEST(mentions(refusal([&] { f.number("text", 0, 100); }), {"text", "must be a number"}));
  BOOST_TEST(mentions(refusal([&] { f.positive("zero"); }), {"zero", "above 0"}));
  BOOST_TEST(mentions(refusal([&] { f.positive("yes"); }), {"yes", "is true"}));
  BOOST_TEST(mentions(refusal([&] { f.boolean("zero"); }), {"zero", "true or false", "is 0"}));
  BOOST_TEST(mentions(refusal([&] { f.string("n"); }), {"n", "must be a string", "is 12"}));
  BOOST_TEST(mentions(refusal([&] { f.choice("text", {"11", "13"}); }), {"text", "\"12\"", "11, 13"}));
  BOOST_TEST(mentions(refusal([&] { f.strings("mixed"); }), {"mixed", "list of strings", "holds 1"}));
  BOOST_TEST(mentions(refusal([&] { f.strings("text"); }), {"text", "list of strings"}));
  BOOST_TEST(mentions(refusal([&] { f.object("list"); }), {"list", "must be a JSON object", "is a list"}));
  BOOST_TEST(
      refusal([&] { f.object("inner").object("in").positive_int("r"); }).starts_with("config.json: inner.in.r: must"));
  BOOST_TEST(refusal([&] { f.refuse("n", "must divide m"); }) == "config.json: n: must divide m");
  BOOST_TEST(mentions(refusal([] { Fields(Json::array(), "config.json"); }), {"config.json", "must be a JSON object"}));
}

BOOST_AUTO_TEST_SUITE_END()
