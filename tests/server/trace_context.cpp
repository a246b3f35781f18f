#include "serve/api/trace_context.h"

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(server_trace_context)

namespace {

const std::string kTrace = "0af7651916cd43dd8448eb211c80319c", kSpan = "b7ad6b7169203331";

std::optional<serve::TraceContext> parsed(const std::string& value) {
  serve::HttpRequest request;
  request.headers = {{"Traceparent", value}};
  return serve::trace_context(request);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_trace_is_read) {
  const auto found = parsed("00-" + kTrace + "-" + kSpan + "-01");
  BOOST_REQUIRE(found);
  BOOST_TEST(found->trace_id == kTrace);
  BOOST_TEST(found->span_id == kSpan);
  BOOST_TEST(found->flags == "01");
  BOOST_TEST(parsed("cc-" + kTrace + "-" + kSpan + "-00-what comes later").has_value());  // a future version
}

BOOST_AUTO_TEST_CASE(what_is_malformed_is_none) {
  const std::string zero(32, '0');
  for (const std::string& value :
       {std::string(), "00-" + kTrace + "-" + kSpan, "00-" + kTrace + "-" + kSpan + "-01-x",
        "00-" + kTrace + "-" + kSpan + "-1", "ff-" + kTrace + "-" + kSpan + "-01", "00-" + zero + "-" + kSpan + "-01",
        "00-" + kTrace + "-" + zero.substr(16) + "-01", "00-0AF7651916CD43DD8448EB211C80319C-" + kSpan + "-01",
        "00_" + kTrace + "-" + kSpan + "-01", "cc-" + kTrace + "-" + kSpan + "-00.x",
        "0g-" + kTrace + "-" + kSpan + "-01", "00-" + kTrace + "-" + kSpan + "-0g"})
    BOOST_TEST(!parsed(value).has_value(), value);
  serve::HttpRequest twice;
  twice.headers = {{"traceparent", "00-" + kTrace + "-" + kSpan + "-01"},
                   {"traceparent", "00-" + kTrace + "-" + kSpan + "-01"}};
  BOOST_TEST(!serve::trace_context(twice).has_value());
  BOOST_TEST(!serve::trace_context({}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
