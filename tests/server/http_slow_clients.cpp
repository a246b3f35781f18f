// Clients that send or read slowly: they hold no thread, and no more memory than the limits say.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "raw_http.h"

BOOST_AUTO_TEST_SUITE(server_http_slow_clients)

using namespace raw;

namespace {

// 5 MB of which no part is like another.
const std::string& large() {
  static const std::string bytes = [] {
    std::string text;
    for (int i = 0; text.size() < 5'000'000; ++i) text += std::to_string(i) + ",";
    return text;
  }();
  return bytes;
}

// More than the buffers of any two sockets.
const std::string& larger() {
  static const std::string bytes = large() + large() + large() + large();
  return bytes;
}

void add_large(Server& server, const std::string& bytes = large()) {
  server.http.route("GET", "/large", [&bytes](const serve::HttpRequest&, serve::HttpResponse& response) {
    response.set_content(bytes, "text/plain");
  });
}

// A stream of one write, which waits for its reader. To be made before the server, whose threads use it.
struct LongStream {
  std::atomic<bool> begun{false}, whole{false};
  std::atomic<double> took{0};  // seconds; 0: it still waits

  void add(Server& server) {
    server.http.route("GET", "/stream", [this](const serve::HttpRequest&, serve::HttpResponse& response) {
      response.set_stream("text/plain", [this](serve::HttpSink& sink) {
        const std::string& bytes = larger();
        const auto start = Clock::now();
        begun = true;
        const bool written = whole = sink.write(bytes);
        took = seconds_since(start);
        if (written) sink.done();
        return written;
      });
    });
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_answer_is_finished_for_a_slow_reader) {
  serve::HttpLimits limits = small_limits();
  limits.threads = 1;
  limits.write = 1s;
  Server server(limits);
  add_large(server);
  server.start();
  Client client(server.port(), /*receive_buffer=*/64 << 10);
  client.send(get("/large") + get("/ping"));
  BOOST_TEST(client.read_until("\r\n\r\n"));
  // The only thread is free, and stays so for longer than the client may pause.
  for (int i = 0; i < 20; ++i) {
    BOOST_TEST(Client(server.port()).ask(get("/ping")).body == "pong");
    for (int j = 0; j < 10; ++j) client.read_some_within(1ms);
    std::this_thread::sleep_for(100ms);
  }
  BOOST_TEST((client.answer().body == large()));
  BOOST_TEST(client.answer().body == "pong");
}

BOOST_AUTO_TEST_CASE(a_stream_is_finished_for_a_slow_reader) {
  serve::HttpLimits limits = small_limits();
  limits.write = 600ms;  // in which the reader takes far less than a third of the socket's buffer
  LongStream stream;
  Server server(limits);
  stream.add(server);
  server.start();
  Client client(server.port(), /*receive_buffer=*/16 << 10);
  client.send(get("/stream", "Connection: close\r\n"));
  BOOST_TEST(eventually([&] { return stream.begun.load(); }));
  const auto start = Clock::now();
  while (stream.took == 0 && seconds_since(start) < 2) {  // some 100 kB a second
    client.read_some_within(10ms);
    std::this_thread::sleep_for(30ms);
  }
  BOOST_TEST(stream.took == 0);  // it waits, and for far longer than the limit
  BOOST_TEST(client.closes(60s));
  BOOST_TEST(client.received().ends_with("\r\n0\r\n\r\n"));
  BOOST_TEST(client.received().size() > larger().size());
  BOOST_TEST(stream.took > 1.9);
}

BOOST_AUTO_TEST_CASE(a_stream_ends_when_its_slow_reader_leaves) {
  const std::function<void(Client&)> leave[] = {[](Client& client) { client.close(); },
                                                [](Client& client) { client.reset(); },
                                                [](Client& client) { client.shut_writing(); }};
  for (const auto& how : leave) {
    serve::HttpLimits limits = small_limits();
    limits.write = 60s;
    LongStream stream;
    Server server(limits);
    stream.add(server);
    server.start();
    Client client(server.port(), /*receive_buffer=*/16 << 10);
    client.send(get("/stream"));
    BOOST_TEST(eventually([&] { return stream.begun.load(); }));
    std::this_thread::sleep_for(50ms);
    BOOST_TEST(stream.took == 0);
    how(client);
    BOOST_TEST(eventually([&] { return stream.took > 0; }, 1s));
    BOOST_TEST(!stream.whole);
  }
}

BOOST_AUTO_TEST_CASE(a_stream_that_takes_too_long_is_cut) {
  serve::HttpLimits limits = small_limits();
  limits.write = 5s;
  limits.write_total = 50ms;  // and for each MiB, of which there are 19
  LongStream stream;
  Server server(limits);
  stream.add(server);
  server.start();
  Client client(server.port(), /*receive_buffer=*/16 << 10);
  client.send(get("/stream"));
  const auto start = Clock::now();
  while (stream.took == 0 && seconds_since(start) < 5) {
    client.read_some_within(10ms);
    std::this_thread::sleep_for(30ms);
  }
  BOOST_TEST(!stream.whole);
  BOOST_TEST(stream.took > 0.9);
  BOOST_TEST(stream.took < 2.5);
}

BOOST_AUTO_TEST_CASE(a_body_is_not_read_where_the_head_is_refused) {
  serve::HttpLimits limits = small_limits();
  limits.body_bytes = 1'000'000;
  limits.request_bytes = 2'000'000;
  limits.body_read = 60s;
  limits.waiting = 30;
  Server server(limits);
  server.http.set_head_check([](const serve::HttpRequest& head) -> serve::HttpRefusal {
    if (head.header("x-api-key") == "k") return {};
    return {401, "no key"};
  });
  server.http.route(
      "GET", "/open",
      [](const serve::HttpRequest& request, serve::HttpResponse& response) {
        response.set_content(request.body, "text/plain");
      },
      serve::HttpServer::Access::open);
  server.start();
  const std::string headers = "Content-Length: 900000\r\n", key = "X-Api-Key: k\r\n";
  Clients clients;
  connect(clients, server, 10, post(headers));
  connect(clients, server, 10, post("Transfer-Encoding: chunked\r\n", "1\r\na\r\n"));
  connect(clients, server, 1, post(headers + "Expect: 100-continue\r\n"));
  for (const auto& client : clients) {
    const Answer answer = client->answer();
    BOOST_TEST(answer.body == error_body(401, "/echo", "no key"));
    BOOST_TEST(answer.has("Connection: close\r\n"));
    client->send(std::string(800'000, 'a'));  // which it may be in the middle of
  }
  BOOST_TEST(eventually([&] { return server.http.open_connections() == 0; }));
  BOOST_TEST(server.echoes == 0);
  BOOST_TEST(server.http.refused_connections() == 0u);
  // Those that may, and those that send no body, are as before.
  BOOST_TEST(Client(server.port()).ask(post(key + headers, std::string(900'000, 'a'))).status == 200);
  BOOST_TEST(Client(server.port()).ask(get("/ping")).status == 200);
  // An open route takes a few bytes from anybody.
  BOOST_TEST(Client(server.port()).ask(get("/open?a", "Content-Length: 2\r\n") + "{}").body == "{}");
  BOOST_TEST(Client(server.port()).ask(get("/ping", "Content-Length: 2\r\n") + "{}").status == 401);
  BOOST_TEST(Client(server.port()).ask(get("/open", headers)).status == 413);
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  BOOST_TEST(Client(server.port()).ask(get("/open", chunked) + "0\r\n\r\n").status == 200);
  BOOST_TEST(Client(server.port()).ask(get("/open", chunked) + "2\r\n{}\r\n0\r\n\r\n").body == "{}");
  Client endless(server.port());
  endless.send(get("/open", chunked) + "4000\r\n" + std::string(5000, 'a'));
  BOOST_TEST(endless.answer().status == 413);
  BOOST_TEST(Client(server.port()).ask(get("/open", key + headers) + std::string(900'000, 'a')).body.size() ==
             900'000u);
}

BOOST_AUTO_TEST_CASE(an_answer_nobody_reads_is_cut) {
  serve::HttpLimits limits = small_limits();
  limits.write_total = 100ms;  // and for each MiB that the socket does not take
  Server server(limits);
  add_large(server, larger());
  server.start();
  BOOST_TEST(larger().size() > 19'000'000u);
  Client silent(server.port(), /*receive_buffer=*/4096), slow(server.port(), 64 << 10);
  const auto start = Clock::now();
  silent.send(get("/large"));
  slow.send(get("/large"));
  BOOST_TEST(eventually([&] { return server.http.open_connections() == 2; }));
  while (server.http.open_connections() == 2 && seconds_since(start) < 5) {
    for (int i = 0; i < 4; ++i) slow.read_some_within(1ms);
    std::this_thread::sleep_for(50ms);
  }
  BOOST_TEST(seconds_since(start) > 0.35);
  BOOST_TEST(seconds_since(start) < 2.5);
  // Progress does not save an answer that takes too long in all.
  while (server.http.open_connections() == 1 && seconds_since(start) < 6) {
    for (int i = 0; i < 4; ++i) slow.read_some_within(1ms);
    std::this_thread::sleep_for(50ms);
  }
  BOOST_TEST(seconds_since(start) > 1.3);  // 20 MB, of which the socket takes 6 at most
  BOOST_TEST(seconds_since(start) < 3.5);
  BOOST_TEST(slow.received().size() < larger().size());
}

BOOST_AUTO_TEST_CASE(a_drain_finishes_an_answer_for_a_slow_reader) {
  serve::HttpLimits limits = small_limits();
  limits.write = 10s;
  Server server(limits);
  add_large(server);
  server.start();
  Client client(server.port(), /*receive_buffer=*/64 << 10);
  client.send(get("/large"));
  BOOST_TEST(client.read_until("\r\n\r\n"));
  server.http.stop_accepting();
  std::this_thread::sleep_for(200ms);
  BOOST_TEST(server.http.open_connections() == 1);
  BOOST_TEST((client.answer().body == large()));
  BOOST_TEST(client.closes(1s));
  server.join();
}

BOOST_AUTO_TEST_CASE(a_stop_cuts_an_answer_for_a_slow_reader) {
  serve::HttpLimits limits = small_limits();
  limits.write = 60s;
  Server server(limits);
  add_large(server);
  server.start();
  Client client(server.port(), /*receive_buffer=*/4096);
  client.send(get("/large"));
  BOOST_TEST(client.read_until("\r\n\r\n"));
  const auto start = Clock::now();
  server.http.stop();
  server.join();
  BOOST_TEST(seconds_since(start) < 0.3);
}

BOOST_AUTO_TEST_CASE(slow_senders_hold_no_thread) {
  serve::HttpLimits limits = small_limits();
  limits.body_read = limits.header_read = 60s;
  Server server(limits);
  server.start();
  Clients clients;
  connect(clients, server, 300, post("Content-Length: 1000\r\n"));
  BOOST_TEST(eventually([&] { return server.http.reading() == 300; }));
  double slowest = 0;
  for (int round = 0; round < 3; ++round) {
    for (const auto& client : clients) {
      client->send("a");
      if (&client - clients.data() > 20) continue;
      const auto start = Clock::now();
      BOOST_TEST(Client(server.port()).ask(get("/ping")).status == 200);
      slowest = std::max(slowest, seconds_since(start));
    }
  }
  BOOST_TEST(slowest < 0.5);
  BOOST_TEST(server.http.reading() == 300);
  // They are served when they are ready.
  for (const auto& client : clients) {
    client->send(std::string(997, 'b'));
    BOOST_TEST(client->answer().body == "aaa" + std::string(997, 'b'));
  }
}

BOOST_AUTO_TEST_CASE(slow_readers_hold_no_thread) {
  serve::HttpLimits limits = small_limits();
  limits.requests_a_connection = 100;
  limits.waiting = 100;
  limits.write = 60s;
  Server server(limits);
  server.http.route("GET", "/metrics", [](const serve::HttpRequest&, serve::HttpResponse& response) {
    response.set_content(std::string(39'000, 'm'), "text/plain");
  });
  server.start();
  Clients clients;
  std::string pipeline;
  for (int i = 0; i < 100; ++i) pipeline += get("/metrics");
  for (int i = 0; i < 60; ++i) {
    clients.push_back(std::make_unique<Client>(server.port(), /*receive_buffer=*/4096));
    clients.back()->send(pipeline);
  }
  double slowest = 0;
  for (int i = 0; i < 50; ++i) {
    const auto start = Clock::now();
    BOOST_TEST(Client(server.port()).ask(get("/ping")).status == 200);
    slowest = std::max(slowest, seconds_since(start));
    std::this_thread::sleep_for(10ms);
  }
  BOOST_TEST(slowest < 0.5);
  BOOST_TEST(server.http.open_connections() >= 60);
}

BOOST_AUTO_TEST_CASE(all_bodies_together_have_a_limit) {
  serve::HttpLimits limits = small_limits();
  limits.body_bytes = 1'000'000;
  limits.request_bytes = 4'000'000;
  limits.body_read = 60s;
  Server server(limits);
  server.start();
  Clients clients;
  const std::string headers = "Content-Length: 900000\r\n";
  connect(clients, server, 10, post(headers, std::string(800'000, 'a')));
  // Those that were first are read, the rest are refused.
  BOOST_TEST(eventually([&] { return server.http.reading() + server.http.refused_connections() == 10; }));
  BOOST_TEST(eventually([&] { return server.http.refused_connections() >= 5; }));
  BOOST_TEST(server.http.reading() >= 1);
  BOOST_TEST(Client(server.port()).ask(get("/ping")).status == 200);
  int answered = 0, refused = 0;
  for (const auto& client : clients) {
    client->send(std::string(100'000, 'a'));
    const Answer answer = client->answer();
    answered += answer.status == 200;
    if (answer.status != 503) continue;
    ++refused;
    BOOST_TEST(answer.body ==
               error_body(503, "/echo", "the bodies of all requests together are larger than this server holds"));
  }
  BOOST_TEST(answered >= 1);
  BOOST_TEST(refused >= 5);
  BOOST_TEST(answered + refused == 10);
  // And it is all given back.
  clients.clear();
  Client last(server.port());
  BOOST_TEST(last.ask(post(headers, std::string(900'000, 'a'))).status == 200);
}

BOOST_AUTO_TEST_CASE(all_kept_answers_together_have_a_limit) {
  serve::HttpLimits limits = small_limits();
  limits.write = 60s;
  limits.waiting = 10;
  limits.answer_bytes = large().size() * 5 / 2;
  Server server(limits);
  add_large(server);
  server.start();
  Clients clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<Client>(server.port(), /*receive_buffer=*/4096));
    clients.back()->send(get("/large"));
  }
  BOOST_TEST(eventually([&] { return server.http.open_connections() < 6; }));
  BOOST_TEST(Client(server.port()).ask(get("/ping")).status == 200);
  BOOST_TEST(server.http.open_connections() >= 2);
}

BOOST_AUTO_TEST_SUITE_END()
