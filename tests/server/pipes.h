// Pipes, and what is written to them.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace pipes {

inline constexpr std::size_t kPipeBytes = 64 << 10;  // Linux's default; pipe(7)

struct Pipe {
  int out = -1, in = -1;

  // Without SIGPIPE: writing where nobody reads is an error, as in the server.
  explicit Pipe(int flags = 0) {
    std::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | flags) != 0) throw std::runtime_error("pipe2");
    out = ends[0], in = ends[1];
  }
  ~Pipe() {
    close_out();
    close_in();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_out() { close(out); }
  void close_in() { close(in); }

  // What comes until the other end is closed.
  std::string read_all() const {
    std::string all;
    char part[4096];
    for (ssize_t count; (count = ::read(out, part, sizeof part)) > 0;)
      all.append(part, static_cast<std::size_t>(count));
    return all;
  }

 private:
  static void close(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
};

// What `work`, which is given the end to write to, has written.
template <class Work>
std::string written(Work&& work) {
  Pipe pipe;
  std::string all;
  std::thread reader([&] { all = pipe.read_all(); });
  work(pipe.in);
  pipe.close_in();
  reader.join();
  return all;
}

}  // namespace pipes
