// Requests that a proxy in front could split in another way: each is refused, and what comes after it is not looked at.
#include <boost/test/unit_test.hpp>

#include "raw_http.h"

BOOST_AUTO_TEST_SUITE(server_http_smuggling)

using namespace raw;

namespace {

std::string with_length(const std::string& headers, const std::string& body) {
  return post(headers + "Content-Length: " + std::to_string(body.size()) + "\r\n", body);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_length_and_chunks_are_refused_together) {
  Server server;
  server.start();
  const std::string hidden = "0\r\n\r\n" + get("/ping");
  check_refused(server, with_length(kChunked, hidden), 400);
  check_refused(server, post("Content-Length: 4\r\n" + kChunked, hidden), 400);
  check_refused(server, post(kChunked + "content-length: 0\r\n", hidden), 400);
  check_refused(server, post(kChunked + "Content-Length:\r\n", hidden), 400);
  BOOST_TEST(server.echoes == 0);
}

BOOST_AUTO_TEST_CASE(a_transfer_coding_has_one_spelling) {
  Server server;
  server.start();
  for (const char* coding : {"xchunked", "chunked, identity", "identity, chunked", "gzip, chunked", "chunked;q=1",
                             "\"chunked\"", "chunked chunked"}) {
    check_refused(server, post("Transfer-Encoding: " + std::string(coding) + "\r\n", "0\r\n\r\n"), 501);
  }
  for (const char* header :
       {"Transfer-Encoding : chunked\r\n", "Transfer-Encoding\t: chunked\r\n", "Transfer-Encoding:\r\n chunked\r\n",
        "Transfer-Encoding: \x0b"
        "chunked\r\n",
        " Transfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\n\t\r\n",
        "X: a\rTransfer-Encoding: chunked\r\n", "Transfer\xc2\xad-Encoding: chunked\r\n"}) {
    check_refused(server, post(header, "0\r\n\r\n"), 400);
  }
  check_refused(server, post(kChunked + "Transfer-Encoding: x\r\n", "0\r\n\r\n"), 400);
  BOOST_TEST(server.echoes == 0);
  BOOST_TEST(Client(server.port()).ask(post("TRANSFER-ENCODING:chunKED\r\n", "1\r\na\r\n0\r\n\r\n")).body == "a");
}

BOOST_AUTO_TEST_CASE(folded_lines_are_refused) {
  Server server;
  server.start();
  for (const char* header : {"X: a\r\n b\r\n", "X: a\r\n\tb\r\n", "X:\r\n \r\n", "Content-Length: 1\r\n 0\r\n",
                             "X: a\r\n Content-Length: 5\r\n", "Content-Length:\r\n 5\r\n"}) {
    check_refused(server, post(header, "aaaaaaaaaa"), 400);
  }
  check_refused(server, "POST /echo HTTP/1.1\r\n Host: x\r\n\r\n", 400);
  BOOST_TEST(server.echoes == 0);
}

BOOST_AUTO_TEST_CASE(a_line_ends_with_cr_and_lf) {
  Server server;
  server.start();
  for (const char* bytes :
       {"POST /echo HTTP/1.1\nHost: x\r\n\r\n", "POST /echo HTTP/1.1\r\nHost: x\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\n\n", "POST /echo HTTP/1.1\r\nHost: x\r\r\n\r\n",
        "\nPOST /echo HTTP/1.1\r\nHost: x\r\n\r\n", "POST /echo HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n"}) {
    check_refused(server, bytes, 400);
  }
  for (const char* body : {"1\na\r\n0\r\n\r\n", "1\r\na\n0\r\n\r\n", "1\r\na\r\n0\n\r\n", "1\r\na\r\n0\r\n\n",
                           "1\r\na\r\n0\r\nX: y\n\r\n", "1\r\ra\r\n0\r\n\r\n", "\n1\r\na\r\n0\r\n\r\n"}) {
    check_refused(server, post(kChunked, body), 400);
  }
  BOOST_TEST(server.echoes == 0);
}

BOOST_AUTO_TEST_CASE(a_length_stands_once_and_in_digits) {
  Server server;
  server.start();
  for (const char* header : {"Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5\r\ncontent-length: 6\r\n",
                             "Content-Length: 5, 5\r\n", "Content-Length: 5,\r\n", "Content-Length: +5\r\n",
                             "Content-Length: 5.0\r\n", "Content-Length: 0x5\r\n", "Content-Length: 5 5\r\n",
                             "Content-Length : 5\r\n", "Content-Length: \xc2\xb2\r\n"}) {
    check_refused(server, post(header, "aaaaa"), 400);
  }
  BOOST_TEST(server.echoes == 0);
  Client client(server.port());  // leading zeros are digits, as RFC 9110 has them
  BOOST_TEST(client.ask(post("Content-Length: 005\r\n", "aaaaa") + get("/ping")).body == "aaaaa");
  BOOST_TEST(client.answer().body == "pong");
}

BOOST_AUTO_TEST_CASE(chunks_have_one_reading) {
  Server server;
  server.start();
  for (const char* body : {"5 ;x\r\naaaaa\r\n0\r\n\r\n", "5;x\x01\r\naaaaa\r\n0\r\n\r\n", "5;x\r\raaaaa\r\n0\r\n\r\n",
                           "5;\"\r\n\"\r\naaaaa\r\n0\r\n\r\n", "5_\r\naaaaa\r\n0\r\n\r\n", "5\r\naaaaaa\r\n0\r\n\r\n",
                           "5\r\naaaa\r\n0\r\n\r\n", "5\r\naaaaa0\r\n\r\n", "5zaaaa\r\n0\r\n\r\n",
                           "\r\n5\r\naaaaa\r\n0\r\n\r\n", "0 \r\n\r\n", "0x\r\n\r\n", "-0\r\n\r\n"}) {
    check_refused(server, post(kChunked, body), 400);
  }
  check_refused(
      server,
      post(kChunked, "1;" + std::string(3000, 'x') + "\r\na\r\n1;" + std::string(3000, 'x') + "\r\na\r\n0\r\n\r\n"),
      400);
  BOOST_TEST(server.echoes == 0);
  Client client(server.port());
  client.send(post(kChunked, "005;a=b;c=\"d\"\r\naaaaa\r\nA\r\nbbbbbbbbbb\r\n000;e\r\n\r\n") + get("/ping"));
  BOOST_TEST(client.answer().body == "aaaaabbbbbbbbbb");
  BOOST_TEST(client.answer().body == "pong");
}

BOOST_AUTO_TEST_CASE(trailers_change_nothing) {
  Server server;
  std::string key, host;
  server.http.route("POST", "/seen", [&](const serve::HttpRequest& request, serve::HttpResponse&) {
    key = request.header("X-Api-Key");
    host = request.header("Host");
  });
  server.start();
  for (const char* trailer : {"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "no colon\r\n", "X : y\r\n",
                              "X: \x01\r\n", ": y\r\n"}) {
    check_refused(server, post(kChunked, "1\r\na\r\n0\r\n" + std::string(trailer) + "\r\n"), 400);
  }
  Client client(server.port());
  client.send("POST /seen HTTP/1.1\r\nHost: x\r\n" + kChunked + "\r\n0\r\nX-Api-Key: k\r\nHost: evil\r\n\r\n" +
              get("/ping"));
  BOOST_TEST(client.answer().status == 200);
  BOOST_TEST(client.answer().body == "pong");
  BOOST_TEST(key == "");
  BOOST_TEST(host == "x");
}

BOOST_AUTO_TEST_SUITE_END()
