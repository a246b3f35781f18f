// The body of GET /v1/models or GET /api/tags, kept for a while: to look into thousands of folders takes longer than to
// answer.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "tenon/core/request.h"

namespace serve {

// Any thread. Whoever asks while it is being made waits, so that it is made once.
class ModelCatalog {
 public:
  // make(): the body. It is kept for 1 s, or 20 times as long as it took, so that making it takes 5 % of one core at
  // most.
  std::string body(const std::function<std::string()>& make) {
    std::lock_guard lock(mutex_);
    const tenon::TimePoint now = tenon::Clock::now();
    if (now < good_until_) return body_;
    body_ = make();
    const tenon::TimePoint made = tenon::Clock::now();
    good_until_ = made + std::max<tenon::Clock::duration>(kShortest, kShare * (made - now));
    return body_;
  }
  // The next look makes it anew.
  void forget() {
    std::lock_guard lock(mutex_);
    good_until_ = {};
  }

 private:
  static constexpr std::chrono::seconds kShortest{1};
  static constexpr int kShare = 20;

  std::mutex mutex_;
  std::string body_;
  tenon::TimePoint good_until_{};
};

}  // namespace serve
