#include "tenon/model/mistral.h"

#include <boost/test/unit_test.hpp>

#include "configured.h"

BOOST_AUTO_TEST_SUITE(model_mistral)

using namespace tenon;
using Json = nlohmann::json;

namespace {

const std::string kBase = "tests/golden/mistral_window7";
ModelConfig configured(const test::Change& change) { return test::configured<Mistral>(kBase, change); }
void refused(const std::string& field, const Json& value) { test::refused_value<Mistral>(kBase, field, value); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_window_is_a_number_or_none_or_the_default) {
  BOOST_TEST(configured([](Json&) {}).window == 7);
  BOOST_TEST(configured([](Json&) {}).kv().window == 7);
  BOOST_TEST(configured([](Json& c) { c["sliding_window"] = nullptr; }).window == 0);
  BOOST_TEST(configured([](Json& c) { c.erase("sliding_window"); }).window == 4096);
}

BOOST_AUTO_TEST_CASE(kv_heads_default_to_eight) {
  const auto of = [](const test::Change& change) {
    return configured(
               [&](Json& c) { c["num_attention_heads"] = 16, c["hidden_size"] = 64, c["head_dim"] = 4, change(c); })
        .kv_heads;
  };
  BOOST_TEST(of([](Json& c) { c.erase("num_key_value_heads"); }) == 8);
  BOOST_TEST(of([](Json& c) { c["num_key_value_heads"] = nullptr; }) == 16);
  BOOST_TEST(of([](Json& c) { c["num_key_value_heads"] = 4; }) == 4);
}

BOOST_AUTO_TEST_CASE(unsupported_values_are_refused_by_name) {
  refused("sliding_window", 0);
  refused("sliding_window", "4096");
  refused("num_key_value_heads", 3);
  refused("model_type", "mixtral");
  refused("architectures", Json::array({"MistralForTokenClassification"}));
}

BOOST_AUTO_TEST_SUITE_END()
