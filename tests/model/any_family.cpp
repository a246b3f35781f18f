#include "tenon/model/any_family.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <iterator>
#include <span>

#include "tenon/tokenizer/tokenizer_classes.h"

BOOST_AUTO_TEST_SUITE(model_any_family)

using namespace tenon;

namespace {

struct Mine : Llama {
  static constexpr std::string_view model_type = "mine";
};

std::string_view found(std::string_view model_type) { return find_family(BuiltInModels{}, model_type).model_type; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_family_is_found_by_its_model_type) {
  for (const char* name : {"gpt2", "gpt_bigcode", "llama", "mistral", "bloom"}) BOOST_TEST(found(name) == name);
}

// A folder may leave it to the model_type which tokenizer it has.
BOOST_AUTO_TEST_CASE(every_family_has_a_class_of_tokenizers) {
  for (const Family& family : std::span<const Family>(BuiltInModels{})) {
    const bool known = std::any_of(std::begin(detail::kModelTokenizers), std::end(detail::kModelTokenizers),
                                   [&](const auto& each) { return each.model_type == family.model_type; });
    // AutoTokenizer does not know SmolVLM and LFM2, whose files name a class.
    const std::string_view type = family.model_type;
    BOOST_TEST((known || type == "smolvlm" || type == "lfm2" || type == "lfm2_moe"), type);
  }
}

BOOST_AUTO_TEST_CASE(others_are_refused_with_the_list) {
  BOOST_CHECK_EXCEPTION(found("mystery9000"), Error, [](const Error& error) {
    const std::string text = error.what();
    return error.kind() == Error::Kind::unsupported && text.find("config.json: model_type") != std::string::npos &&
           text.find("mystery9000") != std::string::npos &&
           text.find("gpt2, gpt_bigcode, llama, mistral, bloom") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_list_may_hold_ones_own) {
  using Both = ModelList<Mine, Llama>;
  BOOST_TEST(find_family(Both{}, "mine").model_type == "mine");
  BOOST_TEST(find_family(Both{}, "llama").model_type == "llama");
  BOOST_CHECK_THROW(find_family(ModelList<Mine>{}, "llama"), Error);
}

BOOST_AUTO_TEST_CASE(a_family_is_the_type_itself_or_the_one_that_the_file_names) {
  ModelConfig config;
  config.model_type = "llama";
  BOOST_TEST(family_for<Mine>(config).model_type == "mine");
  BOOST_TEST(family_for<Mine>(ModelFiles{}).model_type == "mine");  // nothing is read
  BOOST_TEST((family_for<AnyFamily<ModelList<Mine, Llama>>>(config).model_type == "llama"));
}

BOOST_AUTO_TEST_SUITE_END()
