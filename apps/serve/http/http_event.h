// An event that threads wait for with poll(), beside their sockets.
#pragma once
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace serve {

class HttpEvent {
 public:
  HttpEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  ~HttpEvent() { ::close(fd_); }
  HttpEvent(const HttpEvent&) = delete;
  HttpEvent& operator=(const HttpEvent&) = delete;

  int fd() const { return fd_; }  // readable while it is signalled

  // Signals add up. Safe in a signal handler.
  void signal() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);  // full: it is signalled, which is all
  }

  // Takes one signal back, if there is one.
  bool take() const {
    std::uint64_t one = 0;
    return ::read(fd_, &one, sizeof one) == sizeof one;
  }

 private:
  int fd_;
};

}  // namespace serve
