#include "serve/http/http_workers.h"

#include <cstddef>
#include <string>
#include <utility>

#include "serve/threads.h"

namespace serve {

HttpWorkers::HttpWorkers(int threads) {
  threads_.reserve(static_cast<std::size_t>(threads));
  try {
    for (int i = 1; i <= threads; ++i) {
      const std::string which = std::to_string(i) + " of " + std::to_string(threads);
      threads_.push_back(begin_thread("answers requests (" + which + ")", [this] { work(); }));
    }
  } catch (...) {
    finish();  // a thread that is not joined would end the process
    throw;
  }
}

void HttpWorkers::enqueue(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void HttpWorkers::finish() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  for (std::thread& each : threads_) each.join();
  threads_.clear();
}

void HttpWorkers::work() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ended_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace serve
