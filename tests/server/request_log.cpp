#include "server/request_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "tenon/core/json.h"

BOOST_AUTO_TEST_SUITE(server_request_log)

using namespace serve;

namespace {

RequestLine line_of(const std::string& id) {
  return {.id = id, .method = "POST", .route = "/v1/completions", .status = 200};
}

// What was written to a pipe while `work` ran.
template <class Work>
std::string written(Work&& work) {
  int ends[2];
  BOOST_REQUIRE(pipe(ends) == 0);
  std::string all;
  std::thread reader([&] {
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof(part))) > 0;) all.append(part, static_cast<std::size_t>(n));
  });
  work(ends[1]);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_line_tells_numbers_in_order) {
  RequestLine line = line_of("r1");
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
  RequestLine failed = line_of("r2");
  failed.status = 429;
  failed.error = "overloaded";
  failed.ms = NAN;
  BOOST_TEST(RequestLog::text(failed, 0) ==
             "{\"ts\":\"1970-01-01T00:00:00.000Z\",\"id\":\"r2\",\"method\":\"POST\",\"route\":\"/v1/completions\","
             "\"status\":429,\"ms\":0.0,\"error\":\"overloaded\"}\n");
}

BOOST_AUTO_TEST_CASE(nothing_from_outside_begins_a_line_of_its_own) {
  RequestLine line = line_of("x\r\n{\"fake\":1}");
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
  BOOST_TEST(written([](int end) { RequestLog(end, /*on=*/false).write(line_of("a")); }) == "");
  BOOST_TEST(!RequestLog(2, false).on());
  const std::string text = written([](int end) { RequestLog(end).write(line_of("a")); });
  const auto json = tenon::parse_json(text, "line");
  BOOST_TEST(std::regex_match(json["ts"].get<std::string>(), std::regex(R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
}

BOOST_AUTO_TEST_CASE(lines_of_many_threads_do_not_mix) {
  const std::string all = written([](int end) {
    RequestLog log(end);
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

BOOST_AUTO_TEST_CASE(a_reader_that_has_gone_costs_lines_and_nothing_else) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  BOOST_REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  RequestLog log(ends[1]);
  log.write(line_of("a"));
  BOOST_TEST(log.lost() == 1U);
  close(ends[1]);

  BOOST_REQUIRE(pipe2(ends, O_NONBLOCK) == 0);  // full and not blocking: lost, not waited for
  RequestLog full(ends[1]);
  for (int i = 0; i < 2000; ++i) full.write(line_of("b"));
  BOOST_TEST(full.lost() > 0U);
  close(ends[0]);
  close(ends[1]);
}

BOOST_AUTO_TEST_CASE(who_may_not_wait_does_not) {
  int ends[2];
  BOOST_REQUIRE(pipe(ends) == 0);
  RequestLog log(ends[1]);
  log.write(line_of("first"), /*may_wait=*/false);
  BOOST_TEST(log.lost() == 0U);
  for (int i = 0; i < 2000; ++i) log.write(line_of("b"), false);  // more than a pipe holds
  const auto lost = log.lost();
  BOOST_TEST(lost > 0U);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);  // a full pipe may have room on its last page
  while (::write(ends[1], "x", 1) == 1) {
  }
  fcntl(ends[1], F_SETFL, 0);
  std::thread waiting([&] { log.write(line_of("last")); });  // holds the lock
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  log.write(line_of("b"), false);
  BOOST_TEST(log.lost() == lost + 1);
  std::string all;
  char part[4096];
  while (all.find("\"last\"") == all.npos) {
    const ssize_t count = read(ends[0], part, sizeof(part));
    BOOST_REQUIRE(count > 0);
    all.append(part, static_cast<std::size_t>(count));
  }
  waiting.join();
  BOOST_TEST(all.find("\"first\"") != all.npos);
  close(ends[0]);
  close(ends[1]);
}

BOOST_AUTO_TEST_SUITE_END()
