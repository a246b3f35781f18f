// The threads that answer requests. All are started at once, so that the system can refuse none later.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace serve {

class HttpWorkers {
 public:
  explicit HttpWorkers(int threads);  // tenon::Error capacity where the system refuses one
  ~HttpWorkers() { finish(); }
  HttpWorkers(const HttpWorkers&) = delete;
  HttpWorkers& operator=(const HttpWorkers&) = delete;

  // First come, first served. A job must not throw. std::bad_alloc where there is no memory to queue it.
  void enqueue(std::function<void()> job);

  // Runs what is queued, and joins the threads.
  void finish();

 private:
  void work();

  std::mutex mutex_;  // guards the next two
  std::deque<std::function<void()>> jobs_;
  bool ended_ = false;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
};

}  // namespace serve
