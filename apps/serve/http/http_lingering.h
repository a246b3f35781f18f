// Closes connections whose clients may still be sending. A plain close() would reset such a connection, and the reset
// can overtake the answer; so the rest of what comes is thrown away for a moment, on one thread for all of them.
#pragma once
#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/http/http_event.h"

namespace serve {

class HttpLingering {
 public:
  HttpLingering();   // tenon::Error capacity where the system refuses its thread
  ~HttpLingering();  // closes all
  HttpLingering(const HttpLingering&) = delete;
  HttpLingering& operator=(const HttpLingering&) = delete;

  // Owns the non-blocking socket from here on, to which nothing more will be written. Never waits.
  void close_softly(int socket);

 private:
  struct Socket {
    int fd;
    std::chrono::steady_clock::time_point deadline;
    std::size_t bytes_left;
  };

  void run();
  bool take_new();  // false: no more will come
  static bool drain(Socket& socket);

  std::mutex mutex_;  // guards the next three
  std::vector<Socket> new_;
  std::size_t count_ = 0;  // all of them
  bool ended_ = false;
  HttpEvent bell_;
  std::vector<Socket> sockets_;  // the thread's own
  std::thread thread_;
};

}  // namespace serve
