// A stream that is handed over reads back as it was, and damaged files are refused by the field.
#include "serve/api/resume/handed_stream.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "tenon/core/error.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(server_handed_stream)

using serve::HandedStream;
using tenon::Json;

namespace {

HandedStream stream() {
  HandedStream s{.begin = {.seed = ~std::uint64_t{0}, .created = 1'800'000'000, .expires = 1'800'003'600},
                 .route = "/v1/completions",
                 .body = "{\"prompt\": \"h\u00e9\\n\"}",
                 .receipt = true,
                 .owner = "team",
                 .client = -7,
                 .fingerprint = "fp_0123456789abcdef",
                 .event_form = 1,
                 .versions = {"0.1.0", "0.2.0"},
                 .until = 1'800'000'300};
  s.begin.answer = "cmpl-0123";
  s.progress.fingerprint = std::string(64, 'a');
  s.progress.digests = {"sha256:00"};
  s.progress.choices.push_back(
      {.ids = {5, 6}, .logprobs = {-0.5f, -2}, .top_logprobs = {{{5, -0.5f}}, {}}, .logits_hash = 9});
  return s;
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_reads_back) {
  const std::string text = text_of(stream());
  BOOST_TEST(text_of(serve::handed_stream_from(text)) == text);
  const HandedStream read = serve::handed_stream_from(text);
  BOOST_TEST(read.begin.seed == ~std::uint64_t{0});
  BOOST_TEST(read.begin.events == 0u);
  BOOST_TEST(read.body == stream().body);
  BOOST_TEST(read.client == -7);
  BOOST_TEST(read.versions == stream().versions, boost::test_tools::per_element());
  BOOST_TEST(read.progress.choices.at(0).ids == stream().progress.choices[0].ids, boost::test_tools::per_element());
  BOOST_TEST(read.progress.choices[0].logprobs.at(1) == -2);
}

BOOST_AUTO_TEST_CASE(each_field_is_needed) {
  const Json json = tenon::parse_json<Json>(text_of(stream()), "test");
  for (const auto& item : json.items()) {
    Json other = json;
    other.erase(item.key());
    BOOST_CHECK_EXCEPTION(serve::handed_stream_from(other.dump()), tenon::Error, [&](const tenon::Error& error) {
      BOOST_TEST(error.where() == "hand-over: " + item.key(), error.what());
      return true;
    });
    other[item.key()] = nullptr;
    BOOST_CHECK_THROW(serve::handed_stream_from(other.dump()), tenon::Error);
  }
  for (const char* text : {"", "{", "[]", "null"}) BOOST_CHECK_THROW(serve::handed_stream_from(text), tenon::Error);
}

BOOST_AUTO_TEST_SUITE_END()
