// What a server, its event thread and its connections tell each other.
#pragma once
#include <atomic>
#include <cstddef>

#include "serve/http/http_event.h"

namespace serve {

struct HttpState {
  std::atomic<int> open{0};           // connections
  std::atomic<int> reading{0};        // of them, those in the middle of a request
  std::atomic<int> idle{0};           // and those between two requests, which make room for others
  std::atomic<int> busy{0};           // requests with a thread or waiting for one
  std::atomic<std::size_t> kept{0};   // bytes of answers that wait for their readers
  std::atomic<bool> draining{false};  // no further connections, and none is kept for a further request
  std::atomic<bool> stopping{false};  // and those there are end now
  HttpEvent drain, stop;              // signalled for good once the above are true
};

}  // namespace serve
