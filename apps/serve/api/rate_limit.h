// How much of something a client may use in a minute: a bucket that is full at first and fills evenly (token bucket).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tenon/core/request.h"

namespace serve {

class MinuteBudget {
 public:
  using Duration = tenon::Clock::duration;
  using TimePoint = tenon::TimePoint;

  explicit MinuteBudget(std::int64_t a_minute = 0) : limit_(a_minute), left_(static_cast<double>(a_minute)) {}

  // 0: there is no limit.
  std::int64_t limit() const { return limit_; }

  // Zero: taken. Otherwise nothing is taken, and the result is the time until it may be. More than a minute's budget is
  // taken from a full bucket, which is then in debt: the debt delays later requests. `reserved`: the part of what was
  // taken that running requests may still give back. The time to wait does not count it, but is at least kSettling.
  Duration take(std::int64_t amount, TimePoint now, std::int64_t reserved = 0) {
    if (limit_ == 0) return Duration::zero();
    fill(now);
    const double missing = static_cast<double>(std::min(amount, limit_)) - left_;
    if (missing > kRounding) {
      const Duration wait = time_of(missing - static_cast<double>(reserved));
      return reserved > 0 ? std::max<Duration>(wait, std::min<Duration>(kSettling, time_of(missing))) : wait;
    }
    left_ -= static_cast<double>(amount);
    return Duration::zero();
  }
  // amount: taken and not used; below 0: used beyond what was taken.
  void give_back(std::int64_t amount) {
    left_ = std::min(left_ + static_cast<double>(amount), static_cast<double>(limit_));
  }
  // Keeps what was used: a new limit is no new minute.
  void set_limit(std::int64_t a_minute) {
    left_ = limit_ == 0 ? static_cast<double>(a_minute)
                        : std::min(static_cast<double>(a_minute), left_ + static_cast<double>(a_minute - limit_));
    limit_ = a_minute;
  }

  std::int64_t remaining(TimePoint now) {
    fill(now);
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(left_ + kRounding));
  }
  // Until the bucket is full.
  Duration reset(TimePoint now) {
    fill(now);
    return limit_ == 0 ? Duration::zero() : time_of(static_cast<double>(limit_) - left_);
  }

 private:
  static constexpr double kRounding = 1e-6;
  static constexpr std::chrono::seconds kSettling{1};  // when a running request may have ended

  Duration time_of(double amount) const {
    const std::chrono::duration<double> seconds(60 * std::max(0.0, amount) / static_cast<double>(limit_));
    return std::chrono::ceil<Duration>(seconds);
  }
  void fill(TimePoint now) {
    if (filled_ != TimePoint{} && now > filled_) {
      const double minutes = std::chrono::duration<double>(now - filled_).count() / 60;
      left_ = std::min(static_cast<double>(limit_), left_ + minutes * static_cast<double>(limit_));
    }
    filled_ = std::max(filled_, now);
  }

  std::int64_t limit_;
  double left_;
  TimePoint filled_{};  // when left_ was true
};

}  // namespace serve
