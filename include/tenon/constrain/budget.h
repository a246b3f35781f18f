// What a constraint may cost: whoever sends one cannot take more of the machine than that.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tenon/constrain/refused.h"

namespace tenon::constrain {

struct ConstraintLimits {
  std::chrono::milliseconds time{1200};        // to compile; what was made must be taken down, too
  std::chrono::milliseconds step_time{250};    // for one mask, or one token: requests beside it wait so long at most
  std::size_t bytes = std::size_t{256} << 20;  // of expressions and states, for as long as the constraint lives
  int nesting = 256;                           // of expressions, schemas, groups
  int depth = 64;                              // of rules that call one another, in a text
};

// Throws Refused "too complex" where a limit is passed.
class Budget {
 public:
  explicit Budget(ConstraintLimits limits = {})
      : limits_(limits), end_(std::chrono::steady_clock::now() + limits.time) {}

  void spend(std::size_t bytes);
  void give_back(std::size_t bytes) { bytes_ -= bytes; }
  // Now and then.
  void check();
  // As long again as compiling may take, for what is prepared beside it.
  void begin_preparing();
  // No limit of time, until a step begins.
  void compiled() { end_ = std::chrono::steady_clock::time_point::max(); }
  // What comes now is work of a request that runs under the constraint.
  void begin_step();
  std::size_t bytes() const { return bytes_; }
  const ConstraintLimits& limits() const { return limits_; }

  // One more level, as long as it lives.
  class Nesting {
   public:
    explicit Nesting(Budget& budget);
    Nesting(const Nesting&) = delete;
    ~Nesting() { --budget_.nesting_; }

   private:
    Budget& budget_;
  };

 private:
  const ConstraintLimits limits_;
  std::chrono::milliseconds time_ = limits_.time;
  std::chrono::steady_clock::time_point end_;
  std::size_t bytes_ = 0;
  std::uint64_t checks_ = 0;
  int nesting_ = 0;
};

// Of tables that may go before their budget does, or are not finished.
class Spent {
 public:
  explicit Spent(Budget& budget) : budget_(budget) {}
  Spent(const Spent&) = delete;
  ~Spent() { budget_.give_back(bytes_); }

  void add(std::size_t bytes);
  void take(std::size_t bytes);

 private:
  Budget& budget_;
  std::size_t bytes_ = 0;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/budget-inl.h"
#endif
