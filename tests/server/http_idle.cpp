// Many connections that ask once and then stay: what each of them costs, and how the others fare.
#include <sys/resource.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <vector>

#include "raw_http.h"

BOOST_AUTO_TEST_SUITE(server_http_idle)

using namespace raw;

namespace {

constexpr int kConnections = 10'000;

// A process of its own, which has as many descriptors as the server's.
class Crowd {
 public:
  Crowd() {
    if (::pipe(port_) != 0 || ::pipe(done_) != 0) throw std::runtime_error("pipe");
    child_ = ::fork();
    if (child_ == 0) ::_exit(be_the_crowd());
  }
  ~Crowd() {
    ::close(port_[1]);
    ::waitpid(child_, nullptr, 0);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // The number of answers that it read. All its connections stay open until the destructor.
  int come(int port) {
    int answers = 0;
    if (::write(port_[1], &port, sizeof port) != sizeof port) return 0;
    return ::read(done_[0], &answers, sizeof answers) == sizeof answers ? answers : 0;
  }

 private:
  int be_the_crowd() const {
    ::close(port_[1]);
    int port = 0, answers = 0;
    if (::read(port_[0], &port, sizeof port) != sizeof port) return 1;
    try {
      Clients clients;
      for (int i = 0; i < kConnections; ++i) {
        clients.push_back(std::make_unique<Client>(port));
        answers += clients.back()->ask(get("/ping")).status == 200;
      }
      if (::write(done_[1], &answers, sizeof answers) != sizeof answers) return 1;
      return ::read(port_[0], &port, sizeof port) == 0 ? 0 : 1;
    } catch (const std::exception&) {
      return ::write(done_[1], &answers, sizeof answers) == sizeof answers ? 0 : 1;
    }
  }

  int port_[2]{}, done_[2]{};
  pid_t child_ = -1;
};

// MiB of this process in memory.
double resident() {
  std::ifstream file("/proc/self/statm");
  double all = 0, pages = 0;
  file >> all >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace

BOOST_AUTO_TEST_CASE(ten_thousand_idle_connections_cost_little) {
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  if (before.rlim_max < kConnections + 1000) {
    BOOST_TEST_MESSAGE("skipped: at most " << before.rlim_max << " descriptors are allowed");
    return;
  }
  rlimit files = before;
  files.rlim_cur = kConnections + 1000;
  ::setrlimit(RLIMIT_NOFILE, &files);
  Crowd crowd;  // before the server has threads
  serve::HttpLimits limits;
  limits.idle = limits.header_read = 600s;
  limits.threads = 4;
  limits.connections = kConnections + 100;
  Server server(limits);
  server.start();
  for (int i = 0; i < 100; ++i) BOOST_TEST(Client(server.port()).ask(get("/ping")).status == 200);
  const double alone = resident();
  BOOST_TEST(crowd.come(server.port()) == kConnections);
  BOOST_TEST(server.http.open_connections() >= kConnections);
  const double more = resident() - alone;
  BOOST_TEST_MESSAGE(kConnections << " idle connections take " << more << " MiB");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  BOOST_TEST(more < 50);
#endif
  double slowest = 0;
  for (int i = 0; i < 100; ++i) {
    const auto start = Clock::now();
    BOOST_TEST(Client(server.port()).ask(get("/ping")).status == 200);
    slowest = std::max(slowest, seconds_since(start));
  }
  BOOST_TEST(slowest < 0.5);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

BOOST_AUTO_TEST_SUITE_END()
