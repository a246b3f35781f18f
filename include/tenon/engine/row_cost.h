// The cost of a step by its number of guesses, measured while the engine runs, and how many guesses are worth their
// rows. It decides speed alone, never an answer.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

/// The seconds of a step in which each sequence has one row and its guesses, by the number of sequences and of all
/// guesses. Steps of different numbers of sequences are never compared: a row costs more beside some requests than
/// beside others. Drawing a token from a large vocabulary may take as long as the row of a guess. "Steps of a batch"
/// have the same number of sequences here.
class RowCost {
 public:
  static constexpr int kMostRows = 128;  ///< of a step that is measured, guesses included
  static constexpr int kFewest = 3;      ///< steps without guesses that are measured before guesses delay others
  static constexpr int kRefresh = 32;    ///< steps of a batch with guesses, after which one has none
  static constexpr int kProbe = 64;      ///< steps of a batch without guesses, after which some are tried
  static constexpr int kFewProbed = 4;   ///< guesses of such a try
  static constexpr int kMostAge = 200;   ///< steps of a batch after which a measurement is forgotten
  static constexpr int kLongAgo = 2000;  ///< steps of all batches after which one is forgotten

  /// A step has taken this long. One of more than kMostRows rows is not measured.
  void measure(int sequences, int guesses, double seconds);

  /// Whether `fewest` steps without guesses were measured of late (kRefresh, kLongAgo). Few may have been slow by
  /// accident, and old ones may have had other requests.
  bool knows(int sequences, int fewest = kFewest) const;

  /// The most guesses whose cost is worth an estimate: twice as many as were measured, at first 8 or one for each
  /// sequence, and no more than kMostRows allow.
  int most_guesses(int sequences) const;

  /// Whether kFewProbed guesses should be tried although they look dear, because none were measured for kProbe steps.
  bool should_probe(int sequences) const;

  /// The estimate, in a unit of its own for each number of sequences: only ratios of different `guesses` mean
  /// something. It is linear between measured numbers of guesses, and beyond them.
  double of(int sequences, int guesses) const;

  /// The estimate where nothing was measured. rows: 1 or more.
  static double unknown(int rows) { return 1 + kRowShare * (rows - 1); }

 private:
  static constexpr double kNew = 0.125;   // least weight of a measurement in the mean
  static constexpr double kFaster = 0.5;  // least weight of one that is below the mean: what is slow may be an accident
  static constexpr double kRowShare = 0.06;  // GPT-2 in float32 on two cores: 8 rows take 1.4 times as long as one

  struct Mean {
    double seconds = 0;        // 0: not measured of late
    int count = 0;             // measurements in it
    std::uint64_t newest = 0;  // Batch::steps at the newest one
    std::uint64_t when = 0;    // steps_ at the newest one
  };
  // The steps of one number of sequences.
  struct Batch {
    std::vector<Mean> means;    // [guesses]
    std::uint64_t steps = 0;    // measured so far
    std::uint64_t guessed = 0;  // the last one that had guesses
  };

  // Whether steps without guesses are to be measured anew.
  bool is_stale(const Batch& batch) const {
    const Mean& plain = batch.means[0];
    return batch.steps - plain.newest >= kRefresh || steps_ - plain.when >= kLongAgo;
  }

  const Batch* batch(int sequences) const {
    return sequences < 1 || sequences > kMostRows ? nullptr : &batches_[static_cast<std::size_t>(sequences)];
  }

  std::array<Batch, kMostRows + 1> batches_{};  // [sequences]
  std::uint64_t steps_ = 0;                     // measured so far, of all batches
};

/// Guesses for one sequence.
struct DraftOffer {
  double chance = 0;  ///< probability that a guess is right if those before it are
  int tokens = 0;     ///< the number of guesses
  int taken = 0;      ///< the result: the number of guesses, from the first on, that the step verifies
};

/// A step that choose_guesses() adds guesses to, and their limits.
struct StepToDraft {
  int rows = 0;              ///< rows of the step without guesses
  int picking = 0;           ///< sequences that get a token in this step, those with offers included
  int most = 0;              ///< most guesses in all
  bool has_others = false;   ///< the step has prompts, or sequences without an offer
  bool reads_texts = false;  ///< some sequence has several rows without guesses
  double gain = 1.02;        ///< least ratio of tokens a second with guesses to those without; 0: all guesses are taken
};

/// Chooses how many guesses of each offer are verified: as many as give most tokens a second. No sequence of the step
/// may be expected to get its tokens more than 2 % slower than without guesses. So a step takes none if its cost is not
/// known (RowCost::knows); where every sequence has guesses, one measured step suffices. Now and then, likely guesses
/// are tried although they look dear (RowCost::should_probe). The cost of a step that reads texts, or has more than
/// RowCost::kMostRows rows without guesses, is RowCost::unknown().
void choose_guesses(std::span<DraftOffer> offers, const StepToDraft& step, const RowCost& cost);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/row_cost-inl.h"
#endif
