// A server with a few routes, and a client that sends exactly the bytes it is told.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/http/server.h"

namespace raw {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Waits for what another thread will bring about.
inline bool eventually(const std::function<bool()>& holds, Clock::duration most = 5s) {
  for (const auto end = Clock::now() + most; Clock::now() < end; std::this_thread::sleep_for(1ms)) {
    if (holds()) return true;
  }
  return holds();
}

struct Answer {
  int status = 0;  // 0: none came
  std::string head, body;
  bool has(std::string_view header) const { return head.find(header) != head.npos; }
};

class Client {
 public:
  explicit Client(int port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
    }
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // False: the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  // Until all of that has come; what came is in received(). False: it ended or took too long.
  bool read_until(std::string_view marker, Clock::duration most = 5s) {
    const auto end = Clock::now() + most;
    while (received_.find(marker) == received_.npos) {
      if (!read_some(end)) return false;
    }
    return true;
  }

  // Whether the server closes in time. A reset does not count: it could have overtaken an answer.
  bool closes(Clock::duration most = 5s) {
    const auto end = Clock::now() + most;
    while (read_some(end)) {
    }
    return ended_;
  }

  Answer answer(Clock::duration most = 5s) {
    Answer answer;
    constexpr std::string_view kEnd = "\r\n\r\n";
    if (!read_until(kEnd, most)) return answer;
    const auto head_end = received_.find(kEnd) + kEnd.size();
    answer.head = received_.substr(0, head_end);
    received_.erase(0, head_end);
    answer.status = std::stoi(answer.head.substr(9, 3));
    constexpr std::string_view kLength = "Content-Length: ";
    const auto at = answer.head.find(kLength);
    const std::size_t length = at == answer.head.npos ? 0 : std::stoul(answer.head.substr(at + kLength.size()));
    const auto end = Clock::now() + most;
    while (received_.size() < length && read_some(end)) {
    }
    answer.body = received_.substr(0, length);
    received_.erase(0, length);
    return answer;
  }

  Answer ask(std::string_view bytes) {
    send(bytes);
    return answer();
  }

  // Some bytes, if there are any.
  bool read_some_within(Clock::duration most) { return read_some(Clock::now() + most); }

  std::string& received() { return received_; }
  void shut_writing() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

 private:
  bool read_some(Clock::time_point end) {
    pollfd fd{fd_, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0 || ::poll(&fd, 1, static_cast<int>(left)) <= 0) return false;
    char bytes[4096];
    const ssize_t count = ::recv(fd_, bytes, sizeof bytes, 0);
    ended_ = count == 0;
    if (count <= 0) return false;
    received_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  int fd_;
  std::string received_;
  bool ended_ = false;
};

inline std::string get(std::string_view path, std::string_view headers = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(headers) + "\r\n";
}

inline std::string post(std::string_view headers, std::string_view body = "") {
  return "POST /echo HTTP/1.1\r\nHost: x\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

inline std::string post_body(std::string_view body) {
  return post("Content-Length: " + std::to_string(body.size()) + "\r\n", body);
}

// Small budgets, so that a test of each takes no time.
inline serve::HttpLimits small_limits() {
  serve::HttpLimits limits;
  limits.body_bytes = 1000;
  limits.header_lines = 10;
  limits.header_bytes = 2000;
  limits.request_line_bytes = 500;
  limits.header_read = 400ms;
  limits.body_read = 400ms;
  limits.idle = 400ms;
  limits.write = 400ms;
  limits.threads = 4;
  limits.waiting = 2;
  limits.requests_a_connection = 5;
  return limits;
}

inline std::string error_body(int status, const std::string& path, const std::string& why = "") {
  return "{\"status\":" + std::to_string(status) + ",\"path\":\"" + path + "\"" +
         (why.empty() ? "" : ",\"why\":\"" + why + "\"") + "}";
}

class Server {
 public:
  explicit Server(const serve::HttpLimits& limits = small_limits()) : http(limits) {
    http.set_error_body([](const serve::HttpRefusal& refusal, const std::string& path) {
      return error_body(refusal.status, path, refusal.why);
    });
    http.route("GET", "/ping", [](const serve::HttpRequest&, serve::HttpResponse& response) {
      response.set_content("pong", "text/plain");
    });
    http.route("POST", "/echo", [this](const serve::HttpRequest& request, serve::HttpResponse& response) {
      ++echoes;
      response.set_content(request.body, "text/plain");
    });
    // Answers when the client has gone, or is told to.
    http.route("GET", "/wait", [this](const serve::HttpRequest& request, serve::HttpResponse&) {
      ++waiting;
      while (!open_gate && !request.client_gone()) std::this_thread::sleep_for(2ms);
      if (!open_gate) ++gone;
      --waiting;
    });
  }
  ~Server() {
    open_gate = true;
    http.stop();
    if (thread_.joinable()) thread_.join();
  }

  Server& start() {
    if (!http.bind("127.0.0.1", 0)) throw std::runtime_error("bind");
    thread_ = std::thread([this] { http.run(); });
    return *this;
  }
  int port() const { return http.port(); }
  void join() { thread_.join(); }

  serve::HttpServer http;
  std::atomic<int> echoes{0}, waiting{0}, gone{0};
  std::atomic<bool> open_gate{false};

 private:
  std::thread thread_;
};

// Refused with that status as JSON, and closed, without a reset and without a look at what came behind.
inline void check_refused(Server& server, const std::string& bytes, int status) {
  Client client(server.port());
  const Answer answer = client.ask(bytes + get("/ping"));
  BOOST_TEST_CONTEXT(bytes.substr(0, 200)) {
    BOOST_TEST(answer.status == status);
    BOOST_TEST(answer.has("Connection: close"));
    BOOST_TEST(answer.has("Content-Type: application/json"));
    BOOST_TEST(answer.body.starts_with("{\"status\":" + std::to_string(status)));
    BOOST_TEST(client.closes(1s));
    BOOST_TEST(client.received() == "");
  }
}

inline const std::string kChunked = "Transfer-Encoding: chunked\r\n";

using Clients = std::vector<std::unique_ptr<Client>>;

inline void connect(Clients& clients, const Server& server, int count, const std::string& request) {
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(request);
  }
}

}  // namespace raw
