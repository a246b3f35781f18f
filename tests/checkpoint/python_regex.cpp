// PythonRegex against Python: python_regex_cases.json holds the answers of Python's re.
#include "tenon/checkpoint/python_regex.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(checkpoint_python_regex)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;

namespace {

std::string answers(const std::string& pattern, const std::vector<std::string>& texts) {
  try {
    const PythonRegex regex(pattern, "pattern");
    std::string digits;
    for (const std::string& text : texts) {
      std::uint64_t budget = 100'000;
      digits += regex.full_match(text, budget) ? '1' : '0';
      digits += regex.prefix_match(text, budget) ? '1' : '0';
    }
    return digits;
  } catch (const Error& error) {
    return error.kind() == Error::Kind::invalid_file ? "invalid" : "unsupported";
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(answers_are_those_of_python) {
  const Json file = read_json_file(TENON_SOURCE_DIR "/tests/checkpoint/python_regex_cases.json", 1 << 20);
  const auto texts = file.at("texts").get<std::vector<std::string>>();
  std::map<std::string, int> seen;
  for (const Json& each : file.at("cases")) {
    const auto pattern = each.at(0).get<std::string>();
    const std::string answer = answers(pattern, texts);
    BOOST_TEST(answer == each.at(1).get<std::string>(), pattern);
    ++seen[answer.size() == 2 * texts.size() ? "matched" : answer];
  }
  BOOST_TEST(seen["matched"] > 500);
  BOOST_TEST(seen["invalid"] > 100);
  BOOST_TEST(seen["unsupported"] == 10);
}

// Patterns that ms-swift and Unsloth write into adapter_config.json.
BOOST_AUTO_TEST_CASE(patterns_of_trainers) {
  const std::vector<std::string> paths = {"model.layers.3.self_attn.q_proj", "model.layers.3.mlp.up_proj",
                                          "model.visual.blocks.3.attn.qkv", "lm_head"};
  const std::string unsloth =
      R"((?:.*?(?:language|text).*?(?:self_attn|mlp).*?(?:q_proj|up_proj).*?)|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:(?:q_proj|up_proj))))";
  BOOST_TEST(answers(unsloth, paths) == "11110000");
  BOOST_TEST(answers(R"(^(model)(?=\.)(?!.*visual).*\.(q_proj|up_proj|qkv)$)", paths) == "11110000");
  BOOST_TEST(answers(R"((?!^lm_head$).*)", paths) == "11111100");
}

BOOST_AUTO_TEST_CASE(a_choice_without_a_group_is_open) {
  for (const char* pattern : {"a|b", "|"}) BOOST_TEST(PythonRegex(pattern, "").is_open_choice(), pattern);
  for (const char* pattern : {"(a|b)", "(?:a|b)c", "a", "[|]", "\\|"})
    BOOST_TEST(!PythonRegex(pattern, "").is_open_choice(), pattern);
}

BOOST_AUTO_TEST_CASE(refusals_name_the_place) {
  BOOST_TEST(refusal([] { PythonRegex regex("(a", "a.json: f"); }).starts_with("a.json: f: "));
  const PythonRegex any(".*", "a.json: f");
  std::uint64_t budget = 10;
  for (const std::string& text : {std::string("a b"), std::string("\xc3\xa4"), std::string(512, 'a')})
    BOOST_TEST(mentions(refusal([&] { any.full_match(text, budget); }), {"a.json: f", "cannot be matched against"}));
  BOOST_TEST(mentions(refusal([&] { any.full_match(std::string(511, 'a'), budget); }), {"a.json: f", "too long"}));
}

BOOST_AUTO_TEST_SUITE_END()
