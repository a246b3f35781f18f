// An engine without a model, for tests of the service. It yields a token a step for each request, derived from the
// prompt alone. Its steps can be stopped at a gate, made to throw, or to forget requests.
#pragma once
#include <tenon/engine/service.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace fake {

using namespace tenon;

inline constexpr int kVocabulary = 1000;

inline constexpr int kPositions = 1 << 23;
inline constexpr int kEndless = 1 << 22;  // more new tokens than any test waits for

// The tokens of choice i of a request, one after the other.
class Tale {
 public:
  Tale(const std::vector<TokenId>& prompt, int choice) : state_(static_cast<unsigned>(choice) + 1) {
    for (const TokenId id : prompt) state_ = state_ * 31 + static_cast<unsigned>(id);
  }
  TokenId next() {
    state_ = state_ * 1664525 + 1013904223;
    return static_cast<TokenId>((state_ >> 16) % kVocabulary);
  }

 private:
  unsigned state_;
};

inline std::vector<TokenId> answer(const std::vector<TokenId>& prompt, int new_tokens, int choice = 0) {
  Tale tale(prompt, choice);
  std::vector<TokenId> tokens;
  for (int i = 0; i < new_tokens; ++i) tokens.push_back(tale.next());
  return tokens;
}

// The strings that the test pulls; the engine belongs to the service's thread.
struct Strings {
  std::atomic<int> throws{0};                           // number of next steps that throw
  std::atomic<int> refuses{0};                          // number of next requests that it refuses
  std::atomic<bool> forgets{false};                     // all requests, in the next step
  std::atomic<bool> lazy{false};                        // waits for company that comes when draining
  std::atomic<int> calls{0};                            // of step()
  std::atomic<int> holds{0}, resumes{0}, strangers{0};  // strangers: calls from another thread than the first
  std::atomic<int> generated{0};
  std::atomic<int> step_us{0};

  // With the gate shut a step stops inside; wait_inside() returns once one does.
  void shut() {
    std::lock_guard lock(mutex_);
    open_ = false;
  }
  void open() {
    {
      std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void wait_inside() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return inside_; });
  }
  void pass() {
    std::unique_lock lock(mutex_);
    if (open_) return;
    inside_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    inside_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true, inside_ = false;
};

class Engine {
 public:
  // `seats`: requests that advance in a step, first come first served.
  explicit Engine(Strings& strings, int seats = 1 << 20, int cache_tokens = kPositions)
      : strings_(strings), seats_(seats) {
    config_.vocab = kVocabulary;
    config_.positions = kPositions;
    cache_.capacity_tokens = cache_tokens;
  }

  PreparedRequest prepare(Request request) const {
    return tenon::prepare(std::move(request), {config_, nullptr, cache_.capacity_tokens});
  }

  RequestId enqueue(const PreparedRequest& request) {
    check_thread();
    if (strings_.refuses > 0) {
      --strings_.refuses;
      throw Error(Error::Kind::capacity, "fake", "refuses");
    }
    Job& job = jobs_[next_];
    for (int choice = 0; choice < request.options().n; ++choice) job.answers.emplace_back(request.tokens(), choice);
    job.left = request.options().max_new_tokens;
    return next_++;
  }

  bool cancel(RequestId id, FinishReason reason) {
    check_thread();
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return false;
    finish(id, found->second, reason);
    jobs_.erase(found);
    return true;
  }

  bool hold(RequestId id) { return ++strings_.holds, set_held(id, true); }
  bool resume(RequestId id) { return ++strings_.resumes, set_held(id, false); }

  std::span<const Event> step() {
    check_thread();
    ++strings_.calls;
    strings_.pass();
    if (strings_.step_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(strings_.step_us));
    if (strings_.throws > 0) {
      --strings_.throws;
      throw std::runtime_error("the fake step throws");
    }
    if (strings_.forgets.exchange(false)) jobs_.clear();
    events_.clear();
    events_.swap(waiting_);
    if (strings_.lazy && !draining_) return events_;
    int seats = seats_;
    bool any = false;
    for (auto i = jobs_.begin(); i != jobs_.end() && seats > 0;) {
      if (i->second.held) {
        ++i;
        continue;
      }
      --seats;
      any = true;
      i = advance(i->first, i->second) ? jobs_.erase(i) : std::next(i);
    }
    if (any) ++stats_.steps;
    return events_;
  }

  void set_draining(bool draining) { draining_ = draining; }
  bool idle() const { return jobs_.empty() && waiting_.empty(); }
  const EngineStats& stats() const { return stats_; }
  CacheStats cache_stats() const { return cache_; }
  const ModelConfig& config() const { return config_; }
  const Tokenizer* tokenizer() const { return nullptr; }

 private:
  struct Job {
    std::vector<Tale> answers;
    int left = 0;
    bool held = false;
  };

  void check_thread() {
    if (thread_ == std::thread::id()) thread_ = std::this_thread::get_id();
    if (thread_ != std::this_thread::get_id()) ++strings_.strangers;
  }

  bool set_held(RequestId id, bool held) {
    check_thread();
    const auto found = jobs_.find(id);
    if (found == jobs_.end() || found->second.held == held) return false;
    found->second.held = held;
    return true;
  }

  // True if it has ended.
  bool advance(RequestId id, Job& job) {
    for (std::size_t choice = 0; choice < job.answers.size() && job.left > 0; ++choice) {
      const TokenId token = job.answers[choice].next();
      events_.push_back(
          {.request = id, .choice = static_cast<int>(choice), .token = token, .text = std::to_string(token) + " "});
      ++stats_.tokens;
      ++strings_.generated;
    }
    if (job.left > 0 && --job.left > 0) return false;
    finish(id, job, FinishReason::length);
    events_.insert(events_.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
    return true;
  }

  void finish(RequestId id, const Job& job, FinishReason reason) {
    for (std::size_t choice = 0; choice < job.answers.size(); ++choice) {
      waiting_.push_back({.kind = Event::Kind::finished,
                          .request = id,
                          .choice = static_cast<int>(choice),
                          .last = choice + 1 == job.answers.size(),
                          .reason = reason});
    }
  }

  Strings& strings_;
  int seats_;
  ModelConfig config_;
  CacheStats cache_;
  EngineStats stats_;
  bool draining_ = false;
  RequestId next_ = 1;
  std::map<RequestId, Job> jobs_;
  std::vector<Event> events_, waiting_;
  std::thread::id thread_;
};

}  // namespace fake
