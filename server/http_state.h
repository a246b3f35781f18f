// What a server tells its connections.
#pragma once
#include <atomic>

#include "server/http_event.h"

namespace serve {

struct HttpState {
  explicit HttpState(int thread_count) : threads(thread_count) {}

  const int threads;
  std::atomic<int> open{0};           // connections with a thread or waiting for one
  std::atomic<int> idle{0};           // of them, those between two requests
  std::atomic<bool> draining{false};  // no further connections, and none is kept for a further request
  std::atomic<bool> stopping{false};  // and those there are end now
  HttpEvent drain, stop;              // signalled for good once the above are true
  HttpEvent shed;                     // each signal asks one idle connection to give up its thread

  bool crowded() const { return open > threads; }
};

}  // namespace serve
