// The cost of a step by its number of rows, measured while the engine runs, and how many guesses are worth their rows.
// It decides speed alone, never an answer.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/core/require.h"

namespace tenon {

/// The seconds of a step without prompts, by its number of rows.
class RowCost {
 public:
  static constexpr int kMostRows = 64;  ///< of a step that is measured
  static constexpr int kMostAge = 200;  ///< steps after which a measurement is forgotten

  /// A step has taken this long. Steps of more than kMostRows rows are not measured.
  void measure(int rows, double seconds);

  /// Whether of() rests on a measurement of at most this many rows. Without one it may be far too high.
  bool knows(int rows) const;

  /// The estimate, in a unit of its own: only ratios mean something. rows: 1 or more. It is linear between measured
  /// numbers of rows. Beyond them each row adds the share kRowShare of the nearest.
  double of(int rows) const;

 private:
  static constexpr double kNew = 0.125;      // weight of a new measurement in the mean
  static constexpr double kRowShare = 0.06;  // GPT-2 in float32 on two cores: 8 rows take 1.4 times as long as one

  std::array<double, kMostRows + 1> seconds_{};       // [rows]; 0: not measured of late
  std::array<std::uint64_t, kMostRows + 1> steps_{};  // [rows] step of the newest measurement
  std::uint64_t step_ = 0;
};

/// Guesses for one sequence.
struct DraftOffer {
  double chance = 0;  ///< probability that a guess is right if those before it are
  int tokens = 0;     ///< the number of guesses
  int taken = 0;      ///< the result: the number of guesses, from the first on, that the step verifies
};

/// A step that choose_guesses() adds guesses to, and their limits.
struct StepToDraft {
  int rows = 0;             ///< rows of the step without guesses
  int picking = 0;          ///< sequences that get a token in this step, those with offers included
  int most = 0;             ///< most guesses in all
  bool has_others = false;  ///< the step has prompts, or sequences without an offer
  double gain = 1.02;       ///< least ratio of tokens a second with guesses to those without; 0: all guesses are taken
};

/// Chooses how many guesses of each offer are verified: as many as give most tokens a second. No sequence of the step
/// may be expected to get its tokens more than 2 % slower than without guesses. So a step of at most
/// RowCost::kMostRows rows takes none before one of at most as many rows was measured.
void choose_guesses(std::span<DraftOffer> offers, const StepToDraft& step, const RowCost& cost);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/row_cost-inl.h"
#endif
