#include "serve/http/connection.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

namespace serve {
namespace {

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
  forget_rest();
  if (socket_ < 0) return;
  if (broken_) {
    // What a stalled client has not read would stay in the kernel for minutes.
    const linger reset{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  ::close(socket_);
}

int Connection::release() { return std::exchange(socket_, -1); }

Connection::Fill Connection::fill() {
  std::array<char, 16 << 10> bytes;
  for (;;) {
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      received_.append(bytes.data(), static_cast<std::size_t>(count));
      received_at_ = HttpClock::now();
      return Fill::some;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Fill::nothing : Fill::ended;
  }
}

void Connection::begin_request() {
  arrival_ = received_at_;
  streaming_ = false;
}

ssize_t Connection::read(char* to, std::size_t size) {
  const std::size_t count = head_.copy(to, size, head_used_);
  head_used_ += count;
  return static_cast<ssize_t>(count);
}

// How much the socket takes without waiting.
std::size_t Connection::send_some(std::string_view bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size() && !broken_) {
    const ssize_t count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      break;
    } else if (count == 0 || errno != EINTR) {
      broken_ = true;
    }
  }
  return sent;
}

// False: the client is gone, or the server stops. Else it is writable, or the time is over.
bool Connection::wait_until_writable(HttpClock::time_point until) const {
  pollfd fds[] = {{socket_, POLLOUT | POLLRDHUP, 0}, {state_.stop.fd(), POLLIN, 0}};
  return ::poll(fds, 2, milliseconds_until(until)) <= 0 || ((fds[0].revents & kGone) == 0 && fds[1].revents == 0);
}

// A socket is not writable before a third of its buffer is free, which may be more than a slow reader takes in time. So
// what the reader has taken is looked at meanwhile.
bool Connection::send_patiently(std::string_view bytes) {
  const auto begin = HttpClock::now(), end = begin + limits_.write_total_of(bytes.size());
  auto deadline = std::min(begin + limits_.write, end);
  for (int before = 0;;) {
    const std::size_t count = send_some(bytes);
    bytes.remove_prefix(count);
    if (broken_ || bytes.empty()) return !broken_;
    const auto now = HttpClock::now();
    const int left = in_flight();
    if (count > 0 || left < before) deadline = std::min(now + limits_.write, end);
    before = left;
    broken_ = now >= deadline || !wait_until_writable(std::min(deadline, now + limits_.write / 8));
  }
}

void Connection::keep(std::string_view bytes) {
  if ((state_.kept += bytes.size()) > limits_.answer_bytes) broken_ = true;
  try {
    if (!broken_) rest_ += bytes;
  } catch (const std::bad_alloc&) {
    broken_ = true;
  }
  if (broken_) state_.kept -= bytes.size();
}

void Connection::forget_rest() {
  state_.kept -= rest_.size();
  std::string().swap(rest_);
  rest_sent_ = 0;
}

bool Connection::send_rest() {
  constexpr std::size_t kPiece = 1 << 20;  // then it is another connection's turn
  const std::size_t count = send_some(std::string_view(rest_).substr(rest_sent_, kPiece));
  rest_sent_ += count;
  if (rest_sent_ == rest_.size()) forget_rest();
  return count > 0;
}

int Connection::in_flight() const {
  int bytes = 0;
  return ::ioctl(socket_, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

bool Connection::send_at_once(std::string_view bytes) {
  const std::size_t count = send_some(bytes);
  if (count > 0 && count < bytes.size()) broken_ = true;
  return count == bytes.size();
}

ssize_t Connection::write(const char* from, std::size_t size) {
  std::string_view bytes(from, size);
  if (streaming_) {
    send_patiently(bytes);
  } else {
    if (rest_.empty()) bytes.remove_prefix(send_some(bytes));
    if (!bytes.empty() && !broken_) keep(bytes);
  }
  return broken_ ? -1 : static_cast<ssize_t>(size);
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
