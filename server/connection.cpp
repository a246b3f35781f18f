#include "server/connection.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace serve {
namespace {

// A connection that was just accepted is not idle: its request is on its way, at least for so long.
constexpr std::chrono::milliseconds kFirstRequest{250};
constexpr short kGone = POLLRDHUP | POLLHUP | POLLERR | POLLNVAL;

int milliseconds_until(HttpClock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - HttpClock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 1'000'000));
}

void get_name(const sockaddr_storage& address, socklen_t size, std::string& ip, int& port) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(), service.data(),
                    service.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return;
  }
  ip = host.data();
  port = std::atoi(service.data());
}

}  // namespace

Connection::~Connection() {
  if (socket_ < 0) return;
  if (broken_) {
    // What a stalled client has not read would stay in the kernel for minutes.
    const linger reset{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  ::close(socket_);
}

int Connection::release() { return std::exchange(socket_, -1); }

Connection::Idle Connection::wait_idle(bool sheddable, HttpClock::time_point until) {
  pollfd fds[] = {{socket_, POLLIN, 0},
                  {sheddable ? state_.drain.fd() : state_.stop.fd(), POLLIN, 0},
                  {sheddable ? state_.shed.fd() : -1, POLLIN, 0}};
  ::poll(fds, 3, milliseconds_until(until));
  if (fds[0].revents) return Idle::request;
  if (fds[1].revents) return Idle::over;
  // One signal ends one connection, however many it woke.
  if (fds[2].revents && state_.shed.take() && state_.crowded()) return Idle::over;
  return Idle::wake;
}

bool Connection::await_request(bool first) {
  if (!received_.empty()) {
    arrival_ = received_at_;
    return true;
  }
  const auto start = HttpClock::now();
  const auto end = start + (first ? limits_.header_read : limits_.idle);
  const auto sheddable_at = first ? std::min(end, start + kFirstRequest) : start;

  if (wait_idle(/*sheddable=*/false, start) == Idle::request) {
    arrival_ = first ? received_at_ : start;  // it may have waited for this thread since it was accepted
    return true;
  }
  Idle idle = first ? wait_idle(/*sheddable=*/false, sheddable_at) : Idle::wake;
  if (idle == Idle::request) {
    arrival_ = HttpClock::now();
    return true;
  }
  // Counted before the look at the crowd: whoever makes it a crowd after that sees an idle connection and signals.
  ++state_.idle;
  if (state_.crowded()) idle = Idle::over;
  while (idle == Idle::wake && HttpClock::now() < end) idle = wait_idle(/*sheddable=*/true, end);
  --state_.idle;
  arrival_ = HttpClock::now();
  return idle == Idle::request;
}

Connection::Io Connection::wait_io(short events, HttpClock::time_point deadline) const {
  for (;;) {
    pollfd fds[] = {{socket_, events, 0}, {state_.stop.fd(), POLLIN, 0}};
    const int ready = ::poll(fds, 2, milliseconds_until(deadline));
    if (ready > 0 && fds[0].revents) return Io::ready;
    if (ready > 0) return Io::stopped;
    if (HttpClock::now() >= deadline) return Io::late;
  }
}

Connection::Fill Connection::fill(HttpClock::time_point deadline) {
  std::array<char, 16 << 10> bytes;
  for (;;) {
    // Before each read: a client that sends bit by bit always has something to read.
    if (HttpClock::now() >= deadline) return Fill::late;
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      received_.append(bytes.data(), static_cast<std::size_t>(count));
      received_at_ = HttpClock::now();
      return Fill::some;
    }
    if (count == 0) return Fill::ended;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Fill::ended;
    if (wait_io(POLLIN, deadline) == Io::stopped) return Fill::stopped;
  }
}

ssize_t Connection::read(char* to, std::size_t size) {
  const std::size_t count = head_.copy(to, size, head_used_);
  head_used_ += count;
  return static_cast<ssize_t>(count);
}

bool Connection::send(std::string_view bytes) {
  auto deadline = HttpClock::now() + limits_.write;
  while (!bytes.empty() && !broken_) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      deadline = HttpClock::now() + limits_.write;
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      broken_ = wait_io(POLLOUT, deadline) != Io::ready;
    } else if (count == 0 || errno != EINTR) {
      broken_ = true;
    }
  }
  return !broken_;
}

ssize_t Connection::write(const char* from, std::size_t size) {
  return send({from, size}) ? static_cast<ssize_t>(size) : -1;
}

bool Connection::gone() const {
  if (broken_ || state_.stopping) return true;
  // Unlike a read of 0 bytes, POLLRDHUP shows behind bytes that nobody has read.
  pollfd fd{socket_, POLLRDHUP, 0};
  return ::poll(&fd, 1, 0) > 0 && (fd.revents & kGone) != 0;
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0) get_name(address, size, ip, port);
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0) get_name(address, size, ip, port);
}

}  // namespace serve
