#include "tenon/model/with_model.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(model_with_model)

using namespace tenon;

namespace {

struct Mine : Llama {
  static constexpr std::string_view model_type = "mine";
};

std::string family_of(std::string_view model_type) {
  return with_model(BuiltInModels{}, model_type, [](auto family) { return std::string(decltype(family)::model_type); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_family_is_found_by_its_model_type) {
  for (const char* name : {"gpt2", "gpt_bigcode", "llama", "mistral", "bloom"}) BOOST_TEST(family_of(name) == name);
}

BOOST_AUTO_TEST_CASE(others_are_refused_with_the_list) {
  BOOST_CHECK_EXCEPTION(family_of("mystery9000"), Error, [](const Error& error) {
    const std::string text = error.what();
    return error.kind() == Error::Kind::unsupported && text.find("config.json: model_type") != std::string::npos &&
           text.find("mystery9000") != std::string::npos &&
           text.find("gpt2, gpt_bigcode, llama, mistral, bloom") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_list_may_hold_ones_own) {
  const auto width = [](auto family) { return decltype(family)::model_type.size(); };
  BOOST_TEST(with_model(ModelList<Mine, Llama>{}, "mine", width) == 4u);
  BOOST_TEST(with_model(ModelList<Mine, Llama>{}, "llama", width) == 5u);
  BOOST_CHECK_THROW(with_model(ModelList<Mine>{}, "llama", width), Error);
}

BOOST_AUTO_TEST_SUITE_END()
