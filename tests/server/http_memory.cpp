// No memory on the server's threads: that connection ends, or one answer; the next client is served.
#include <sys/un.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "raw_http.h"

// Allocations that still succeed on all threads but the one of the test; below 0: any number. Not inlined, or g++ 12
// takes free for a mismatch of new.
static std::atomic<long> allocations_left{-1};
static std::atomic<bool> failed{false};
static const std::thread::id test_thread = std::this_thread::get_id();

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (allocations_left >= 0 && std::this_thread::get_id() != test_thread && --allocations_left < 0) {
    allocations_left = 0;  // until the test ends that
    failed = true;
    throw std::bad_alloc();
  }
  for (;;) {
    if (void* const memory = std::malloc(bytes ? bytes : 1)) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (!handler) throw std::bad_alloc();
    handler();  // the memory reserve, which its own test runs in this program
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

BOOST_AUTO_TEST_SUITE(server_http_memory)

using namespace raw;

namespace {

// Whether an allocation failed while `act` ran with so many that succeed.
bool fails_within(long allocations, const std::function<void()>& act) {
  failed = false;
  allocations_left = allocations;
  act();
  allocations_left = -1;
  return failed;
}

bool is_served(Server& server) { return Client(server.port()).ask(get("/ping")).status == 200; }

// Each allocation fails once, and all behind it. The last run has enough of them.
void check_each_allocation(Server& server, const std::function<void()>& act) {
  BOOST_REQUIRE(is_served(server));  // its threads have begun
  long allocations = 0;
  for (bool short_of_memory = true; short_of_memory; ++allocations) {
    BOOST_REQUIRE_LT(allocations, 1000);
    short_of_memory = fails_within(allocations, act);
    BOOST_TEST_CONTEXT("after " << allocations << " allocations") {
      BOOST_REQUIRE(is_served(server));
      BOOST_REQUIRE(eventually([&] { return server.http.open_connections() == 0; }));
      BOOST_REQUIRE(server.http.reading() == 0);
    }
  }
  BOOST_TEST(allocations > 5);
}

serve::HttpLimits limits() {
  serve::HttpLimits limits = small_limits();
  limits.idle = limits.header_read = 5s;  // what ends sooner ends for another reason
  return limits;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_connection_for_which_there_is_no_memory_costs_no_other) {
  Server server(limits());
  server.start();
  check_each_allocation(server, [&] {
    Client client(server.port());
    client.send(get("/ping", "Connection: close\r\n"));
    client.read_until("pong", 100ms);
  });
}

BOOST_AUTO_TEST_CASE(so_do_bodies_and_refusals) {
  Server server(limits());
  server.http.set_head_check([](const serve::HttpRequest& head) {
    return head.header("Go").empty() ? serve::HttpRefusal{} : serve::HttpRefusal{401, "away"};
  });
  server.start();
  check_each_allocation(server, [&] {
    Client client(server.port());
    client.send(post("Connection: close\r\n" + kChunked, "3\r\nabc\r\n0\r\n\r\n"));
    client.read_until("abc", 100ms);
    Client refused(server.port());
    refused.send(post("Go: away\r\nContent-Length: 3\r\n", "abc"));
    refused.closes(100ms);
  });
}

BOOST_AUTO_TEST_CASE(and_streams) {
  Server server(limits());
  server.http.route("GET", "/stream", [](const serve::HttpRequest&, serve::HttpResponse& response) {
    response.set_stream("text/plain", [left = 20](serve::HttpSink& sink) mutable {
      if (--left == 0) sink.done();
      return sink.write(std::string(1000, 'x'));
    });
  });
  server.start();
  check_each_allocation(server, [&] {
    Client client(server.port());
    client.send(get("/stream", "Connection: close\r\n"));
    client.read_until("0\r\n\r\n", 100ms);
  });
}

BOOST_AUTO_TEST_CASE(a_server_ends_without_memory) {
  Server server(limits());
  server.start();
  Clients clients;
  connect(clients, server, 5, get("/ping"));
  for (const auto& client : clients) BOOST_TEST(client->answer().status == 200);
  // No thread still has to hand over its answer, for which it would wait for memory.
  BOOST_TEST(eventually([&] { return server.http.idle() == 5; }));
  const bool failed = fails_within(0, [&] {
    server.http.stop_accepting();
    server.join();
  });
  BOOST_TEST_MESSAGE("an allocation failed: " << failed);
  BOOST_TEST(server.http.open_connections() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(server_http_unix)

namespace {

namespace fs = std::filesystem;

struct SocketPath {
  fs::path path = fs::temp_directory_path() / ("tenon-http-" + std::to_string(::getpid()) + ".sock");
  SocketPath() { fs::remove(path); }
  ~SocketPath() { fs::remove(path); }
};

// Whether somebody listens there.
bool connects(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connected;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_server_removes_its_own_file_alone) {
  const SocketPath at;
  serve::HttpServer first;
  BOOST_REQUIRE(first.bind_unix(at.path));
  BOOST_TEST(!serve::HttpServer().bind_unix(at.path));
  BOOST_TEST(connects(at.path));
  fs::remove(at.path);  // an operator does
  serve::HttpServer second;
  BOOST_REQUIRE(second.bind_unix(at.path));
  std::thread running([&] { first.run(); });
  first.stop();
  running.join();
  BOOST_TEST(connects(at.path));
  running = std::thread([&] { second.run(); });
  second.stop();
  running.join();
  BOOST_TEST(!fs::exists(at.path));
}

// A file that nobody listens on another server may replace: it goes first.
BOOST_AUTO_TEST_CASE(a_file_is_never_there_without_its_server) {
  for (int i = 0; i < 50; ++i) {
    const SocketPath at;
    serve::HttpServer server;
    BOOST_REQUIRE(server.bind_unix(at.path));
    std::thread running([&] { server.run(); });
    std::atomic<int> alone{0};
    std::thread looking([&] {
      while (fs::exists(at.path)) {
        if (!connects(at.path) && fs::exists(at.path)) ++alone;
      }
    });
    server.stop();
    running.join();
    looking.join();
    BOOST_TEST(alone == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
