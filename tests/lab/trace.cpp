#include "tenon/lab/trace.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

BOOST_AUTO_TEST_SUITE(lab_trace)

using namespace tenon;
using namespace tenon::lab;
using namespace std::chrono_literals;

namespace {

std::string refusal(const std::string& text) {
  try {
    parse_trace(text, "t.jsonl");
  } catch (const Error& error) {
    BOOST_CHECK(error.kind() == Error::Kind::invalid_file);
    return error.what();
  }
  return "accepted";
}

void check_refusal(const std::string& line, const std::string& expected) {
  const std::string fine = R"({"arrival_ms": 0, "prompt_tokens": 1, "new_tokens": 1})";
  const std::string what = refusal(fine + "\n\n" + line + "\n" + fine);
  BOOST_TEST(what.starts_with("t.jsonl line 3: " + expected), what);
}

bool refuses(const TraceOptions& options, const std::string& field) {
  try {
    random_trace(options);
  } catch (const Error& error) {
    return error.where() == field;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_CASE(reads_every_field_and_its_default) {
  const Trace trace = parse_trace(
      "{\"arrival_ms\": 1.5, \"prompt_tokens\": 120, \"new_tokens\": 32, \"adapter\": 3, \"priority\": -2, \"prefix\": "
      "7, "
      "\"prefix_tokens\": 64}\n"
      "\r\n"
      "{\"new_tokens\": 2, \"prompt_tokens\": 1, \"arrival_ms\": 0.000001}",  // no newline at the end
      "t");
  BOOST_TEST_REQUIRE(trace.size() == 2U);
  BOOST_CHECK((trace[0] == TraceRequest{.arrival = 1ns, .prompt_tokens = 1, .new_tokens = 2}));  // sorted by arrival
  BOOST_CHECK((trace[1] == TraceRequest{.arrival = 1500us,
                                        .prompt_tokens = 120,
                                        .new_tokens = 32,
                                        .adapter = 3,
                                        .priority = -2,
                                        .prefix = 7,
                                        .prefix_tokens = 64}));
  BOOST_TEST(parse_trace("", "t").empty());
}

BOOST_AUTO_TEST_CASE(equal_arrivals_keep_their_order) {
  const Trace trace = parse_trace(
      "{\"arrival_ms\": 5, \"prompt_tokens\": 1, \"new_tokens\": 1}\n"
      "{\"arrival_ms\": 4, \"prompt_tokens\": 2, \"new_tokens\": 1}\n"
      "{\"arrival_ms\": 5, \"prompt_tokens\": 3, \"new_tokens\": 1}\n",
      "t");
  BOOST_TEST(trace[0].prompt_tokens == 2);
  BOOST_TEST(trace[1].prompt_tokens == 1);
  BOOST_TEST(trace[2].prompt_tokens == 3);
}

BOOST_AUTO_TEST_CASE(refuses_by_name_and_line) {
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 1, "new_tokens": 1, "prompt": "x"})",
                "prompt: is an unknown field");
  check_refusal(R"({"prompt_tokens": 1, "new_tokens": 1})", "arrival_ms: is missing");
  check_refusal(R"({"arrival_ms": 0, "new_tokens": 1})", "prompt_tokens: is missing");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 1})", "new_tokens: is missing");
  check_refusal(R"({"arrival_ms": -1, "prompt_tokens": 1, "new_tokens": 1})",
                "arrival_ms: must be a number from 0.0 to");
  check_refusal(R"({"arrival_ms": "0", "prompt_tokens": 1, "new_tokens": 1})", "arrival_ms: must be a number");
  check_refusal(R"({"arrival_ms": 1e300, "prompt_tokens": 1, "new_tokens": 1})",
                "arrival_ms: must be a number from 0.0 to");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 0, "new_tokens": 1})",
                "prompt_tokens: must be an integer from 1 to");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 1.0, "new_tokens": 1})",
                "prompt_tokens: must be an integer from 1 to");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 1, "new_tokens": 0})",
                "new_tokens: must be an integer from 1 to");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 1, "new_tokens": 4294967297})", "new_tokens: must be an integer");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 1, "new_tokens": 1, "adapter": -2})",
                "adapter: must be an integer");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 1, "new_tokens": 1, "adapter": "a"})",
                "adapter: must be an integer");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 1, "new_tokens": 1, "priority": 1.5})",
                "priority: must be an integer");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 4, "new_tokens": 1, "prefix": 0, "prefix_tokens": 5})",
                "prefix_tokens: must be an integer from 0 to 4");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 4, "new_tokens": 1, "prefix_tokens": 3})",
                "prefix_tokens: needs the field prefix");
  check_refusal(R"({"arrival_ms": 0, "prompt_tokens": 1, "new_tokens": 1, "new_tokens": 2})", "");  // a key twice
  check_refusal("[1]", "must be a JSON object");
  check_refusal("{", "not valid JSON");
}

BOOST_AUTO_TEST_CASE(format_and_parse_are_inverse) {
  Trace trace = random_trace({.requests = 500, .rate = 0.7, .adapters = 5, .prefix_tokens = 40, .seed = 3});
  trace[7].priority = -4;
  trace[8].prefix_tokens = 0;
  trace.push_back({.arrival = std::chrono::nanoseconds(999'999'999'999'999), .prompt_tokens = 1, .new_tokens = 1});
  BOOST_CHECK(parse_trace(format_trace(trace), "t") == trace);
}

BOOST_AUTO_TEST_CASE(a_seed_gives_the_same_trace_on_every_machine) {
  const TraceOptions options{.requests = 4,
                             .rate = 10,
                             .adapters = 3,
                             .zipf = 1.2,
                             .prompt = Length::exponential(50, 1000),
                             .new_tokens = Length::uniform(1, 9),
                             .seed = 42};
  BOOST_TEST(format_trace(random_trace(options)) ==
             "{\"arrival_ms\": 53.814875, \"prompt_tokens\": 63, \"new_tokens\": 7, \"adapter\": 2}\n"
             "{\"arrival_ms\": 79.537201, \"prompt_tokens\": 70, \"new_tokens\": 2, \"adapter\": 2}\n"
             "{\"arrival_ms\": 94.953776, \"prompt_tokens\": 57, \"new_tokens\": 5, \"adapter\": 1}\n"
             "{\"arrival_ms\": 95.319715, \"prompt_tokens\": 209, \"new_tokens\": 6, \"adapter\": 1}\n");
  BOOST_CHECK(random_trace(options) == random_trace(options));
  TraceOptions other = options;
  other.seed = 43;
  BOOST_CHECK(random_trace(options) != random_trace(other));
}

BOOST_AUTO_TEST_CASE(changing_lengths_keeps_arrivals_and_adapters) {
  const TraceOptions options{.requests = 50, .rate = 3, .adapters = 4, .seed = 9};
  TraceOptions longer = options;
  longer.prompt = Length::fixed(700);
  const Trace a = random_trace(options), b = random_trace(longer);
  for (std::size_t i = 0; i < a.size(); ++i) {
    BOOST_CHECK(a[i].arrival == b[i].arrival);
    BOOST_TEST(a[i].adapter == b[i].adapter);
    BOOST_TEST(a[i].new_tokens == b[i].new_tokens);
    BOOST_TEST(b[i].prompt_tokens == 700);
  }
}

BOOST_AUTO_TEST_CASE(arrivals_are_a_poisson_process) {
  const int n = 20000;
  const Trace trace = random_trace({.requests = n, .rate = 50, .seed = 1});
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const double gap = std::chrono::duration<double>(trace[i].arrival - (i ? trace[i - 1].arrival : 0ns)).count();
    BOOST_TEST_REQUIRE(gap >= 0);
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / n, deviation = std::sqrt(squares / n - mean * mean);
  // Mean and deviation are both 1 / rate. The standard error of a mean of 20,000 is 0.7 %; 3 % is four of them.
  BOOST_TEST(mean == 0.02, boost::test_tools::tolerance(0.03));
  BOOST_TEST(deviation == 0.02, boost::test_tools::tolerance(0.05));
  for (const TraceRequest& r : random_trace({.requests = 10, .rate = 0})) BOOST_CHECK(r.arrival == 0ns);
}

BOOST_AUTO_TEST_CASE(adapters_are_drawn_by_zipf) {
  const int n = 40000;
  for (const double zipf : {0.0, 1.0, 2.0}) {
    std::vector<int> counts(5);
    for (const TraceRequest& r : random_trace({.requests = n, .adapters = 5, .zipf = zipf}))
      ++counts.at(static_cast<std::size_t>(r.adapter));
    double all = 0;
    for (int k = 1; k <= 5; ++k) all += std::pow(k, -zipf);
    for (int k = 1; k <= 5; ++k) {
      const double expected = n * std::pow(k, -zipf) / all;
      BOOST_TEST(std::abs(counts[static_cast<std::size_t>(k - 1)] - expected) < 4 * std::sqrt(expected));
    }
  }
  for (const TraceRequest& r : random_trace({.requests = 10})) BOOST_TEST(r.adapter == -1);
}

BOOST_AUTO_TEST_CASE(lengths_have_their_distributions) {
  const int n = 20000;
  const auto lengths = [&](Length length) {
    std::vector<int> values;
    for (const TraceRequest& r : random_trace({.requests = n, .new_tokens = length})) values.push_back(r.new_tokens);
    std::sort(values.begin(), values.end());
    return values;
  };
  BOOST_TEST(lengths(Length::fixed(7)).front() == 7);
  BOOST_TEST(lengths(Length::fixed(7)).back() == 7);
  const auto uniform = lengths(Length::uniform(3, 6));
  BOOST_TEST(uniform.front() == 3);
  BOOST_TEST(uniform.back() == 6);
  for (int v = 3; v <= 6; ++v) BOOST_TEST(std::abs(std::count(uniform.begin(), uniform.end(), v) - n / 4) < 4 * 62);
  const auto exponential = lengths(Length::exponential(100, 100000));
  // ceil(x) of mean 100 has the mean 100.5, and half of the values are below 100 ln 2.
  double sum = 0;
  for (const int v : exponential) sum += v;
  BOOST_TEST(sum / n == 100.5, boost::test_tools::tolerance(0.03));
  BOOST_TEST(std::abs(exponential[static_cast<std::size_t>(n / 2)] - 70) <= 4);
  BOOST_TEST(exponential.front() >= 1);
  BOOST_TEST(lengths(Length::exponential(100, 150)).back() == 150);
}

BOOST_AUTO_TEST_CASE(a_system_prompt_is_added_to_each_prompt) {
  for (const TraceRequest& r :
       random_trace({.requests = 20, .adapters = 2, .prompt = Length::fixed(5), .prefix_tokens = 30})) {
    BOOST_TEST(r.prompt_tokens == 35);
    BOOST_TEST(r.prefix_tokens == 30);
    BOOST_TEST(r.prefix == r.adapter + 1);
  }
}

BOOST_AUTO_TEST_CASE(options_are_refused_by_name) {
  BOOST_TEST(refuses({.requests = -1}, "requests"));
  BOOST_TEST(refuses({.rate = -0.1}, "rate"));
  BOOST_TEST(refuses({.rate = std::nan("")}, "rate"));
  BOOST_TEST(refuses({.adapters = -1}, "adapters"));
  BOOST_TEST(refuses({.zipf = -1}, "zipf"));
  BOOST_TEST(refuses({.prompt = Length::fixed(0)}, "prompt"));
  BOOST_TEST(refuses({.prompt = Length::uniform(5, 4)}, "prompt"));
  BOOST_TEST(refuses({.new_tokens = Length::exponential(-1, 4)}, "new_tokens"));
  BOOST_TEST(refuses({.prefix_tokens = -1}, "prefix_tokens"));
  BOOST_TEST(random_trace({.requests = 0}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
