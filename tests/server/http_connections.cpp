// The server's connections: clients that leave, streams, readers that do not read, crowds, and the server's end.
#include <sys/resource.h>
#include <sys/select.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "raw_http.h"

BOOST_AUTO_TEST_SUITE(server_http_connections)

using namespace raw;
using serve::HttpServer;

// select() knows descriptors below FD_SETSIZE alone.
BOOST_AUTO_TEST_CASE(descriptors_beyond_those_of_select_are_served) {
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit files = before;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, FD_SETSIZE + 512);
  ::setrlimit(RLIMIT_NOFILE, &files);
  std::vector<int> fillers;
  for (int fd; (fd = ::dup(STDIN_FILENO)) >= 0; fillers.push_back(fd)) {
    if (fd > FD_SETSIZE) break;
  }
  if (!fillers.empty() && fillers.back() >= FD_SETSIZE - 1) {
    Server server;
    server.start();
    BOOST_TEST(Client(server.port()).ask(get("/ping")).status == 200);
  } else {
    BOOST_TEST_MESSAGE("skipped: too few descriptors are allowed");
  }
  for (const int fd : fillers) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

BOOST_AUTO_TEST_CASE(an_idle_connection_closes) {
  Server server;
  server.start();
  Client client(server.port());
  BOOST_TEST(client.ask(get("/ping")).status == 200);
  const auto start = Clock::now();
  BOOST_TEST(client.closes(2s));
  BOOST_TEST(seconds_since(start) > 0.3);
  BOOST_TEST(seconds_since(start) < 0.7);
  BOOST_TEST(eventually([&] { return server.http.open_connections() == 0; }));
}

BOOST_AUTO_TEST_CASE(a_handler_sees_that_its_client_is_gone) {
  Server server;
  server.start();
  const std::function<void(Client&)> leave[] = {[](Client& client) { client.close(); },
                                                [](Client& client) { client.reset(); },
                                                [](Client& client) { client.shut_writing(); },
                                                [](Client& client) {  // behind bytes that nobody reads
                                                  client.send(get("/ping") + get("/ping"));
                                                  client.close();
                                                }};
  int left = 0;
  for (const auto& how : leave) {
    Client client(server.port());
    client.send(get("/wait"));
    BOOST_TEST(eventually([&] { return server.waiting == 1; }));
    client.send("GET ");  // the client is there, whatever it sends
    std::this_thread::sleep_for(50ms);
    BOOST_TEST(server.gone == left);
    const auto start = Clock::now();
    how(client);
    BOOST_TEST(eventually([&] { return server.gone == left + 1; }));
    BOOST_TEST(seconds_since(start) < 0.1);
    ++left;
  }
  BOOST_TEST(!serve::HttpRequest{}.client_gone());  // this thread answers nobody
}

BOOST_AUTO_TEST_CASE(a_handler_closes_its_connection_and_knows_when_it_began) {
  Server server;
  std::atomic<double> age{-1};
  server.http.route("GET", "/close", [&](const serve::HttpRequest& request, serve::HttpResponse& response) {
    age = seconds_since(request.arrival);
    response.close = true;
  });
  server.start();
  Client client(server.port());
  const std::string request = get("/close");
  client.send(request.substr(0, 10));
  std::this_thread::sleep_for(200ms);
  client.send(request.substr(10) + get("/ping"));
  BOOST_TEST(client.answer().has("Connection: close"));
  BOOST_TEST(client.closes(1s));
  BOOST_TEST(client.received() == "");
  BOOST_TEST(age >= 0.19);
  BOOST_TEST(age < 0.5);
}

BOOST_AUTO_TEST_CASE(a_stream_arrives_as_it_is_written) {
  Server server;
  std::atomic<int> allowed{0};
  std::atomic<bool> gone{false};
  const auto stream = [&](const serve::HttpRequest& request, serve::HttpResponse& response) {
    const bool endless = request.path == "/endless";
    response.set_stream("text/event-stream",
                        [&, endless, peer = request.peer, next = 0](serve::HttpSink& sink) mutable {
                          while (allowed <= next) {
                            if (peer->gone()) {
                              gone = true;
                              return false;
                            }
                            std::this_thread::sleep_for(1ms);
                          }
                          const std::string event = "data: " + std::to_string(next++) + "\n\n";
                          sink.write(event);
                          if (next == 3 && !endless) sink.done();
                          return true;
                        });
  };
  server.http.route("GET", "/stream", stream);
  server.http.route("GET", "/endless", stream);
  server.start();
  Client client(server.port());
  client.send(get("/stream", "Accept-Encoding: gzip, br\r\n"));
  BOOST_TEST(client.read_until("Transfer-Encoding: chunked\r\n"));
  for (int i = 0; i < 3; ++i) {
    const std::string event = "data: " + std::to_string(i);
    BOOST_TEST(client.received().find(event) == std::string::npos);
    ++allowed;
    BOOST_TEST(client.read_until(event, 1s));
  }
  BOOST_TEST(client.read_until("\r\n0\r\n\r\n", 1s));
  client.received().clear();
  BOOST_TEST(client.ask(get("/ping")).body == "pong");  // the connection is good for more

  client.send(get("/endless"));
  BOOST_TEST(client.read_until("data: 2"));
  BOOST_TEST(!gone);
  client.close();
  BOOST_TEST(eventually([&] { return gone.load(); }, 200ms));
}

BOOST_AUTO_TEST_CASE(a_stream_that_throws_is_cut) {
  Server server;
  server.http.route("GET", "/throw", [](const serve::HttpRequest&, serve::HttpResponse& response) {
    response.set_stream("text/plain", [](serve::HttpSink& sink) -> bool {
      sink.write("part");
      throw std::runtime_error("secret");
    });
  });
  server.start();
  Client client(server.port());
  client.send(get("/throw"));
  BOOST_TEST(client.closes(1s));
  BOOST_TEST(client.received().ends_with("4\r\npart\r\n"));  // and no last chunk
  BOOST_TEST(Client(server.port()).ask(get("/ping")).status == 200);
}

BOOST_AUTO_TEST_CASE(a_reader_that_never_reads_fails_the_write) {
  Server server;
  std::atomic<double> failed_after{0};
  server.http.route("GET", "/flood", [&](const serve::HttpRequest&, serve::HttpResponse& response) {
    response.set_stream("text/plain", [&](serve::HttpSink& sink) {
      const std::string block(1 << 20, 'x');
      const auto start = Clock::now();
      const bool written = sink.write(block);
      if (!written) failed_after = seconds_since(start);
      return written;
    });
  });
  server.start();
  Client client(server.port(), /*receive_buffer=*/4096);
  client.send(get("/flood"));
  BOOST_TEST(eventually([&] { return failed_after > 0; }));
  BOOST_TEST(failed_after > 0.35);
  BOOST_TEST(failed_after < 1.5);
  BOOST_TEST(eventually([&] { return server.http.open_connections() == 0; }));
}

BOOST_AUTO_TEST_CASE(too_many_connections_are_refused_at_once) {
  Server server;  // 4 threads, 2 may wait
  std::atomic<int> seen{0};
  server.http.set_answer_hook([&](const serve::HttpRequest& request, serve::HttpResponse& response) {
    seen += response.status == 503 && request.route == request.path;
    response.set_header("x-request-id", request.header("x-request-id"));
  });
  server.start();
  Clients clients;
  connect(clients, server, 4, get("/wait"));
  BOOST_TEST(eventually([&] { return server.waiting == 4; }));
  connect(clients, server, 2, get("/ping"));
  BOOST_TEST(eventually([&] { return server.http.open_connections() == 6; }));
  for (int i = 0; i < 20; ++i) {
    Client late(server.port());
    const auto start = Clock::now();
    late.send(get("/ping", "x-request-id: mine\r\n"));  // also a client that writes before it reads gets the answer
    const Answer answer = late.answer();
    BOOST_TEST(answer.status == 503);
    BOOST_TEST(answer.has("Retry-After: 1\r\n"));
    BOOST_TEST(answer.has("Connection: close\r\n"));
    BOOST_TEST(answer.has("x-request-id: mine\r\n"));
    BOOST_TEST(answer.body == error_body(503, "/ping", "too many requests at once"));
    BOOST_TEST(late.closes(1s));
    BOOST_TEST(seconds_since(start) < 0.3);
  }
  BOOST_TEST(server.http.refused_connections() == 20u);
  BOOST_TEST(seen == 20);
  BOOST_TEST(eventually([&] { return server.http.open_connections() == 6; }));
  server.open_gate = true;
  for (const auto& client : clients) BOOST_TEST(client->answer().status == 200);
}

BOOST_AUTO_TEST_CASE(idle_connections_make_room) {
  serve::HttpLimits limits = small_limits();
  limits.idle = limits.header_read = 10s;
  limits.connections = 4;  // idle ones hold no threads, so only this makes a crowd
  Server server(limits);
  server.start();
  Clients idle;
  connect(idle, server, 3, get("/ping"));
  for (const auto& client : idle) BOOST_TEST(client->answer().status == 200);
  idle.push_back(std::make_unique<Client>(server.port()));  // has never asked anything
  std::this_thread::sleep_for(350ms);
  BOOST_TEST(server.http.open_connections() == 4);
  const auto start = Clock::now();
  Client probe(server.port());
  BOOST_TEST(probe.ask(get("/ping")).status == 200);
  BOOST_TEST(seconds_since(start) < 0.2);
  // One of them went, and one only.
  BOOST_TEST(server.http.open_connections() == 4);
  int closed = 0;
  for (const auto& client : idle) closed += client->closes(20ms);
  BOOST_TEST(closed == 1);

  // In a crowd nobody is kept, and where none is idle the newest is refused.
  Clients busy;
  for (const auto& client : idle) client->close();
  probe.close();
  BOOST_TEST(eventually([&] { return server.http.open_connections() == 0; }));
  connect(busy, server, 4, get("/wait"));
  BOOST_TEST(eventually([&] { return server.waiting == 4; }));
  Client late(server.port());
  BOOST_TEST(late.answer().body == error_body(503, "", "too many connections"));
  server.open_gate = true;
  int kept = 0;
  for (const auto& client : busy) kept += !client->answer().has("Connection: close");
  BOOST_TEST(kept < 4);
}

BOOST_AUTO_TEST_CASE(stop_ends_what_is_open) {
  serve::HttpLimits limits = small_limits();
  limits.idle = limits.header_read = limits.body_read = limits.write = 60s;
  Server server(limits);
  server.http.route("GET", "/flood", [](const serve::HttpRequest&, serve::HttpResponse& response) {
    response.set_stream("text/plain", [](serve::HttpSink& sink) {
      const std::string block(1 << 20, 'x');
      return sink.write(block);
    });
  });
  server.start();
  Clients clients;
  connect(clients, server, 1, post("Content-Length: 100\r\n", "a"));
  connect(clients, server, 3, get("/wait"));
  clients.push_back(std::make_unique<Client>(server.port(), /*receive_buffer=*/4096));
  clients.back()->send(get("/flood"));
  BOOST_TEST(eventually([&] { return server.waiting == 3 && server.http.open_connections() == 5; }));
  std::this_thread::sleep_for(50ms);          // the flood has the fourth thread
  connect(clients, server, 1, get("/ping"));  // has no thread
  BOOST_TEST(eventually([&] { return server.http.open_connections() == 6; }));
  BOOST_TEST(eventually([&] { return server.http.reading() == 1; }));  // the ping was read
  std::this_thread::sleep_for(100ms);
  const auto start = Clock::now();
  server.http.stop();
  server.join();
  BOOST_TEST(seconds_since(start) < 0.3);
  BOOST_TEST(server.http.open_connections() == 0);
  BOOST_TEST(server.gone == 3);
  BOOST_TEST(clients[0]->answer().body == error_body(503, "/echo", "the server is going down"));
  BOOST_TEST(clients[5]->answer().body == error_body(503, "/ping", "the server is going down"));
}

BOOST_AUTO_TEST_CASE(a_drain_lets_answers_end) {
  serve::HttpLimits limits = small_limits();
  limits.idle = 60s;
  Server server(limits);
  server.start();
  Clients clients;
  connect(clients, server, 1, get("/ping"));
  BOOST_TEST(clients[0]->answer().status == 200);
  connect(clients, server, 1, get("/wait"));
  BOOST_TEST(eventually([&] { return server.waiting == 1; }));
  server.http.stop_accepting();
  BOOST_TEST(clients[0]->closes(300ms));
  BOOST_TEST(eventually([&] {
    try {
      Client refused(server.port());
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }));
  BOOST_TEST(eventually([&] { return server.http.open_connections() == 1; }));
  server.open_gate = true;
  const Answer answer = clients[1]->answer();
  BOOST_TEST(answer.status == 200);
  BOOST_TEST(answer.has("Connection: close"));
  server.join();
  BOOST_TEST(server.gone == 0);
}

BOOST_AUTO_TEST_CASE(a_client_that_has_only_closed_its_writing_is_answered) {
  Server server;
  std::atomic<bool> gone{false};
  server.http.route("GET", "/slow", [&](const serve::HttpRequest& request, serve::HttpResponse& response) {
    gone = eventually([&] { return request.client_gone(); });
    response.set_content("done", "text/plain");
  });
  server.start();
  Client client(server.port());
  client.send(get("/slow"));
  std::this_thread::sleep_for(50ms);
  client.shut_writing();
  BOOST_TEST(client.answer().body == "done");
  BOOST_TEST(gone);
  BOOST_TEST(client.closes(300ms));
  Client half(server.port());  // in the middle of a request: nobody to answer
  half.send("GET /ping HT");
  half.shut_writing();
  BOOST_TEST(half.closes(300ms));
  BOOST_TEST(half.received() == "");
}

BOOST_AUTO_TEST_CASE(a_port_has_one_server) {
  Server server;
  server.start();
  HttpServer other;
  BOOST_TEST(!other.bind("127.0.0.1", server.port()));
  BOOST_TEST(!HttpServer().bind("no such host", 0));
  BOOST_CHECK_THROW(HttpServer({.threads = 0}), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
