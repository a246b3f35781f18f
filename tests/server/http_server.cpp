// What the server reads, from a client that sends what no library would: budgets, framing, routes and errors.
#include "serve/http/server.h"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "raw_http.h"

BOOST_AUTO_TEST_SUITE(server_http_server)

using namespace raw;
using serve::HttpServer;

BOOST_AUTO_TEST_CASE(two_requests_on_one_connection) {
  Server server;
  server.start();
  Client client(server.port());
  const Answer first = client.ask(get("/ping"));
  BOOST_TEST(first.status == 200);
  BOOST_TEST(first.body == "pong");
  BOOST_TEST(!first.has("Connection: close"));
  BOOST_TEST(client.ask(post_body("hello")).body == "hello");
  BOOST_TEST(client.ask(post(kChunked, "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n")).body == "abcde");
  client.send(get("/ping") + "\r\n" + get("/ping"));  // the empty line is allowed
  BOOST_TEST(client.answer().body == "pong");
  const Answer last = client.answer();
  BOOST_TEST(last.body == "pong");
  BOOST_TEST(last.has("Connection: close"));
  BOOST_TEST(client.closes(1s));
}

BOOST_AUTO_TEST_CASE(requests_come_in_pieces) {
  serve::HttpLimits limits = small_limits();
  limits.header_read = limits.body_read = 5s;
  Server server(limits);
  server.start();
  Client client(server.port());
  for (const std::string& request : {post_body("hello"), post(kChunked, "5\r\nhello\r\n0\r\n\r\n")}) {
    for (const char c : request) {
      client.send({&c, 1});
      std::this_thread::sleep_for(200us);
    }
    BOOST_TEST(client.answer().body == "hello");
  }
}

BOOST_AUTO_TEST_CASE(a_slow_head_ends_at_its_deadline) {
  Server server;
  server.start();
  Client client(server.port());
  const auto start = Clock::now();
  std::size_t sent = 0;
  for (const std::string request = get("/ping"); sent < request.size(); ++sent) {
    if (client.read_until("408", 50ms) || !client.send(request.substr(sent, 1))) break;
  }
  BOOST_TEST(sent < 12u);
  BOOST_TEST(client.answer().status == 408);
  BOOST_TEST(client.closes(1s));
  BOOST_TEST(seconds_since(start) < 1);

  Client silent(server.port());  // gets no answer, as it has asked nothing
  BOOST_TEST(silent.closes(1s));
  BOOST_TEST(silent.received() == "");
}

BOOST_AUTO_TEST_CASE(a_slow_body_ends_at_its_deadline) {
  Server server;
  server.start();
  for (const std::string& headers : {std::string("Content-Length: 100\r\n"), kChunked}) {
    Client client(server.port());
    const auto start = Clock::now();
    client.send(post(headers));
    for (int i = 0; i < 20 && !client.read_until("408", 50ms); ++i) client.send("0");
    BOOST_TEST(client.answer().status == 408);
    BOOST_TEST(client.closes(1s));
    BOOST_TEST(seconds_since(start) < 1);
  }
  BOOST_TEST(server.echoes == 0);
}

BOOST_AUTO_TEST_CASE(heads_have_budgets) {
  Server server;
  server.start();
  check_refused(server, get("/" + std::string(600, 'a')), 414);
  check_refused(server, "GET /" + std::string(100'000, 'a'), 414);
  check_refused(server, get("/ping", "X: " + std::string(2000, 'a') + "\r\n"), 431);
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += "X: a\r\n";
  check_refused(server, get("/ping", lines), 431);  // and Host
  BOOST_TEST(Client(server.port()).ask(get("/ping", lines.substr(6))).status == 200);

  // It does not wait for the end of a line that is too long, however much there is.
  Client client(server.port());
  client.send("GET /ping HTTP/1.1\r\nX: ");
  const std::string part(100'000, 'a');
  for (int i = 0; i < 50 && client.send(part); ++i) continue;
  BOOST_TEST(client.answer().status == 431);
}

BOOST_AUTO_TEST_CASE(heads_are_strict) {
  Server server;
  server.start();
  using namespace std::string_literals;
  for (const std::string& bytes :
       {"GET /ping HTTP/1.1\nHost: x\n\n"s, "GET /ping\r\n\r\n"s, "\x16\x03\x01 TLS"s, "\r\n\r\n"s}) {
    check_refused(server, bytes, 400);
  }
  for (const std::string& line :
       {"GET  HTTP/1.1"s, "GET /pi ng HTTP/1.1"s, "GET /p\0ing HTTP/1.1"s, "GET /p%00ing HTTP/1.1"s,
        "G(T /ping HTTP/1.1"s, "GET /p\xc3\xa9 HTTP/1.1"s, "GET /a?b?c HTTP/1.1"s}) {
    check_refused(server, line + "\r\nHost: x\r\n\r\n", 400);
  }
  for (const std::string& header : {"X : a\r\n"s, " X: a\r\n"s, "X: a\r\n b\r\n"s, "X\r\n"s, ": a\r\n"s, "X: a\0b\r\n"s,
                                    "X: a\x01\r\n"s, "X: a\rb\r\n"s, "X: a\nY: b\r\n"s, "Host: y\r\n"s}) {
    check_refused(server, get("/ping", header), 400);
  }
  check_refused(server, "GET /ping HTTP/2.0\r\n\r\n", 505);
  check_refused(server, "GET /ping HTTP/1.1\r\nX: a\r\n\r\n", 400);  // no Host
  BOOST_TEST(Client(server.port()).ask("GET /ping HTTP/1.0\r\n\r\n").status == 200);
  // Values arrive as they were sent, and no client says which address it has.
  std::string seen, address;
  Server other;
  other.http.route("GET", "/seen", [&](const serve::HttpRequest& request, serve::HttpResponse&) {
    seen = request.header("X") + "|" + request.parameter("q");
    address = request.peer->address();
  });
  other.start();
  BOOST_TEST(Client(other.port()).ask(get("/seen?q=%41+b", "X:  100%25 \t\r\nREMOTE_ADDR: 6.6.6.6\r\n")).status == 200);
  BOOST_TEST(seen == "100%25|A b");
  BOOST_TEST(address == "127.0.0.1");
}

BOOST_AUTO_TEST_CASE(targets_may_be_absolute) {
  Server server;
  server.http.route("GET", "/", [](const serve::HttpRequest& request, serve::HttpResponse& response) {
    response.set_content("root " + request.parameter("q"), "text/plain");
  });
  server.start();
  const auto ask = [&](const std::string& target) {
    return Client(server.port()).ask("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
  };
  for (const char* host : {"http://x", "HTTP://[::1]:80", "https://x:8080"}) {
    BOOST_TEST(ask(host + std::string("/ping?a=http://b/")).body == "pong");
    BOOST_TEST(ask(host + std::string("?q=1")).body == "root 1");
    BOOST_TEST(ask(host).body == "root ");
  }
  BOOST_TEST(ask("http://x/nothing").body == error_body(404, "/nothing"));
  for (const char* target : {"http://", "http:///ping", "http://user@x/ping"}) BOOST_TEST(ask(target).status == 400);
}

BOOST_AUTO_TEST_CASE(keep_alive_is_told_in_whole_seconds) {
  Server short_idle;
  BOOST_TEST(!Client(short_idle.start().port()).ask(get("/ping")).has("Keep-Alive"));
  serve::HttpLimits limits = small_limits();
  limits.idle = 2s;
  Server server(limits);
  Client client(server.start().port());
  BOOST_TEST(client.ask(get("/ping")).has("Keep-Alive: timeout=2"));
  BOOST_TEST(!client.ask(get("/ping", "Connection: close\r\n")).has("Keep-Alive"));
}

BOOST_AUTO_TEST_CASE(framing_is_strict) {
  Server server;
  server.start();
  for (const char* length : {"-1", "+1", "0x1", "1a", "1,1", "", "1 1"}) {
    check_refused(server, post("Content-Length: " + std::string(length) + "\r\n"), 400);
  }
  check_refused(server, post("Content-Length: 99999999999999999999999\r\n"), 413);
  check_refused(server, post("Content-Length: 1001\r\n", std::string(1001, 'a')), 413);
  check_refused(server, post("Content-Length: 1\r\nContent-Length: 1\r\n", "a"), 400);
  check_refused(server, post("Content-Length: 1\r\n" + kChunked, "0\r\n\r\n"), 400);
  check_refused(server, post(kChunked + kChunked, "0\r\n\r\n"), 400);
  check_refused(server, post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501);
  check_refused(server, post("Transfer-Encoding: identity\r\n"), 501);
  check_refused(server, "POST /echo HTTP/1.0\r\n" + kChunked + "\r\n0\r\n\r\n", 400);
  check_refused(server, post("Content-Encoding: gzip\r\nContent-Length: 1\r\n", "a"), 415);
  check_refused(server, post("Content-Type: Multipart/form-data; boundary=x\r\nContent-Length: 1\r\n", "a"), 415);
  check_refused(server, post("Expect: cake\r\nContent-Length: 1\r\n", "a"), 417);
  BOOST_TEST(server.echoes == 0);
  // No length: no body. What follows is not a request.
  Client client(server.port());
  BOOST_TEST(client.ask(post("", "{\"inputs\"}")).status == 200);
  BOOST_TEST(client.answer().status == 400);
  BOOST_TEST(client.closes(1s));
}

BOOST_AUTO_TEST_CASE(chunks_are_strict_and_counted) {
  Server server;
  server.start();
  for (const char* size : {"-1", "+1", "0x1", "g", "", " 1", "1 ", "1\t;x", "fffffffffffffffff-"}) {
    check_refused(server, post(kChunked, std::string(size) + "\r\na\r\n0\r\n\r\n"), 400);
  }
  check_refused(server, post(kChunked, "1\r\nab\r\n0\r\n\r\n"), 400);
  check_refused(server, post(kChunked, "1\na\n0\n\n"), 400);
  check_refused(server, post(kChunked, "0\r\nno trailer\r\n\r\n"), 400);
  check_refused(server, post(kChunked, "1;" + std::string(5000, 'x') + "\r\na\r\n0\r\n\r\n"), 400);
  check_refused(server, post(kChunked, "fffffffffffffffff\r\na"), 413);
  check_refused(server, post(kChunked, "ffffffffffffffff\r\na"), 413);
  check_refused(server, post(kChunked, "3e9\r\n" + std::string(1001, 'a')), 413);
  std::string body, trailers;
  for (int i = 0; i < 100; ++i) body += "b\r\nhello world\r\n", trailers += "X: a\r\n";
  check_refused(server, post(kChunked, body), 413);
  check_refused(server, post(kChunked, "0\r\n" + trailers), 431);
  BOOST_TEST(server.echoes == 0);
  // A client that sends all it has before it reads still gets the answer.
  Client client(server.port());
  client.send(post(kChunked, "400000\r\n" + std::string(0x400000, 'a') + "\r\n0\r\n\r\n"));
  BOOST_TEST(client.answer().status == 413);
  BOOST_TEST(client.closes(1s));
}

BOOST_AUTO_TEST_CASE(expect_100_continue) {
  Server server;
  server.start();
  Client client(server.port());
  client.send(post("Expect: 100-continue\r\nContent-Length: 5\r\n"));
  BOOST_TEST(client.answer().head == "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  BOOST_TEST(client.answer().body == "hello");
  // No invitation to send what will be refused.
  BOOST_TEST(client.ask(post("Expect: 100-continue\r\nContent-Length: 5000\r\n")).status == 413);
  BOOST_TEST(client.closes(1s));
}

BOOST_AUTO_TEST_CASE(http_1_0) {
  Server server;
  server.http.route("GET", "/stream", [](const serve::HttpRequest&, serve::HttpResponse& response) {
    response.set_stream("text/event-stream", [](serve::HttpSink& sink) {
      sink.write("data: 1\n\n");
      sink.done();
      return true;
    });
  });
  server.start();
  Client client(server.port());
  const Answer answer = client.ask("GET /ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  BOOST_TEST(answer.body == "pong");
  BOOST_TEST(answer.has("Connection: close"));
  BOOST_TEST(client.closes(1s));
  Client stream(server.port());
  BOOST_TEST(!stream.ask("GET /stream HTTP/1.0\r\n\r\n").has("Transfer-Encoding"));
  BOOST_TEST(stream.closes(1s));
  BOOST_TEST(stream.received() == "data: 1\n\n");
}

BOOST_AUTO_TEST_CASE(a_pattern_takes_the_longest_path) {
  Server server{serve::HttpLimits()};
  server.http.route("GET", "/v1/models/*", [](const serve::HttpRequest& request, serve::HttpResponse& response) {
    response.set_content(request.rest, "text/plain");
  });
  server.start();
  const std::string longest(8100, 'a');
  BOOST_TEST(Client(server.port()).ask(get("/v1/models/" + longest)).body == longest);
}

BOOST_AUTO_TEST_CASE(routes_and_errors) {
  Server server;
  server.http.route("GET", "/v1/models/*", [](const serve::HttpRequest& request, serve::HttpResponse& response) {
    response.set_content(request.rest, "text/plain");
  });
  server.http.route("POST", "/ping",
                    [](const serve::HttpRequest&, serve::HttpResponse& response) { response.status = 422; });
  server.http.route("GET", "/throw", [](const serve::HttpRequest&, serve::HttpResponse& response) {
    response.set_header("X-Half", "done");
    throw std::runtime_error("/secret/path");
  });
  server.http.route("GET", "/throw_int", [](const serve::HttpRequest&, serve::HttpResponse&) { throw 1; });
  std::atomic<int> answers{0};
  server.http.set_answer_hook([&](const serve::HttpRequest& request, serve::HttpResponse& response) {
    ++answers;
    response.set_header("X-Id", request.header("X-Id"));
  });
  server.start();
  const auto ask = [&](const std::string& bytes) { return Client(server.port()).ask(bytes); };

  BOOST_TEST(ask(get("/v1/models/a%2Fb/c")).body == "a/b/c");
  BOOST_TEST(ask(get("/v1/models/" + std::string(400, 'a'))).body == std::string(400, 'a'));
  const Answer unknown = ask(get("/nothing?x=1", "X-Id: 17\r\n"));
  BOOST_TEST(unknown.status == 404);
  BOOST_TEST(unknown.body == error_body(404, "/nothing"));
  BOOST_TEST(unknown.has("X-Id: 17"));
  BOOST_TEST(!unknown.has("Connection: close"));
  const Answer method = ask("DELETE /ping HTTP/1.1\r\nHost: x\r\n\r\n");
  BOOST_TEST(method.status == 405);
  BOOST_TEST(method.has("Allow: GET, HEAD, POST\r\n"));
  BOOST_TEST(method.has("Content-Type: application/json"));
  BOOST_TEST(ask("OPTIONS /echo HTTP/1.1\r\nHost: x\r\n\r\n").has("Allow: POST\r\n"));
  BOOST_TEST(ask("BREW /echo HTTP/1.1\r\nHost: x\r\n\r\n").status == 405);
  BOOST_TEST(ask("POST /ping HTTP/1.1\r\nHost: x\r\n\r\n").body == error_body(422, "/ping"));

  Client head(server.port());
  const std::string start = "HEAD /ping HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nRange: bytes=0-1\r\n\r\n";
  head.send(start + get("/ping"));
  BOOST_TEST(head.read_until("\r\n\r\n"));
  BOOST_TEST(head.received().find("Content-Length: 4\r\n") != std::string::npos);
  BOOST_TEST(head.read_until("\r\n\r\nHTTP/1.1 200 OK"));

  for (const char* path : {"/throw", "/throw_int"}) {
    const Answer failed = ask(get(path));
    BOOST_TEST(failed.status == 500);
    BOOST_TEST(failed.body == error_body(500, path));
    BOOST_TEST(failed.has("X-Id"));
    BOOST_TEST((!failed.has("EXCEPTION") && !failed.has("secret") && !failed.has("X-Half")));
  }
  BOOST_TEST(ask("nonsense\r\n\r\n").has("X-Id"));
  BOOST_TEST(answers == 12);
}

BOOST_AUTO_TEST_SUITE_END()
