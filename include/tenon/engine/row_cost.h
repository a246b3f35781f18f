// The cost of a step by its number of rows, measured while the engine runs, and how many guesses are worth their rows.
// It decides speed alone, never an answer.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

/// The seconds of a step without prompts, by its number of rows without guesses and by its number of guesses. Steps of
/// different batches are never compared: drawing a token from a large vocabulary may take as long as the row of a
/// guess, so a row costs more beside some requests than beside others.
class RowCost {
 public:
  static constexpr int kMostRows = 64;  ///< of a step that is measured, guesses included
  static constexpr int kFewest = 3;     ///< steps without guesses that are measured before guesses delay others
  static constexpr int kMostAge = 200;  ///< steps of as many rows after which a measurement is forgotten

  /// A step of `rows` rows and `guesses` more has taken this long. One of more than kMostRows is not measured.
  void measure(int rows, int guesses, double seconds);

  /// Whether `fewest` steps of `rows` rows and no guesses were measured of late. Few may have been slow by accident.
  bool knows(int rows, int fewest = kFewest) const;

  /// The estimate, in a unit of its own for each number of rows: only ratios of different `guesses` mean something.
  /// rows: 1 or more. It is linear between measured numbers of guesses. Beyond them each guess adds the share kRowShare
  /// of the nearest.
  double of(int rows, int guesses) const;

 private:
  static constexpr double kNew = 0.125;      // least weight of a new measurement in the mean
  static constexpr double kRowShare = 0.06;  // GPT-2 in float32 on two cores: 8 rows take 1.4 times as long as one

  struct Mean {
    double seconds = 0;        // 0: not measured of late
    int count = 0;             // measurements in it
    std::uint64_t newest = 0;  // step of the newest one
  };
  // The steps of one number of rows without guesses.
  struct Batch {
    std::vector<Mean> means;  // [guesses]
    std::uint64_t steps = 0;  // measured so far
  };

  const Batch* batch(int rows) const {
    return rows < 1 || rows > kMostRows ? nullptr : &batches_[static_cast<std::size_t>(rows)];
  }

  std::array<Batch, kMostRows + 1> batches_{};  // [rows]
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
/// RowCost::kMostRows rows takes none before RowCost::knows() its cost, for which one step suffices to a sequence that
/// is alone.
void choose_guesses(std::span<DraftOffer> offers, const StepToDraft& step, const RowCost& cost);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/row_cost-inl.h"
#endif
