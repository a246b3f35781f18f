// Limits on the cost of a constraint, so that a client cannot exhaust the machine.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tenon/constrain/refused.h"

namespace tenon::constrain {

/// Limits of one constraint.
struct ConstraintLimits {
  /// CPU time to compile; freeing the result takes further time.
  std::chrono::milliseconds time{1200};
  /// CPU time for one mask or one token. Other requests of the step wait at most this long on an idle machine.
  std::chrono::milliseconds step_time{250};
  /// Memory for expressions and states, in bytes, over the life of the constraint.
  std::size_t bytes = std::size_t{256} << 20;
  /// Levels of groups in a regular expression. Expressions and schemas may have 4 * nesting levels.
  int nesting = 256;
  int depth = 64;  ///< levels of calls between rules in a text
};

/// CPU time of the calling thread since an unspecified moment.
std::chrono::nanoseconds thread_cpu_time();

/// Counts CPU time, memory and nesting. Throws Refused, "too complex", where a limit is exceeded. Not thread-safe: one
/// thread at a time, and the same one between the start of a clock and its last check.
class Budget {
 public:
  /// Starts the clock of ConstraintLimits::time.
  explicit Budget(ConstraintLimits limits = {}) : limits_(limits) { begin(limits.time); }

  /// Charges memory.
  void spend(std::size_t bytes);
  /// Returns memory that was charged.
  void give_back(std::size_t bytes) { bytes_ -= bytes; }
  /// Checks the clock. Call it regularly in loops.
  void check();
  /// Restarts the clock with the time for compiling, for tables that are prepared later.
  void begin_preparing() { begin(limits_.time); }
  /// Stops the clock until a step begins.
  void compiled() { next_look_ = std::chrono::steady_clock::time_point::max(); }
  /// Restarts the clock with ConstraintLimits::step_time, for the work of a request.
  void begin_step() { begin(limits_.step_time); }
  /// Memory charged so far, in bytes.
  std::size_t bytes() const { return bytes_; }
  const ConstraintLimits& limits() const { return limits_; }  ///< as given to the constructor

  /// One more level of recursion for the life of the object. Refused over 4 * ConstraintLimits::nesting levels.
  class Nesting {
   public:
    /// Errors: Refused.
    explicit Nesting(Budget& budget);
    Nesting(const Nesting&) = delete;
    ~Nesting() { --budget_.nesting_; }

   private:
    Budget& budget_;
  };

 private:
  void begin(std::chrono::milliseconds time);

  const ConstraintLimits limits_;
  std::chrono::milliseconds time_{};  // that the clock allows
  // The thread's CPU time at the first look at the clock. Reading it is a system call, which cached steps avoid.
  std::optional<std::chrono::nanoseconds> cpu_began_;
  // Before it the CPU time cannot be used up, since wall-clock time passes at least as fast.
  std::chrono::steady_clock::time_point next_look_{};
  std::size_t bytes_ = 0;
  std::uint64_t checks_ = 0;
  int nesting_ = 0;
};

/// Memory that is returned to the budget at the end of the object's life. For tables that die before their budget, or
/// may be abandoned.
class Spent {
 public:
  /// Charges `budget`, which must outlive the object.
  explicit Spent(Budget& budget) : budget_(budget) {}
  Spent(const Spent&) = delete;
  ~Spent() { budget_.give_back(bytes_); }

  /// Charges more memory.
  void add(std::size_t bytes);
  /// Returns some of it.
  void take(std::size_t bytes);

 private:
  Budget& budget_;
  std::size_t bytes_ = 0;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/budget-inl.h"
#endif
