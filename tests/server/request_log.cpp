#include "serve/ops/request_log.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "pipes.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(server_request_log)

using namespace serve;

namespace {

LogLine line_of(const std::string& id) {
  return {.id = id, .method = "POST", .route = "/v1/completions", .status = 200};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_line_tells_numbers_in_order) {
  LogLine line = line_of("r1");
  line.adapter = "pirate";
  line.prompt_tokens = 7;
  line.tokens = 16;
  line.reason = "length";
  line.ms = 12.34567;
  line.ttft_ms = 3.0;
  BOOST_TEST(RequestLog::text(line, 1'700'000'000'042) ==
             "{\"ts\":\"2023-11-14T22:13:20.042Z\",\"id\":\"r1\",\"method\":\"POST\",\"route\":\"/v1/completions\","
             "\"status\":200,\"adapter\":\"pirate\",\"prompt_tokens\":7,\"tokens\":16,\"reason\":\"length\","
             "\"ms\":12.346,\"ttft_ms\":3.0}\n");
  line = line_of("r3");
  line.key = "team-a";
  line.trace = TraceContext{"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "01"};
  BOOST_TEST(RequestLog::text(line, 0) ==
             "{\"ts\":\"1970-01-01T00:00:00.000Z\",\"id\":\"r3\",\"method\":\"POST\",\"route\":\"/v1/completions\","
             "\"status\":200,\"key\":\"team-a\",\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\","
             "\"span_id\":\"b7ad6b7169203331\",\"trace_flags\":\"01\",\"ms\":0.0}\n");
  LogLine failed = line_of("r2");
  failed.status = 429;
  failed.error = "overloaded";
  failed.ms = NAN;
  BOOST_TEST(RequestLog::text(failed, 0) ==
             "{\"ts\":\"1970-01-01T00:00:00.000Z\",\"id\":\"r2\",\"method\":\"POST\",\"route\":\"/v1/completions\","
             "\"status\":429,\"ms\":0.0,\"error\":\"overloaded\"}\n");
}

BOOST_AUTO_TEST_CASE(nothing_from_outside_begins_a_line_of_its_own) {
  LogLine line = line_of("x\r\n{\"fake\":1}");
  line.adapter = "a\n\x1b[31m\x7f\xc2\x9b\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\xff\"\\\xc3\xa9" + std::string(10'000, 'z');
  const std::string text = RequestLog::text(line, 0);
  BOOST_TEST(text.find('\n') == text.size() - 1);
  for (const char c : text.substr(0, text.size() - 1)) BOOST_REQUIRE((c >= 0x20 && c < 0x7f));
  const auto json = tenon::parse_json(text, "line");
  BOOST_TEST(json["id"].get<std::string>() == "x{\"fake\":1}");
  BOOST_TEST(json["adapter"].get<std::string>().starts_with("a[31m\xef\xbf\xbd\"\\\xc3\xa9zzz"));
  BOOST_TEST(text.size() < 700U);
}

BOOST_AUTO_TEST_CASE(it_is_off_or_on) {
  const auto logged = [](bool on) {
    return pipes::written([on](int end) {
      LogWriter out(end);
      const RequestLog log(out, on);
      BOOST_TEST(log.on() == on);
      RequestLog(out, on).write(line_of("a"));
    });
  };
  BOOST_TEST(logged(false) == "");
  const auto json = tenon::parse_json(logged(true), "line");
  BOOST_TEST(std::regex_match(json["ts"].get<std::string>(), std::regex(R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
}

BOOST_AUTO_TEST_CASE(lines_of_many_threads_do_not_mix) {
  const std::string all = pipes::written([](int end) {
    LogWriter out(end);
    RequestLog log(out);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < 500; ++i) log.write(line_of(std::to_string(t) + "-" + std::to_string(i)));
      });
    }
    for (auto& each : threads) each.join();
    BOOST_TEST(log.lost() == 0U);
  });
  std::istringstream lines(all);
  std::set<std::string> ids;
  for (std::string line; std::getline(lines, line);)
    ids.insert(tenon::parse_json(line, "line")["id"].get<std::string>());
  BOOST_TEST(ids.size() == 2000U);
}

BOOST_AUTO_TEST_CASE(lines_that_the_writer_loses_are_lost_to_the_log) {
  const pipes::Pipe pipe;
  LogWriter out(pipe.in);
  RequestLog log(out);
  const int lines =
      static_cast<int>(2 * (LogWriter::kQueueBytes + pipes::kPipeBytes) / RequestLog::text(line_of("b"), 0).size());
  for (int i = 0; i < lines; ++i) log.write(line_of("b"));
  BOOST_TEST(log.lost() > 0U);
  BOOST_TEST(log.lost() == out.lost());
}

BOOST_AUTO_TEST_SUITE_END()
