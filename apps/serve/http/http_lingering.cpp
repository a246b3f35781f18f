#include "serve/http/http_lingering.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "serve/threads.h"

namespace serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostSockets = 256;     // more are closed at once
constexpr std::size_t kMostBytes = 16 << 20;  // a client that sends a few MB blindly still reads its 413
constexpr std::chrono::milliseconds kLongest{2000};

int poll_timeout(Clock::time_point first_deadline) {
  if (first_deadline == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first_deadline - Clock::now()).count();
  return static_cast<int>(std::max<decltype(left)>(left, 0));
}

}  // namespace

HttpLingering::HttpLingering() {
  new_.reserve(kMostSockets);  // close_softly() then never throws
  sockets_.reserve(kMostSockets);
  thread_ = begin_thread("closes connections", [this] { run(); });
}

HttpLingering::~HttpLingering() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  bell_.signal();
  thread_.join();
  for (const Socket& socket : sockets_) ::close(socket.fd);
  for (const Socket& socket : new_) ::close(socket.fd);
}

void HttpLingering::close_softly(int socket) {
  ::shutdown(socket, SHUT_WR);
  {
    std::lock_guard lock(mutex_);
    if (count_ < kMostSockets) {
      new_.push_back({socket, Clock::now() + kLongest, kMostBytes});
      ++count_;
      socket = -1;
    }
  }
  if (socket >= 0)
    ::close(socket);
  else
    bell_.signal();
}

bool HttpLingering::take_new() {
  while (bell_.take()) {
  }
  std::lock_guard lock(mutex_);
  sockets_.insert(sockets_.end(), new_.begin(), new_.end());
  new_.clear();
  count_ = sockets_.size();
  return !ended_;
}

// Whether it goes on.
bool HttpLingering::drain(Socket& socket) {
  std::array<char, 64 << 10> bytes;
  if (Clock::now() >= socket.deadline) return false;
  const ssize_t count = ::recv(socket.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (count == 0 || static_cast<std::size_t>(count) > socket.bytes_left) return false;
  socket.bytes_left -= static_cast<std::size_t>(count);
  return true;
}

void HttpLingering::run() {
  std::vector<pollfd> fds;
  fds.reserve(kMostSockets + 1);
  while (take_new()) {
    fds.assign(1, {bell_.fd(), POLLIN, 0});
    auto first_deadline = Clock::time_point::max();
    for (const Socket& socket : sockets_) {
      fds.push_back({socket.fd, POLLIN, 0});
      first_deadline = std::min(first_deadline, socket.deadline);
    }
    ::poll(fds.data(), fds.size(), poll_timeout(first_deadline));
    std::erase_if(sockets_, [](Socket& socket) {
      const bool over = !drain(socket);
      if (over) ::close(socket.fd);
      return over;
    });
  }
}

}  // namespace serve
