// A step between its launch and its end: its plan, and the rows that yield logits.
#pragma once
#include <cstddef>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/plan.h"
#include "tenon/core/views.h"
#include "tenon/engine/active_requests.h"
#include "tenon/engine/step_report.h"
#include "tenon/schedule/sequence_table.h"

namespace tenon {

/// A row of logits.
struct LogitRow {
  SeqId seq;
  int position;
  bool pick;  ///< at the last known token or a guessed one: a token is picked from it
  bool gone =
      false;  ///< its sequence has ended since the launch, or has left the cache, or a guess before it was wrong
  /// Rows of one round are picked at once. Rows of a later round have a constraint or a processor, which needs the
  /// tokens before them.
  int round = 0;
};

/// A step that was assembled.
struct AssembledStep {
  Plan plan;
  std::vector<LogitRow> rows;   ///< in the order of its hidden rows
  std::size_t logit_rows = 0;   ///< the first of `rows`, which need logits; the others are pooled (RowPool)
  int rounds = 1;               ///< more than every LogitRow::round
  int guessed = 0;              ///< rows of guesses
  std::vector<StepRow> report;  ///< for EngineOptions::on_step
  TimePoint begin{};
  MatrixView<const float> hidden{};  ///< [rows.size(), hidden] on the device, until the next forward pass
  bool picks_ahead = false;          ///< the device has picked a token for each row, and keeps it for the next step

  /// Takes the rows of `of`, and fills `batch` for the forward pass. watched: fills `report`, too.
  void assemble(const Plan& of, const SequenceTable& queue, ActiveRequests& active, bool watched, TimePoint now,
                Batch& batch);

  /// Marks the rows of this sequence after row i: they read a token that is not in the text.
  void forget_after(std::size_t i);

  /// Marks rows of sequences that have ended, or were held or preempted, since the launch.
  void forget_gone(const SequenceTable& queue, const ActiveRequests& active);

  /// In the batch of the next step, points tokens that only the device knows to their places among its picks.
  void point_to_picks(Batch& batch) const;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/assembled_step-inl.h"
#endif
