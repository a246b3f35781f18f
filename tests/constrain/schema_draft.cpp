// Schemas that name a draft: each keyword has its meaning in that draft, is ignored with a warning, or is refused.
#include "tenon/constrain/schema_draft.h"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/constrain/compile.h"

BOOST_AUTO_TEST_SUITE(constrain_schema_draft)

using namespace tenon;
using namespace tenon::constrain;

namespace {

const std::string kFour = "http://json-schema.org/draft-04/schema#", kSix = "http://json-schema.org/draft-06/schema#",
                  kSeven = "http://json-schema.org/draft-07/schema#",
                  k2019 = "https://json-schema.org/draft/2019-09/schema",
                  k2020 = "https://json-schema.org/draft/2020-12/schema";

OrderedJson in(const std::string& draft, const std::string& schema) {
  OrderedJson json = OrderedJson::parse(schema);
  json["$schema"] = draft;
  return json;
}

bool matches(Automaton& automaton, std::string_view text) {
  Automaton::State state = automaton.start();
  for (const char c : text) {
    if (state == Automaton::kDead) return false;
    state = automaton.step(state, static_cast<std::uint8_t>(c));
  }
  return state != Automaton::kDead && automaton.accepts(state);
}

struct Case {
  std::string draft, schema;
  std::vector<std::string> accept, reject;
  std::size_t warnings = 0;
};

std::string refusal(const OrderedJson& schema) {
  try {
    json_schema(schema);
    return "";
  } catch (const Refused& refused) {
    return (refused.kind() == Error::Kind::unsupported ? "unsupported " : "invalid ") + refused.where();
  }
}

}  // namespace

namespace {

const std::vector<Case> kKeywords = {
    // bounds
    {kFour,
     R"({"type":"integer","minimum":3,"exclusiveMinimum":true,"maximum":6,"exclusiveMaximum":false})",
     {"4", "6"},
     {"3", "7"}},
    {kSix, R"({"type":"integer","exclusiveMinimum":3,"maximum":6})", {"4", "6"}, {"3", "7"}},
    // keywords that a draft does not have
    {kFour, R"({"type":"integer","const":3})", {"3", "4"}, {"null"}, 1},
    {kSix, R"({"type":"integer","const":3})", {"3"}, {"4"}},
    {kFour, R"({"type":"array","contains":{"type":"null"},"items":{"type":"integer"}})", {"[]", "[1]"}, {"[null]"}, 1},
    {kSix, R"({"type":"array","contains":{"const":1},"items":{"type":"integer"}})", {"[1]", "[2,1]"}, {"[]", "[2]"}},
    {kSeven,
     R"({"type":"array","contains":{"const":1},"items":{"type":"integer"},"minContains":2})",
     {"[1]"},
     {"[]"},
     1},
    {k2019,
     R"({"type":"array","contains":{"const":1},"items":{"type":"integer"},"minContains":2})",
     {"[1,1]"},
     {"[1]"}},
    {kFour, R"({"type":"object","properties":{"ab":{}},"propertyNames":{"maxLength":1}})", {R"({"ab":1})"}, {"1"}, 1},
    {kSix, R"({"type":"integer","if":{"minimum":3},"then":{"maximum":5},"else":{"const":0}})", {"9", "2"}, {"null"}, 3},
    {kSeven,
     R"({"type":"integer","if":{"minimum":3},"then":{"maximum":5},"else":{"const":0}})",
     {"4", "0"},
     {"9", "2"}},
    {kSeven,
     R"({"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"integer"}})",
     {"[1,2]", "[]"},
     {"[null]"},
     1},
    {k2019,
     R"({"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"},"$dynamicRef":"#a"})",
     {"[1,2]", "[]"},
     {R"(["a",1])", R"(["a"])"},
     2},
    {k2019,
     R"({"type":"array","items":[{"type":"null"}],"additionalItems":{"type":"integer"}})",
     {"[null,1]", "[]"},
     {"[1]", "[null,null]"}},
    {k2020,
     R"({"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"integer"}})",
     {"[null,2]", "[]"},
     {"[1]"}},
    {kSeven,
     R"({"type":"object","properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}})",
     {R"({"a":1})"},
     {"1"},
     1},
    {kSeven,
     R"({"type":"object","properties":{"a":{},"b":{}},"dependencies":{"a":["b"]}})",
     {R"({"a":1,"b":1})", "{}"},
     {R"({"a":1})"}},
    {kSeven, R"({"type":"integer","unevaluatedProperties":{"type":"null"},"$dynamicRef":"#a"})", {"1"}, {"null"}, 2},
    {kFour, R"({"type":"integer","divisibleBy":2,"disallow":"integer"})", {"1"}, {"null"}, 2},
    // tuples
    {kSeven,
     R"({"type":"array","items":[{"type":"null"}],"additionalItems":{"type":"integer"}})",
     {"[null,1]", "[]"},
     {"[1]", "[null,null]"}},
    {kFour, R"({"type":"array","items":[{"type":"null"}],"additionalItems":false})", {"[null]", "[]"}, {"[null,1]"}},
    // beside $ref
    {kSeven,
     R"({"$ref":"#/definitions/a","maximum":3,"title":"t","definitions":{"a":{"type":"integer"}}})",
     {"3", "4"},
     {"null"},
     1},
    {k2020,
     R"({"$ref":"#/definitions/a","maximum":3,"title":"t","definitions":{"a":{"type":"integer"}}})",
     {"3"},
     {"4", "null"}},
    {kFour,
     R"({"properties":{"a":{"$ref":"#/definitions/a","title":"t"}},"definitions":{"a":{"type":"integer"}}})",
     {R"({"a":4})"},
     {R"({"a":null})"}},
    {kSeven, R"({"type":"array","items":{"$ref":"#","maxItems":1}})", {"[[],[[],[]]]"}, {"[1]"}, 1},
    // names of resources
    {kFour,
     R"({"definitions":{"a":{"type":"integer"}},"items":{"id":"http://x/y","items":{"$ref":"#/definitions/a"},"definitions":{"a":{"type":"null"}}},"type":"array"})",
     {"[[null]]"},
     {"[[1]]"}},
    {kFour,
     R"({"definitions":{"a":{"type":"integer"}},"items":{"$id":"http://x/y","items":{"$ref":"#/definitions/a"},"definitions":{"a":{"type":"null"}}},"type":"array"})",
     {"[[1]]"},
     {"[[null]]"}},
    {kSeven,
     R"({"definitions":{"a":{"type":"integer"}},"items":{"$id":"http://x/y","items":{"$ref":"#/definitions/a"},"definitions":{"a":{"type":"null"}}},"type":"array"})",
     {"[[null]]"},
     {"[[1]]"}},
    {kSeven,
     R"({"definitions":{"a":{"type":"integer"}},"items":{"id":"http://x/y","items":{"$ref":"#/definitions/a"},"definitions":{"a":{"type":"null"}}},"type":"array"})",
     {"[[1]]"},
     {"[[null]]"}},
    // in draft 4, 1.0 is not an integer and is never written
    {kFour, R"({"type":"integer","enum":[1.0,2.5]})", {"1"}, {"1.0", "2.5"}},
    {kFour, R"({"type":"number","not":{"type":"integer"},"minimum":0,"maximum":2})", {"1.5"}, {"1"}},
};

}  // namespace

BOOST_AUTO_TEST_CASE(keywords_mean_what_their_draft_says) {
  for (const Case& c : kKeywords) {
    BOOST_TEST_CONTEXT(c.draft << " " << c.schema) {
      const auto automaton = json_schema(in(c.draft, c.schema));
      for (const std::string& text : c.accept) BOOST_TEST(matches(*automaton, text), "should accept " << text);
      for (const std::string& text : c.reject) BOOST_TEST(!matches(*automaton, text), "should reject " << text);
      BOOST_TEST(automaton->grammar().warnings.size() == c.warnings);
    }
  }
}

BOOST_AUTO_TEST_CASE(warnings_say_where_and_why) {
  const auto warned = [](const std::string& draft, const std::string& schema) {
    return json_schema(in(draft, schema))->grammar().warnings.at(0);
  };
  BOOST_TEST(warned(kFour, R"({"properties":{"a":{"const":1}}})") ==
             "const is not enforced: draft 4 does not have it (#/properties/a)");
  BOOST_TEST(warned(kSeven, R"({"properties":{"a":{"$ref":"#/properties/b","type":"null"},"b":{}}})") ==
             "type is not enforced: draft 7 ignores other keywords beside $ref (#/properties/a)");
}

BOOST_AUTO_TEST_CASE(drafts_are_known_or_refused) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}}})";
  for (const std::string draft : {"04", "06", "07"}) {
    for (const std::string scheme : {"http", "https"}) {
      for (const std::string end : {"", "#"})
        BOOST_TEST(refusal(in(scheme + "://json-schema.org/draft-" + draft + "/schema" + end, schema)) == "");
    }
  }
  for (const std::string draft : {"2019-09", "2020-12"})
    BOOST_TEST(refusal(in("https://json-schema.org/draft/" + draft + "/schema", schema)) == "");
  for (const std::string other : {"json-schema.org/schema", "spec.openapis.org/oas/3.1/dialect/base"}) {
    for (const std::string end : {"", "#"}) BOOST_TEST(refusal(in("https://" + other + end, schema)) == "", other);
  }
  for (const std::string name :
       {"http://json-schema.org/draft-03/schema#", "http://json-schema.org/schema#a", "http://example.com/own", "",
        "draft-07", "http://json-schema.org/draft-07/schema#a", "http://json-schema.org/draft-07/schema##"}) {
    BOOST_TEST(refusal(in(name, schema)) == "unsupported #/$schema", name);
  }
  BOOST_TEST(refusal(OrderedJson::parse(R"({"$schema":7})")) == "invalid #/$schema");
  // A schema has one draft throughout.
  BOOST_TEST(
      refusal(
          in(k2020, R"({"properties":{"a":{"$schema":"http://json-schema.org/draft-07/schema#","type":"null"}}})")) ==
      "unsupported #/properties/a/$schema");
  BOOST_TEST(
      refusal(in(kSeven,
                 R"({"properties":{"a":{"$schema":"http://json-schema.org/draft-07/schema","type":"null"}}})")) == "");
  BOOST_TEST(refusal(in(kSeven,
                        R"({"items":{"$ref":"#/definitions/a","$schema":"x"},"definitions":{"a":{"type":"null"}}})")) ==
             "");  // keywords beside $ref are ignored
  // A property of that name is not the keyword.
  BOOST_TEST(
      refusal(in(kSeven,
                 R"({"properties":{"$schema":{"type":"string"},"$ref":{"type":"string"},"id":{"type":"null"}}})")) ==
      "");
}

BOOST_AUTO_TEST_CASE(syntax_of_another_draft_is_refused) {
  BOOST_TEST(refusal(in(kFour, R"({"exclusiveMinimum":3})")) == "invalid #/exclusiveMinimum");
  BOOST_TEST(refusal(in(kSix, R"({"minimum":3,"exclusiveMinimum":true})")) == "invalid #/exclusiveMinimum");
  BOOST_TEST(refusal(in(kSeven, R"({"maximum":3,"exclusiveMaximum":true})")) == "invalid #/exclusiveMaximum");
  BOOST_TEST(refusal(OrderedJson::parse(R"({"minimum":3,"exclusiveMinimum":true})")) == "");
  BOOST_TEST(refusal(in(kSix, R"({"type":"array","contains":{}})")) == "");
  BOOST_TEST(refusal(in(k2020, R"({"type":"integer","divisibleBy":2})")) == "unsupported #/divisibleBy");
  BOOST_TEST(refusal(in(kSeven, R"({"$ref":"#a","definitions":{"a":{"$id":"#a"}}})")) == "unsupported #/$ref");
}

// Some validators honour these keywords and some ignore them, so either choice would be wrong.
BOOST_AUTO_TEST_CASE(keywords_that_a_draft_removed_are_refused) {
  const std::string depends = R"({"type":"object","properties":{"a":{},"b":{}},"dependencies":{"a":["b"]}})",
                    negated = R"({"type":"object","properties":{"a":{},"b":{}},"not":{"dependencies":{"a":["b"]}}})",
                    tuple = R"({"type":"array","items":[{"type":"string"}]})",
                    others = R"({"type":"array","items":{"type":"string"},"additionalItems":false})",
                    recursive = R"({"properties":{"a":{"$recursiveRef":"#"}}})";
  for (const std::string& draft : {k2019, k2020}) {
    BOOST_TEST(refusal(in(draft, depends)) == "unsupported #/dependencies");
    BOOST_TEST(refusal(in(draft, negated)) == "unsupported #/not/dependencies");
    BOOST_TEST(refusal(in(draft, recursive)) == "unsupported #/properties/a/$recursiveRef");
    BOOST_TEST(refusal(in(draft, R"({"minimum":3,"exclusiveMinimum":true})")) == "invalid #/exclusiveMinimum");
  }
  BOOST_TEST(refusal(in(k2019, tuple)) == "");
  BOOST_TEST(refusal(in(k2019, others)) == "");
  BOOST_TEST(refusal(in(k2020, tuple)) == "unsupported #/items");
  BOOST_TEST(refusal(in(k2020, others)) == "unsupported #/additionalItems");
  for (const std::string& schema : {depends, tuple, others}) BOOST_TEST(refusal(OrderedJson::parse(schema)) == "");
}

BOOST_AUTO_TEST_CASE(names_with_a_format_are_written_so_and_refused_where_others_are_named) {
  const auto items = [](const std::string& more) {
    return refusal(OrderedJson::parse(R"({"items":{"type":"object","propertyNames":{"format":"date"})" + more + "}}"));
  };
  BOOST_TEST(items("") == "");
  BOOST_TEST(items(R"(,"properties":{"2024-02-29":{}})") == "");
  BOOST_TEST(items(R"(,"properties":{"2024-02-30":{}})") == "unsupported #/items/propertyNames");
  BOOST_TEST(items(R"(,"required":["x"])") == "unsupported #/items/propertyNames");
  BOOST_TEST(items(R"(,"allOf":[{"required":["x"]}])") == "unsupported #/items/propertyNames");
  BOOST_TEST(items(R"(,"const":{"x":1})") == "unsupported #/items/propertyNames");
  const std::string either = R"({"type":"object","propertyNames":{"anyOf":[{"format":"date"},{"maxLength":2}]}})";
  BOOST_TEST(refusal(OrderedJson::parse(either)) == "unsupported #/propertyNames");
  // No proof relies on the format: both branches may be objects with any keys.
  const std::string one_of =
      R"({"oneOf":[{"type":"object","propertyNames":{"format":"date"}},{"type":"object","required":["x"]}]})";
  BOOST_TEST(refusal(OrderedJson::parse(one_of)) == "unsupported #/oneOf/0/propertyNames");
}

BOOST_AUTO_TEST_SUITE_END()
