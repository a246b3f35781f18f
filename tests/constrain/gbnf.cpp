#include "tenon/constrain/gbnf.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(constrain_gbnf)

using namespace tenon::constrain;

namespace {

struct TooAmbiguous {};

// A naive matcher: sets of stacks of expressions, the innermost last.
class Matcher {
 public:
  explicit Matcher(const std::string& text) { compile_gbnf(grammar_, text); }

  bool operator()(std::string_view text) {
    Stacks stacks = closed({{grammar_.start}});
    for (const char c : text) {
      Stacks next;
      for (Stack stack : stacks) {
        stack.back() = grammar_.expressions.derivative(stack.back(), static_cast<unsigned char>(c));
        if (stack.back() != Expressions::kNever) next.insert(stack);
      }
      stacks = closed(next);
    }
    return std::any_of(stacks.begin(), stacks.end(), [&](const Stack& stack) {
      return stack.size() == 1 && grammar_.expressions.nullable(stack.back());
    });
  }
  const Grammar& grammar() const { return grammar_; }

 private:
  using Stack = std::vector<Expr>;
  using Stacks = std::set<Stack>;

  // Adds the calls that may come next, and returns from those that may be over.
  Stacks closed(const Stacks& stacks) {
    Stacks all;
    std::vector<Stack> work(stacks.begin(), stacks.end());
    while (!work.empty()) {
      const Stack stack = work.back();
      work.pop_back();
      if (!all.insert(stack).second) continue;
      if (all.size() > 10'000) throw TooAmbiguous();
      std::vector<Expressions::Call> calls;
      grammar_.expressions.first_calls(stack.back(), calls);
      for (const Expressions::Call& call : calls) {
        work.push_back(stack);
        work.back().back() = call.rest;
        work.back().push_back(grammar_.rules[static_cast<std::size_t>(call.rule)]);
      }
      if (stack.size() > 1 && grammar_.expressions.nullable(stack.back()))
        work.emplace_back(stack.begin(), stack.end() - 1);
    }
    return all;
  }

  Grammar grammar_;
};

struct Case {
  const char* grammar;
  std::vector<std::string> accept, reject;
  int rules = 0;
};

void check(const Case& c) {
  Matcher match(c.grammar);
  for (const std::string& text : c.accept) BOOST_TEST(match(text), c.grammar << " should accept \"" << text << '"');
  for (const std::string& text : c.reject) BOOST_TEST(!match(text), c.grammar << " should reject \"" << text << '"');
  BOOST_TEST(match.grammar().rules.size() == static_cast<std::size_t>(c.rules), c.grammar);
}

// Rules as alternatives of symbols. Letters stand for themselves, digits for rules; 0 is the start.
struct RandomGrammar {
  static constexpr std::size_t kLongest = 5;
  std::vector<std::vector<std::string>> rules;

  explicit RandomGrammar(std::mt19937& random) : rules(1 + random() % 4) {
    for (auto& alternatives : rules) {
      for (std::size_t left = 1 + random() % 3; left > 0; --left) {
        std::string symbols;
        for (std::size_t more = random() % 16 == 0 ? 0 : 1 + random() % 3; more > 0; --more) {
          symbols += random() % 2 == 0 ? "ab"[random() % 2] : static_cast<char>('0' + random() % rules.size());
        }
        alternatives.push_back(symbols);
      }
    }
  }

  std::string gbnf() const {
    const auto name = [](std::size_t rule) { return rule == 0 ? "root" : "r" + std::to_string(rule); };
    std::string text;
    for (std::size_t rule = 0; rule < rules.size(); ++rule) {
      text += name(rule) + " ::=";
      for (std::size_t i = 0; i < rules[rule].size(); ++i) {
        text += i > 0 ? " | \"\"" : " \"\"";
        for (const char c : rules[rule][i])
          text += c >= 'a' ? std::string(" \"") + c + '"' : " " + name(static_cast<std::size_t>(c - '0'));
      }
      text += "\n";
    }
    return text;
  }

  // All texts of at most kLongest bytes: the rules are applied until no new text results.
  std::set<std::string> texts() const {
    std::vector<std::set<std::string>> known(rules.size());
    for (bool more = true; more;) {
      more = false;
      for (std::size_t rule = 0; rule < rules.size(); ++rule) {
        for (const std::string& symbols : rules[rule]) {
          std::set<std::string> texts = {""};
          for (const char c : symbols) {
            std::set<std::string> longer;
            for (const std::string& head : texts) {
              const std::set<std::string> tails =
                  c >= 'a' ? std::set{std::string(1, c)} : known[static_cast<std::size_t>(c - '0')];
              for (const std::string& tail : tails) {
                if (head.size() + tail.size() <= kLongest) longer.insert(head + tail);
              }
            }
            texts = std::move(longer);
          }
          for (const std::string& text : texts) more = known[rule].insert(text).second || more;
        }
      }
    }
    return known[0];
  }
};

// All texts of the same letters.
std::vector<std::string> short_texts() {
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; texts[i].size() < RandomGrammar::kLongest; ++i) {
    for (const char c : {'a', 'b'}) texts.push_back(texts[i] + c);
  }
  return texts;
}

// The error text, and whether it is "unsupported". Empty where the grammar is accepted.
std::optional<std::string> refusal(const std::string& text, ConstraintLimits limits = {}) {
  try {
    Grammar grammar(limits);
    compile_gbnf(grammar, text);
  } catch (const Refused& refused) {
    return std::string(refused.kind() == tenon::Error::Kind::unsupported ? "unsupported " : "") + refused.what();
  }
  return std::nullopt;
}

void check_refused(const std::string& text, const std::string& message) {
  BOOST_TEST(refusal(text).value_or("taken") == message, "for " << text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(literals_and_classes) {
  check({"root ::= \"\"", {""}, {"a"}});
  check({"root ::= ", {""}, {"a"}});
  check({"root ::= \"a\\n\\t\\r\\\\\\\"\\[\\]\\-\"", {"a\n\t\r\\\"[]-"}, {"a"}});
  check({"root ::= \"\\x41\\u00e9\\U0001F600#\"", {"A\xC3\xA9\xF0\x9F\x98\x80#"}, {"A\xE9\xF0\x9F\x98\x80#"}});
  check({"root ::= \"\xC3\xBC\" [\xC3\xA4-\xC3\xB6]", {"\xC3\xBC\xC3\xA5"}, {"\xC3\xBC\xC3\xBC", "\xC3\xBC\xC3"}});
  check({"root ::= [a-c_\\]\\-x-]", {"a", "b", "c", "_", "]", "-", "x"}, {"", "d", "ab", "\\", "y"}});
  check({"root ::= [-a]", {"-", "a"}, {"b"}});
  check({"root ::= [a\\-c]", {"-", "a", "c"}, {"b"}});
  check({"root ::= [+--]", {"+", ",", "-"}, {"."}});
  check({"root ::= [^a^\\n]", {"b", "\xC3\xBC", "\xF0\x9F\x98\x80", "\""}, {"a", "^", "\n", "", "\xC3", "\xFF", "bb"}});
  check({"root ::= [\\uD7F0-\\uE010]", {"\xEE\x80\x80"}, {"\xED\xA0\x80"}});
  check({"root ::= .", {"a", "\n", "\xC3\xBC"}, {"", "\x80", "ab"}});
}

BOOST_AUTO_TEST_CASE(repetitions) {
  check({"root ::= \"ab\"* \"c\"", {"c", "abc", "ababc"}, {"", "ab", "abbc"}});
  check({"root ::= [ab] + \"c\" ?", {"a", "bac"}, {"", "c", "acc"}});
  check({"root ::= \"a\"{2}", {"aa"}, {"", "a", "aaa"}});
  check({"root ::= \"a\"{2,}", {"aa", "aaaaa"}, {"", "a"}});
  check({"root ::= \"a\"{ 1 , 3 }", {"a", "aa", "aaa"}, {"", "aaaa"}});
  check({"root ::= \"x\" \"a\"{0}", {"x"}, {"xa"}});
  check({"root ::= (\"a\" | \"b\" \"c\"){2} \"!\"", {"aa!", "abc!", "bca!"}, {"a!", "ab!"}});
  check({"root ::= \"a\"{2}{2}", {"aaaa"}, {"aa", "aaa"}});
  check({"root ::= (\"a\"?){3} \"b\"", {"b", "aaab"}, {"aaaab"}});
}

BOOST_AUTO_TEST_CASE(lines) {
  check({"# first\n\n root ::= a | b # and\r\n\r\na ::= \"a\"\nb::=\"b\"#", {"a", "b"}, {"", "ab"}});
  check({"root ::= # what\n  \"a\"\n", {"a"}, {""}});
  check({"root ::= \"a\" |\n # b\n \"b\"\nx ::= root", {"a", "b"}, {""}});
  check({"root ::= \"a\"\n\n # c\n  | \"b\"\n  | \"c\"\n", {"a", "b", "c"}, {""}});
  check({"root ::= ( \"a\"\n \"b\" # c\n *\n | \"d\" )\n", {"a", "abb", "d"}, {"ad"}});
  check({"root ::= (\"a\" | )  \"b\"", {"ab", "b"}, {"a"}});
  check({"root ::= my-rule_2\nmy-rule_2 ::= \"#a\"", {"#a"}, {""}});
  check({"root ::= \"a\nb\"", {"a\nb"}, {"ab"}});
  // As in xgrammar: a rule ends where the next one begins.
  check({"root ::= \"a\"\n\"b\"\n  # c\n  x [c]\n\nx ::= \"d\"\n", {"abdc"}, {"a", "ab", "abd"}});
  check({"root ::= \"a\"\n x\nx::= \"\\b\\f\\v\\'\\/\\^\"", {"a\b\f\v'/^"}, {"a"}});
}

BOOST_AUTO_TEST_CASE(rules_are_parts_of_others_unless_they_loop) {
  check({"root ::= a a b\na ::= b | \"a\"\nb ::= \"b\"{1,2}", {"aab", "bbb", "bbbbbb"}, {"aa", "aaa"}});
  check({"root ::= \"a\" root \"b\" | \"ab\"", {"ab", "aaabbb"}, {"", "aab", "abb", "abab"}, 1});
  check({"root ::= \"x\" | \"0\" root \"0\" | \"1\" root \"1\"", {"x", "0x0", "01x10"}, {"", "0x1", "01x01"}, 1});
  check({"root ::= e\ne ::= t ([-+] t)*\nt ::= f ([*/] f)*\nf ::= [0-9]+ | \"(\" e \")\"",
         {"1", "1+2*3", "(1+2)*(3-4)/5", "((7))"},
         {"", "1+", "(1", "1)", "*1", "1 + 2"},
         1});
  check({"root ::= v\nv ::= \"[\" (v (\",\" v)*)? \"]\" | \"<\" w \">\"\nw ::= \"[\" v \"]\" | \"(\" w \")\"",
         {"[]", "[[],[]]", "<[[]]>", "<((([<[[]]>])))>"},
         {"[", "[,]", "<>", "<([[]]>"},
         2});
  check({"root ::= a | \"b\" root\na ::= \"a\"?", {"", "a", "b", "bba"}, {"aa", "ab"}, 1});
}

BOOST_AUTO_TEST_CASE(copies_of_what_is_large_are_calls) {
  const std::string large(5000, 'a'), rule = "r ::= \"" + large + "\"";
  check({("root ::= r \"b\"\n" + rule).c_str(), {large + "b"}, {large}, 0});
  check({("root ::= r \"b\" r\n" + rule).c_str(), {large + "b" + large}, {large + "b"}, 1});
}

BOOST_AUTO_TEST_CASE(left_recursion_is_rewritten) {
  check({"root ::= root \"x\" | \"y\"", {"y", "yx", "yxx"}, {"", "x", "xy", "yy"}});
  check({"root ::= \"y\" | (root \"x\") \"z\" | root", {"y", "yxz", "yxzxz"}, {"", "yx", "z"}});
  check({"root ::= root \"x\" | root \"w\" | \"\"", {"", "x", "wxw"}, {"y"}});
  check({"root ::= root \"+\" root | [0-9]", {"1", "1+2", "1+2+3"}, {"", "1+", "+1", "12"}, 1});
  check({"root ::= e\ne ::= e [-+] t | t\nt ::= t [*/] f | f\nf ::= [0-9]+ | \"(\" e \")\"",
         {"1", "1+2*3", "(1+2)*(3-4)/5", "((7))", "1-2-3"},
         {"", "1+", "(1", "1)", "*1"},
         1});
  // through other rules
  check({"root ::= sum | [0-9]\nsum ::= root \"+\" [0-9]", {"1", "1+2", "1+2+3"}, {"", "+", "1+"}});
  check({"root ::= a \"!\"\na ::= b \"1\" | \"a\"\nb ::= c \"2\" | b \"5\" | \"b\"\nc ::= a \"3\" | b \"4\" | \"c\"",
         {"a!", "b1!", "b51!", "c21!", "a321!", "c2551!", "b421!", "b4251!", "b42421321!"},
         {"!", "a1!", "b!", "b31!", "b41!", "a21!", "b4242132!"}});
}

BOOST_AUTO_TEST_CASE(other_left_recursion_is_refused) {
  const std::string tail = " other than at the beginning of an alternative";
  check_refused("root ::= x\nx ::= \"a\"? x \"b\" | \"c\"", "unsupported line 2: left recursion of rule \"x\"" + tail);
  check_refused("root ::= (root | \"b\") \"c\"", "unsupported line 1: left recursion of rule \"root\"" + tail);
  check_refused("root ::= root? \"c\"", "unsupported line 1: left recursion of rule \"root\"" + tail);
  check_refused("root ::= root* \"c\"", "unsupported line 1: left recursion of rule \"root\"" + tail);
  check_refused("root ::= root root | \"a\"?", "unsupported line 1: left recursion of rule \"root\"" + tail);
  check_refused("root ::= a\na ::= n b | \"x\"\nn ::= \"\"\nb ::= a \"b\"",
                "unsupported line 2: left recursion of rule \"a\"" + tail);
  check_refused("root ::= a root | \"b\"\na ::= \"a\"?", "unsupported line 1: left recursion of rule \"root\"" + tail);
  // not where nothing needs the rule
  check({"root ::= \"a\"\nx ::= x? \"b\"", {"a"}, {"b"}});
}

BOOST_AUTO_TEST_CASE(random_grammars_match_what_follows_from_them) {
  std::mt19937 random(20261122);
  int taken = 0, left_recursive = 0;
  for (int round = 0; round < 1500; ++round) {
    const RandomGrammar random_grammar(random);
    const std::string grammar = random_grammar.gbnf();
    if (refusal(grammar)) {
      BOOST_TEST(refusal(grammar)->starts_with("unsupported line "), grammar);
      continue;
    }
    try {
      Matcher match(grammar);
      const std::set<std::string> expected = random_grammar.texts();
      for (const std::string& text : short_texts()) {
        if (match(text) != expected.contains(text)) BOOST_ERROR(grammar << "is wrong about \"" << text << '"');
      }
      ++taken;
      left_recursive += random_grammar.rules[0][0].starts_with('0');
    } catch (const TooAmbiguous&) {
    }
  }
  BOOST_TEST_MESSAGE(taken << " taken, " << left_recursive << " with left recursion in front");
  BOOST_TEST(taken > 750);
  BOOST_TEST(left_recursive > 50);
}

BOOST_AUTO_TEST_CASE(malformed_grammars_are_refused) {
  check_refused("", "line 1: there is no rule \"root\"");
  check_refused("# a\na ::= \"a\"\n", "line 3: there is no rule \"root\"");
  check_refused("root ::= a\n  | b\nb ::= \"b\"", "line 1: rule \"a\" is not defined");
  check_refused("root ::= (\n\"a\"\nc\n)", "line 3: rule \"c\" is not defined");
  check_refused("root ::= \"a\"\n\nroot ::= \"b\"", "line 3: rule \"root\" is defined twice");
  for (const char* other :
       {"root = \"a\"", "root: \"a\"", "?root: \"a\"", "%import common.WORD", "// root\nroot ::= \"a\""}) {
    check_refused(
        other,
        "unsupported line 1: grammars are read in GBNF (root ::= \"a\" | rule) and in no other notation, as Lark's");
  }
  check_refused("root ::= \"a\" (= \"b\")", "unsupported line 1: lookahead assertions (= ...) in a grammar");
  check_refused("root", "line 1: the text ends after \"root\", which needs \"::=\"");
  check_refused("root ::= \"a\"\nb", "line 2: rule \"b\" is not defined");
  check_refused("root ::= \"a\" b ::= \"b\"", "line 1: unexpected \":\" in rule \"root\"");
  check_refused("root ::= \"a\"\n\n}", "line 3: unexpected \"}\" where a rule begins");
  check_refused("root ::= \"a\" )", "line 1: unexpected \")\" in rule \"root\"");
  check_refused("root ::= \"a\" \xC3\xBC", "line 1: unexpected \"\xC3\xBC\" in rule \"root\"");
  check_refused("root ::=\n(\"a\"\n\"b\"", "line 2: \"(\" is not closed");
  check_refused("root ::= (\"a\" ]", "line 1: unexpected \"]\" in parentheses");
  check_refused("\nroot ::= \"a", "line 2: the literal is not closed");
  check_refused("root ::= \"a\\", "line 1: the literal is not closed");
  check_refused("root ::= [a", "line 1: the class is not closed");
  check_refused("root ::= [a-", "line 1: the class is not closed");
  check_refused("root ::= []", "line 1: the class is empty");
  check_refused("root ::= [^]", "line 1: the class is empty");
  check_refused("root ::= [az-b]", "line 1: the range z-b is out of order");
  check_refused("root ::= [\\x62-\\x61]", "line 1: the range \\x62-\\x61 is out of order");
  check_refused("root ::= * \"a\"", "line 1: unexpected \"*\" with nothing before it to repeat");
  check_refused("root ::= \"a\"{,2}", "line 1: unexpected \",\" in a repetition: {m}, {m,} or {m,n}");
  check_refused("root ::= \"a\"{1;2}", "line 1: unexpected \";\" in a repetition: {m}, {m,} or {m,n}");
  check_refused("root ::= \"a\"{1", "line 1: the text ends in a repetition: {m}, {m,} or {m,n}");
  check_refused("root ::= \"a\"{3,2}", "line 1: the bounds {3,2} are out of order");
  check_refused(
      "root ::= \"\\q\"",
      "line 1: unexpected \"q\" after \\; known escapes: \\n \\t \\r \\b \\f \\v \\0 \\\\ \\\" \\' \\/ \\[ \\] \\- \\^ "
      "\\xHH \\uHHHH \\UHHHHHHHH");
  check_refused("root ::= \"\\x4g\"", "line 1: unexpected \"g\" where 2 hexadecimal digits are needed");
  check_refused("root ::= \"\\U00110000\"", "line 1: U+00110000 is no character");
  check_refused("root ::= \"\\uD800\"", "line 1: half of a surrogate pair is no character");
  check_refused("root ::=\n\"\xFF\"", "line 2: not UTF-8");
  check_refused("root ::= <think>", "unsupported line 1: tokens (<...>) in a grammar");
}

// Nothing may take long or overflow the stack.
BOOST_AUTO_TEST_CASE(complex_grammars_are_refused) {
  const std::string complex = "unsupported #: too complex: ";
  check_refused("root ::= \"a\"{1000000001}", complex + "repeated more than 1000000000 times");
  check_refused("root ::= \"a\"?????", complex + "repeated more than 4 times over");
  const std::string deep(100'000, '(');
  check_refused("root ::= " + deep, complex + "nested deeper than 256");

  std::string doubling = "root ::= r0\n", chain = doubling, cycle = doubling, system = doubling;
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = "r" + std::to_string(i), next = "r" + std::to_string(i + 1);
    if (i < 60) doubling += name + " ::= " + next + " " + next + "\n";
    chain += name + " ::= (" + next + " \"b\")*\n";
    cycle += name + " ::= \"a\" " + next + "\n";
    if (i < 17) system += name + " ::= " + (i < 16 ? next : "r0") + " \"a\" | \"b\"\n";
  }
  BOOST_TEST(!refusal(doubling + "r60 ::= \"a\"").has_value());
  BOOST_TEST(!refusal(chain + "r20000 ::= \"a\"").has_value());
  Matcher match(cycle + "r20000 ::= r0?");
  BOOST_TEST(match(std::string(40'000, 'a')));
  BOOST_TEST(!match(std::string(39'999, 'a')));
  check_refused(system, complex + "left recursion through more than 16 rules");

  // each round finds one more rule nullable, starting from the last
  std::string slow = "root ::= r0\n";
  for (int i = 0; i < 200'000; ++i) slow += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  const auto answer = refusal(slow + "r200000 ::= \"\"", {.time = std::chrono::milliseconds(50)});
  BOOST_TEST(answer.value_or("taken") == complex + "it takes more than 50 ms");
  BOOST_TEST(refusal(std::string("root ::= ") + std::string(1 << 20, '.'), {.bytes = 1 << 20}).value_or("taken") ==
             complex + "it needs more than 1 MiB");
}

BOOST_AUTO_TEST_CASE(the_cases_of_the_contract) {
  const std::filesystem::path file = TENON_SOURCE_DIR "/../shared/schemas/grammar.jsonl";
  if (!std::filesystem::exists(file)) {
    std::cerr << "SKIPPED: " << file << " is not here\n";
    return;
  }
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    Matcher match(json["grammar"].get<std::string>());
    for (const std::string text : json["accept"]) BOOST_TEST(match(text), json["id"] << " accepts " << text);
    for (const std::string text : json["reject"]) BOOST_TEST(!match(text), json["id"] << " rejects " << text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
