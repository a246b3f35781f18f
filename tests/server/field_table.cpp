#include "serve/api/field_table.h"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <utility>

BOOST_AUTO_TEST_SUITE(server_field_table)

using namespace serve;
using tenon::Json;

namespace {

constexpr std::uint64_t kLastPlace = kOllamaShow;

}  // namespace

// A name means one thing in a place, and what it is a spelling of is honoured there under its own name.
BOOST_AUTO_TEST_CASE(rows_agree) {
  std::set<std::pair<std::string, std::uint64_t>> seen;
  for (const Field& field : field_table()) {
    const std::string name(field.name);
    BOOST_TEST((!field.name.empty() && field.places != 0 && !field.peers.empty()), name);
    BOOST_TEST((field.kind == FieldClass::refused) == !field.advice.empty(), name);
    BOOST_TEST((field.kind == FieldClass::refused || field.neutral.empty()), name);
    for (std::uint64_t place = 1; place <= kLastPlace; place <<= 1) {
      if (!(field.places & place)) continue;
      BOOST_TEST(seen.emplace(name, place).second, name << " twice in " << place);
      if (field.same_as.empty()) continue;
      const Field* const own = find_field(field.same_as, static_cast<Place>(place));
      BOOST_REQUIRE_MESSAGE(own, name);
      BOOST_TEST((own->kind == FieldClass::honoured && own->same_as.empty()), name);
    }
  }
  BOOST_TEST(seen.size() > 300U);
}

BOOST_AUTO_TEST_CASE(rows_are_found_by_place) {
  BOOST_TEST(find_field("n_predict", kParameters)->same_as == "max_new_tokens");
  BOOST_TEST(find_field("n_predict", kChat)->same_as == "max_tokens");
  BOOST_TEST(!find_field("n_predict", kGenerate));
  BOOST_TEST(!find_field("", kChat));
}

BOOST_AUTO_TEST_CASE(neutral_values) {
  const auto neutral = [](const char* name, Place place, const char* value) {
    return is_neutral(*find_field(name, place), Json::parse(value));
  };
  for (const char* const nothing : {"null", "false", "\"\"", "[]", "{}"})
    BOOST_TEST(neutral("watermark", kParameters, nothing), nothing);
  for (const char* const something : {"true", "1", "0", "\"x\"", "[0]"})
    BOOST_TEST(!neutral("watermark", kParameters, something), something);
  BOOST_TEST(neutral("no_repeat_ngram_size", kChat, "0"));
  BOOST_TEST(!neutral("no_repeat_ngram_size", kChat, "1"));
  for (const char* const one : {"1", "1.0", "null"}) BOOST_TEST(neutral("length_penalty", kChat, one), one);
  for (const char* const other : {"0", "false", "true", "2"})
    BOOST_TEST(!neutral("length_penalty", kChat, other), other);
  BOOST_TEST(!neutral("penalize_nl", kChat, "false"));
  BOOST_TEST(neutral("function_call", kChat, "\"auto\""));
}

BOOST_AUTO_TEST_SUITE_END()
