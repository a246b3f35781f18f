// Sample constraints and a vocabulary, to test masks and states.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../core/random.h"
#include "tenon/constrain/compile.h"
#include "tenon/constrain/vocabulary.h"
#include "tenon/io/json.h"

namespace tenon::test {

// `constraint`: its kind, then its text, as "s {}", "r a*", "g root ::= ...".
inline std::unique_ptr<constrain::Automaton> made(const std::string& constraint) {
  const std::string text = constraint.substr(2);
  return constraint[0] == 's'   ? constrain::json_schema(OrderedJson::parse(text))
         : constraint[0] == 'r' ? constrain::regex(text)
                                : constrain::grammar(text);
}

inline const std::vector<std::string>& constraints() {
  static const std::vector<std::string> all = {
      R"(s {})",
      R"(s {"type":"string"})",
      R"(s {"type":"string","maxLength":5})",
      R"(s {"type":"string","minLength":3,"maxLength":40})",
      R"(s {"type":"string","minLength":35})",
      R"(s {"type":"string","pattern":"^[a-z]{2,8}$","maxLength":6})",
      R"(s {"type":"string","pattern":"^[\\s\\S]{0,20}b$"})",
      R"(s {"type":"string","pattern":"^[\\s\\S]*b[\\s\\S]{0,3}$"})",
      R"(s {"type":"string","pattern":"^([\\s\\S]{2,5})?$"})",
      R"(s {"type":"string","pattern":"the","maxLength":12})",
      R"(s {"type":"string","not":{"pattern":"[ae]"}})",
      R"(s {"enum":["red","green","blue","reddish",null,12,{"a":[1]}]})",
      R"(s {"type":"number","minimum":-3.5,"maximum":1200})",
      R"(s {"type":"object","properties":{"name":{"type":"string","maxLength":33},"age":{"type":"integer","minimum":0},"tags":{"type":"array","items":{"type":"string","minLength":1,"maxLength":4},"maxItems":3}},"required":["name"],"additionalProperties":{"type":"string","maxLength":2}})",
      R"(s {"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"string","maxLength":3},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["next"]}}})",
      R"(s {"anyOf":[{"type":"string","maxLength":2},{"type":"string","pattern":"^x"},{"type":"array","items":{"$ref":"#"}}]})",
      R"(s {"type":"string","format":"date-time"})",
      R"(s {"type":"string","pattern":"^(?!a)(?!.*bb)[ab]{1,9}$"})",
      R"(s {"type":"string","pattern":"^((?!b)[ab]{1,2}(?<!a)c?)+$","maxLength":7})",
      R"(s {"type":"array","items":{"enum":["a","ab",1,null]},"uniqueItems":true})",
      R"(s {"type":"array","items":{"type":["integer","null"]},"contains":{"const":12},"maxContains":1,"maxItems":4})",
      R"(r (?:\b[ab]+\b ?)+)",
      R"(r (?:(?!\n\n)[^"])*")",
      R"(r (a|b)*a(a|b){6})",
      R"(r [^"]{0,40}")",
      R"(r .*\n?)",
      R"(r "[^"\\\x00-\x1f]{0,12}"( "é+")?)",
      "g root ::= \"{\" ws root? \"}\" | [a-z]+ \", \" root | \"\xC3\xA9\" [^x]{0,3}\nws ::= [ \\n]{0,3}",
      "g root ::= string (\",\" root)?\nstring ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\n])* \"\\\"\"",
  };
  return all;
}

// Tokens across the ends of strings, and parts of characters.
inline constexpr const char* kAwkward[] = {"\",\"",
                                           "\", \"",
                                           "\"}",
                                           "\"]",
                                           "\":",
                                           "\": ",
                                           "\":\"",
                                           "a\"",
                                           "\"a",
                                           "ab\",",
                                           "b\"}",
                                           "{\"",
                                           "[\"",
                                           "\"\"",
                                           "\"name\": \"",
                                           "\"next",
                                           "null}",
                                           "[[",
                                           "\\\"",
                                           "\\n",
                                           "\\u00",
                                           "a\\",
                                           "\\\\\"",
                                           "\xC3",
                                           "\xA9",
                                           "\xC3\xA9",
                                           "\xA9\"",
                                           "\xC3\xA9\"",
                                           "a\xC3",
                                           "\xF0\x9F",
                                           "\x98\x80",
                                           "\xF0\x9F\x98\x80",
                                           "\x98\x80\"",
                                           "\xE2\x82",
                                           "\xAC",
                                           "\xED\xA0\x80",
                                           "\xFF\xFE",
                                           "\n  ",
                                           "\x7F",
                                           "0.",
                                           "00",
                                           "12",
                                           "-1",
                                           "e+",
                                           "aab",
                                           "bb",
                                           "\xE2\x82\xAC\xE2\x82\xAC",
                                           ""};

// Single bytes, and difficult tokens: across the ends of strings, parts of characters, plain tokens of many
// characters.
inline constrain::Vocabulary awkward() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* text : kAwkward) tokens.emplace_back(text);
  for (const std::size_t length : {30u, 31u, 32u, 33u, 34u, 35u, 36u, 38u, 39u, 40u, 41u, 64u, 300u}) {
    tokens.push_back(std::string(length, 'a'));
    std::string accents;
    for (std::size_t i = 0; i < length; ++i) accents += "\xC3\xA9";
    tokens.push_back(accents);
    if (length < 41) tokens.push_back(std::string(length, 'b') + "\"");
    if (length < 35) tokens.push_back(std::string(length, 'a') + "\\n" + "\xC3");
  }
  tokens.push_back(std::string(33, 'a'));  // a duplicate
  tokens.push_back("end");
  const auto end = static_cast<TokenId>(tokens.size() - 1);
  return constrain::Vocabulary(std::move(tokens), end + 40, {end, end + 7});
}

// A grammar of a few rules that call one another, over the letters a and b.
inline std::string random_grammar(Random& random) {
  const std::vector<std::string> names = {"root", "p", "q", "r"};
  const int rules = 1 + random.below(4);
  std::string text;
  for (int rule = 0; rule < rules; ++rule) {
    text += names[static_cast<std::size_t>(rule)] + " ::= ";
    for (int way = random.below(3); way >= 0; --way) {
      if (random.below(3) > 0) text += random.once_in(2) ? "\"a\" " : "\"b\" ";
      for (int part = random.below(3); part >= 0; --part) {
        const bool call = random.once_in(2);
        text += call ? names[static_cast<std::size_t>(random.below(rules))]
                     : random.of(std::vector<std::string>{"\"a\"", "\"b\"", "[ab]", "\"ab\""});
        text += random.of(std::vector<std::string>{"", "", "", "?", "*", "{2}", "{0,2}"}) + " ";
      }
      text += way > 0 ? "| " : "\n";
    }
  }
  return text;
}

inline std::string random_schema(Random& random, int height = 3) {
  const auto sub = [&] { return random_schema(random, height - 1); };
  const std::vector<std::string> simple = {R"({"type":"integer"})",
                                           R"({"type":"string","maxLength":3})",
                                           R"({"enum":["a","ab",1,null]})",
                                           R"({"$ref":"#"})",
                                           R"({"type":"string","minLength":2,"maxLength":4,"pattern":"^[ab]*$"})",
                                           R"({"const":[1,{"a":2}]})",
                                           "true",
                                           R"({"type":"number","minimum":-1.5,"exclusiveMaximum":20})",
                                           R"({"type":["null","boolean"]})",
                                           R"({"format":"date","type":"string"})"};
  if (height == 0) return random.of(simple);
  switch (random.below(5)) {
    case 0:
      return R"({"type":"array","items":)" + sub() + (random.once_in(2) ? R"(,"maxItems":2})" : R"(,"minItems":1})");
    case 1:
      return R"({"anyOf":[)" + sub() + "," + sub() + "]}";
    case 2:
      return R"({"type":"array","prefixItems":[)" + sub() + "," + sub() + R"(],"items":false})";
    case 3:
      return random.of(simple);
    default:
      return R"({"type":"object","properties":{"a":)" + sub() + R"(,"b":)" + sub() + R"(},"required":[)" +
             (random.once_in(2) ? "\"b\"" : "") + R"(],"additionalProperties":)" +
             (random.once_in(3) ? "{\"type\":\"null\"}" : "false") + "}";
  }
}

// Null where the constraint is refused, as random ones often are.
template <class Make>
std::unique_ptr<constrain::Automaton> made_or_none(Make&& make) {
  try {
    return make();
  } catch (const constrain::Refused&) {
    return nullptr;
  }
}

// False where a text can be read in too many ways, which happens with random grammars.
template <class Act>
bool unless_refused(Act&& act) {
  try {
    act();
    return true;
  } catch (const constrain::Refused&) {
    return false;
  }
}

}  // namespace tenon::test
