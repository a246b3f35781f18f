// The cost of a step by its number of rows, measured while the engine runs, and how many guesses are worth their rows.
// It decides speed alone, never an answer.
#pragma once
#include <array>
#include <cstddef>
#include <span>

#include "tenon/core/require.h"

namespace tenon {

/// The seconds of a step without prompts, by its number of rows.
class RowCost {
 public:
  static constexpr int kMostRows = 64;  ///< of a step that is measured

  /// A step has taken this long. Others than those of 1 to kMostRows rows are ignored.
  void measure(int rows, double seconds);

  /// The estimate, in a unit of its own: only ratios mean something. rows: 1 or more. It is linear between measured
  /// numbers of rows. Beyond them each row adds the share kRowShare of the nearest.
  double of(int rows) const;

 private:
  static constexpr double kNew = 0.125;      // weight of a new measurement in the mean
  static constexpr double kRowShare = 0.06;  // GPT-2 in float32 on two cores: 8 rows take 1.4 times as long as one

  std::array<double, kMostRows + 1> seconds_{};  // [rows]; 0: not measured yet
};

/// Guesses for one sequence.
struct DraftOffer {
  double chance = 0;  ///< that a guess is right if those before it are
  int tokens = 0;     ///< that were guessed
  int taken = 0;      ///< the result: of these, the first ones, which are verified
};

/// The step that choose_guesses() adds guesses to, and their limits.
struct DraftLimits {
  int rows = 0;             ///< of the step without guesses
  int picking = 0;          ///< sequences that get a token in this step, those with guesses included
  int most = 0;             ///< guesses in all
  bool has_others = false;  ///< sequences without guesses, or prompts, are in the step
  double gain = 1.02;       ///< least ratio of tokens a second with guesses to those without; 0: all guesses are taken
};

/// Chooses how many guesses of each offer are verified: as many as give most tokens a second. Where others are in the
/// step, it may take at most 2 % longer.
void choose_guesses(std::span<DraftOffer> offers, const DraftLimits& limits, const RowCost& cost);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/row_cost-inl.h"
#endif
