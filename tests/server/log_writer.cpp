#include "serve/ops/log_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "pipes.h"

BOOST_AUTO_TEST_SUITE(server_log_writer)

using namespace serve;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

// 100 bytes.
std::string line_of(int number) {
  std::string line = std::to_string(number);
  line.resize(99, '.');
  return line + "\n";
}

constexpr int kLine = 100;
// More than the pipe, the queue and what the writer has taken off it hold.
constexpr int kTooMany = static_cast<int>(2 * LogWriter::kQueueBytes + pipes::kPipeBytes) / kLine + 1000;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

BOOST_AUTO_TEST_CASE(lines_arrive_whole_and_in_order) {
  std::string expected;
  for (int i = 0; i < 5000; ++i) expected += line_of(i);
  const std::string all = pipes::written([](int end) {
    LogWriter log(end);
    for (int i = 0; i < 5000; ++i) {
      log.put(line_of(i));
      if (i % 100 == 0) std::this_thread::sleep_for(100us);  // 500,000 bytes would fit the queue in any case
    }
    BOOST_TEST(log.lost() == 0U);
  });
  BOOST_TEST((all == expected));
}

BOOST_AUTO_TEST_CASE(a_line_longer_than_a_pipe_takes_at_once_arrives) {
  const std::string longer = std::string(200'000, 'x') + "\n";
  BOOST_TEST((pipes::written([&](int end) {
                LogWriter log(end);
                log.put(longer + "short\n");
              }) == longer + "short\n"));
}

BOOST_AUTO_TEST_CASE(a_reader_that_stops_makes_nobody_wait_and_lines_are_counted) {
  for (const int flags : {0, O_NONBLOCK}) {
    std::string all;
    std::thread reader;
    std::uint64_t lost = 0;
    pipes::Pipe pipe(flags);
    {
      LogWriter log(pipe.in);
      const auto start = Clock::now();
      for (int i = 0; i < kTooMany; ++i) log.put(line_of(i));
      BOOST_TEST(seconds_since(start) <
                 5);  // some milliseconds on an idle machine; a blocking writer would never return
      lost = log.lost();
      BOOST_TEST(lost > 0U);
      ::fcntl(pipe.out, F_SETFL, 0);
      reader = std::thread([&] { all = pipe.read_all(); });
    }  // there is a reader now: what was queued is written
    pipe.close_in();
    reader.join();
    BOOST_TEST(std::count(all.begin(), all.end(), '\n') + static_cast<std::ptrdiff_t>(lost) == kTooMany);
    BOOST_TEST(all.size() % kLine == 0U);
  }
}

BOOST_AUTO_TEST_CASE(its_end_does_not_wait_for_a_reader_that_has_stopped) {
  const pipes::Pipe pipe;
  const auto start = Clock::now();
  {
    LogWriter log(pipe.in);
    for (int i = 0; i < kTooMany; ++i) log.put(line_of(i));
  }
  BOOST_TEST(seconds_since(start) < 30);  // one second and what the machine takes; a join would never return
}

BOOST_AUTO_TEST_CASE(a_slow_reader_is_waited_for) {
  std::string all;
  {
    pipes::Pipe pipe;
    std::thread reader([&] {
      char part[40'000];
      for (ssize_t count; (count = ::read(pipe.out, part, sizeof part)) > 0;) {
        all.append(part, static_cast<std::size_t>(count));
        std::this_thread::sleep_for(20ms);
      }
    });
    {
      LogWriter log(pipe.in);
      for (int i = 0; i < 4000; ++i) log.put(line_of(i));  // six times what the pipe holds
      BOOST_TEST(log.lost() == 0U);
    }
    pipe.close_in();
    reader.join();
  }
  BOOST_TEST(all.size() == 4000U * kLine);
}

BOOST_AUTO_TEST_CASE(a_reader_that_has_gone_costs_lines_and_nothing_else) {
  pipes::Pipe pipe;
  pipe.close_out();
  LogWriter log(pipe.in);
  for (int i = 0; i < 10; ++i) log.put(line_of(i));
  for (int i = 0; i < 5000 && log.lost() < 10; ++i) std::this_thread::sleep_for(1ms);
  BOOST_TEST(log.lost() == 10U);

  LogWriter none(-1);  // closed by whoever started the process
  none.put(line_of(0));
  for (int i = 0; i < 5000 && none.lost() < 1; ++i) std::this_thread::sleep_for(1ms);
  BOOST_TEST(none.lost() == 1U);
}

BOOST_AUTO_TEST_CASE(a_write_in_time_gives_up) {
  const pipes::Pipe pipe;
  const std::string much(pipes::kPipeBytes + 1, 'x');
  const auto start = Clock::now();
  BOOST_TEST(!write_in_time(pipe.in, much, 50ms));
  BOOST_TEST(seconds_since(start) < 10);
  BOOST_TEST(!write_in_time(-1, "x", 50ms));
  const pipes::Pipe empty;
  BOOST_TEST(write_in_time(empty.in, "three\n", 50ms));
}

BOOST_AUTO_TEST_SUITE_END()
