// HTTP/1.1 clients of low cost, since they share two cores with the server that they measure: one thread, epoll,
// non-blocking sockets. An answer is parsed as it comes and not kept, except for its last line.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve_work.h"

namespace bench {

inline std::string post(std::string_view path, const Json& body) {
  const std::string text = body.dump();
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(text.size()) + "\r\n\r\n" + text;
}
inline std::string get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: bench\r\n\r\n";
}

inline std::string generate(const Asked& asked, bool stream) {
  Json parameters = {{"max_new_tokens", asked.new_tokens}, {"ignore_eos_token", true}};
  if (!asked.adapter.empty()) parameters["adapter_id"] = asked.adapter;
  return post(stream ? "/generate_stream" : "/generate",
              {{"inputs", asked.prompt}, {"parameters", std::move(parameters)}});
}

// An answer that is parsed piece by piece.
class HttpAnswer {
 public:
  // Takes bytes from the socket. False if they are not HTTP/1.1. events() grows with each line that begins with
  // "data:".
  bool take(std::string_view bytes) {
    while (!bytes.empty() && state_ != State::whole) {
      if (state_ == State::head || state_ == State::size || state_ == State::behind) {
        const auto newline = bytes.find('\n');
        held_.append(bytes.substr(0, newline));
        if (newline == bytes.npos) return held_.size() < 65536;
        bytes.remove_prefix(newline + 1);
        if (held_.empty() || held_.back() != '\r') return false;
        held_.pop_back();
        if (!take_line()) return false;
        held_.clear();
      } else {
        const auto piece = bytes.substr(0, left_);
        take_body(piece);
        bytes.remove_prefix(piece.size());
        left_ -= piece.size();
        if (left_ == 0) state_ = chunked_ ? State::behind : State::whole;
      }
    }
    return bytes.empty();
  }

  bool begun() const { return status_ != 0; }
  bool whole() const { return state_ == State::whole; }
  bool closes() const { return closes_; }  // the next request needs another connection
  int status() const { return status_; }
  int events() const { return events_; }
  const std::string& last_line() const { return last_; }  // if the body is no stream: the whole body

 private:
  enum class State { head, body, size, behind, whole };

  bool take_line() {
    const std::string_view line = held_;
    if (state_ == State::head) return line.empty() ? end_head() : take_header(line);
    if (state_ == State::behind) {  // the end of a chunk, or the trailer after the last
      state_ = ended_ ? State::whole : State::size;
      return line.empty();
    }
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), left_, 16);
    ended_ = left_ == 0;
    state_ = ended_ ? State::behind : State::body;
    return parsed.ec == std::errc();
  }
  bool take_header(std::string_view line) {
    if (!begun()) {
      if (!line.starts_with("HTTP/1.1 ") || line.size() < 12) return false;
      return std::from_chars(line.data() + 9, line.data() + 12, status_).ec == std::errc();
    }
    const auto has = [&](std::string_view name) {
      return line.size() > name.size() && ::strncasecmp(line.data(), name.data(), name.size()) == 0;
    };
    if (has("Content-Length:")) left_ = static_cast<std::size_t>(std::stoul(std::string(line.substr(15))));
    if (has("Transfer-Encoding:")) chunked_ = true;
    if (has("Connection:")) closes_ = line.find("close") != line.npos;
    return true;
  }
  bool end_head() {
    state_ = chunked_ ? State::size : left_ == 0 ? State::whole : State::body;
    return begun();
  }
  void take_body(std::string_view piece) {
    while (!piece.empty()) {
      const auto newline = piece.find('\n');
      line_.append(piece.substr(0, newline));
      if (newline == piece.npos) break;
      piece.remove_prefix(newline + 1);
      end_body_line();
    }
    if (!chunked_) last_ = line_;
  }
  void end_body_line() {
    if (line_.starts_with("data:")) {
      ++events_;
      last_.swap(line_);
    }
    line_.clear();
  }

  State state_ = State::head;
  int status_ = 0, events_ = 0;
  bool chunked_ = false, closes_ = false, ended_ = false;
  std::size_t left_ = 0;
  std::string held_, line_, last_;
};

// The connections and timers of one thread.
class Loop {
 public:
  struct Handler {
    virtual ~Handler() = default;
    virtual void ready(unsigned events) = 0;
  };

  Loop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_ < 0) throw std::runtime_error("epoll_create1");
  }
  ~Loop() { ::close(epoll_); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void watch(int socket, unsigned events, Handler* handler, bool known) const {
    epoll_event event{.events = events, .data = {.ptr = handler}};
    if (::epoll_ctl(epoll_, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event) != 0)
      throw std::runtime_error("epoll_ctl");
  }
  void at(Time moment, std::function<void()> work) { alarms_.emplace(moment, std::move(work)); }
  Time now() const { return now_; }  // time of the last wait

  // Runs until over() is true, which is called after each turn. Do not destroy a handler while it runs: keep it until
  // it returns.
  void run(const std::function<bool()>& over) {
    for (now_ = Clock::now(); !over();) turn(std::chrono::milliseconds(50));
  }
  // Handles due timers and ready sockets. Waits for them at most `patience`.
  void turn(Clock::duration patience) {
    epoll_event events[256];
    // Due timers must not delay answers.
    const auto left =
        alarms_.empty() ? patience : std::clamp<Clock::duration>(alarms_.begin()->first - now_, {}, patience);
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec wait{static_cast<time_t>(nanoseconds / 1'000'000'000),
                        static_cast<long>(nanoseconds % 1'000'000'000)};
    const int count = ::epoll_pwait2(epoll_, events, 256, &wait, nullptr);
    now_ = Clock::now();
    for (int i = 0; i < count; ++i) static_cast<Handler*>(events[i].data.ptr)->ready(events[i].events);
    while (!alarms_.empty() && alarms_.begin()->first <= now_) {
      const auto work = std::move(alarms_.begin()->second);
      alarms_.erase(alarms_.begin());
      work();
    }
  }

 private:
  int epoll_;
  Time now_{};
  std::multimap<Time, std::function<void()>> alarms_;
};

// Sends the requests of one client one after another, over one connection as long as the server keeps it.
class HttpClient : private Loop::Handler {
 public:
  enum class End { whole, cut, broken };    // cut: the connection ended too early; broken: the answer is not HTTP
  std::function<void()> on_events = [] {};  // called when events() grows
  std::function<void(End)> on_end = [](End) {};
  // For tests of badly behaved clients.
  std::size_t bytes_at_most = std::string::npos;  // of each request to send
  bool reads = true;
  bool tiny_buffers = false;

  HttpClient(Loop& loop, int port) : loop_(loop), port_(port) {}
  ~HttpClient() override { leave(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void ask(std::string request) {
    request_ = std::move(request);
    reused_ = socket_ >= 0;
    begin();
  }
  // Sends more bytes of a request that bytes_at_most holds back.
  void send_more(std::size_t bytes) {
    bytes_at_most += bytes;
    if (busy_ && socket_ >= 0 && !connecting_) send();
  }
  void leave(bool reset = false) {
    if (socket_ < 0) return;
    const linger at_once{1, 0};
    if (reset) ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(std::exchange(socket_, -1));
    busy_ = false;
  }
  void close_half() const {
    if (socket_ >= 0) ::shutdown(socket_, SHUT_WR);
  }
  bool busy() const { return busy_; }
  const HttpAnswer& answer() const { return answer_; }

 private:
  void begin() {
    answer_ = HttpAnswer{};
    sent_ = 0;
    busy_ = true;
    if (socket_ < 0)
      connect();
    else
      send();
  }

  void connect() {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0) throw std::runtime_error("socket: no descriptors left?");
    const int yes = 1, buffer = 2048, segment = 536;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (tiny_buffers) {  // the server's buffer also grows with the segment size
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
      ::setsockopt(socket_, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connecting_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0;
    if (connecting_ && errno != EINPROGRESS) {
      connecting_ = false;
      loop_.at(loop_.now(), [this, socket = socket_] {
        if (socket_ == socket && busy_) end(End::cut);
      });  // on_end must not run within ask()
      return;
    }
    loop_.watch(socket_, connecting_ ? EPOLLOUT : EPOLLIN | EPOLLRDHUP, this, false);
    if (!connecting_) send();
  }

  void send() {
    const auto most = std::min(bytes_at_most, request_.size());
    while (sent_ < most) {
      const ssize_t count = ::send(socket_, request_.data() + sent_, most - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0) break;  // the rest of the body is sent when the socket is ready again
      sent_ += static_cast<std::size_t>(count);
    }
    const bool blocked = sent_ < most && (errno == EAGAIN || errno == EWOULDBLOCK);
    loop_.watch(socket_, (reads ? EPOLLIN : 0U) | EPOLLRDHUP | (blocked ? EPOLLOUT : 0U), this, true);
  }

  void ready(unsigned events) override {
    if (socket_ < 0) return;  // closed in the same turn
    if (connecting_) {
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
      connecting_ = false;
      if (error != 0) return end(End::cut);
      send();
      return;
    }
    if ((events & EPOLLOUT) != 0) send();
    if (!reads) {
      if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) end(End::cut);
      return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) read();
  }

  void read() {
    static char bytes[64 << 10];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (!busy_) return leave();  // the server has closed the idle connection
    if (count <= 0) {
      if (reused_ && !answer_.begun()) {  // the server closed it just before the request
        leave();
        reused_ = false;
        return begin();
      }
      return end(End::cut);
    }
    const int before = answer_.events();
    if (!answer_.take({bytes, static_cast<std::size_t>(count)})) return end(End::broken);
    if (answer_.events() > before) on_events();
    if (busy_ && answer_.whole()) end(End::whole);
  }

  void end(End how) {
    busy_ = false;
    if (how != End::whole || answer_.closes()) leave();
    on_end(how);
  }

  Loop& loop_;
  const int port_;
  int socket_ = -1;
  bool connecting_ = false, busy_ = false, reused_ = false;
  std::string request_;
  std::size_t sent_ = 0;
  HttpAnswer answer_;
};

// The body of a GET request; empty if it does not come in time.
inline std::string fetch(int port, std::string_view path, double patience = 5) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string text;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET " + std::string(path) + " HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
    [[maybe_unused]] const auto sent = ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    const Time until = Clock::now() + seconds(patience);
    char bytes[16 << 10];
    for (;;) {
      pollfd fd{socket, POLLIN, 0};
      const auto left = static_cast<int>(1e3 * seconds_between(Clock::now(), until));
      if (left <= 0 || ::poll(&fd, 1, left) <= 0) break;
      const ssize_t count = ::recv(socket, bytes, sizeof bytes, 0);
      if (count <= 0) break;
      text.append(bytes, static_cast<std::size_t>(count));
    }
  }
  ::close(socket);
  const auto body = text.find("\r\n\r\n");
  return body == text.npos ? "" : text.substr(body + 4);
}

// The value of a metric without labels; -1 if it is missing.
inline double metric(const std::string& metrics, const std::string& name) {
  const auto at = ("\n" + metrics).find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(metrics.substr(at + name.size() + 1));
}

}  // namespace bench
