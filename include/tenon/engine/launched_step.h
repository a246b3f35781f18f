// A step between its launch and its end: its plan, the rows that yield logits, and where the device keeps its picks.
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/plan.h"
#include "tenon/engine/active_requests.h"
#include "tenon/engine/step_report.h"
#include "tenon/ops/args.h"
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

namespace detail {
struct NoLater {};
template <class D, class HeadView>
struct LaterOf {
  using type = NoLater;
};
template <class D, class HeadView>
requires PicksAhead<D, HeadView>
struct LaterOf<D, HeadView> {
  using type = typename D::Later;
};
}  // namespace detail

/// A step that was assembled.
template <class DeviceP, class HeadView>
struct LaunchedStep {
  Plan plan;
  std::vector<LogitRow> rows;   ///< in the order of its hidden rows
  std::size_t logit_rows = 0;   ///< the first of `rows`, which need logits; the others are pooled (RowPool)
  int rounds = 1;               ///< more than every LogitRow::round
  int guessed = 0;              ///< rows of guesses
  std::vector<StepRow> report;  ///< for EngineOptions::on_step
  TimePoint begin{};
  MatrixView<const float> hidden{};  ///< [rows.size(), hidden] on the device, until the next forward pass
  bool picks_ahead = false;          ///< the device has picked a token for each row, and keeps it for the next step
  typename detail::LaterOf<DeviceP, HeadView>::type picks;  ///< [rows.size()] TokenId where it has

  /// Takes the rows of `of`, and fills `batch` for the forward pass. watched: fills `report`, too.
  void assemble(const Plan& of, const SequenceTable& queue, ActiveRequests& active, bool watched, TimePoint now,
                Batch& batch) {
    plan = of;
    const auto needs_logits = [&](const Plan::Slice& slice) { return !active.output(slice.seq).pool().pools(); };
    if (!std::all_of(plan.slices.begin(), plan.slices.end(), needs_logits))
      std::stable_partition(plan.slices.begin(), plan.slices.end(), needs_logits);
    begin = now;
    rows.clear();
    logit_rows = 0;
    rounds = 1;
    guessed = 0;
    report.clear();
    batch.clear();
    for (const Plan::Slice& slice : plan.slices) {
      const Sequence& s = queue.sequence(slice.seq);
      SequenceOutput& output = active.output(slice.seq);
      output.begin(now);
      guessed += s.guessed;
      if (watched)
        report.push_back({slice.seq, s.adapter, slice.tokens, std::clamp(s.prompt_tokens - s.cached, 0, slice.tokens)});
      const int first_row = static_cast<int>(batch.tokens.size());
      batch.sequences.push_back({slice.seq, first_row, slice.tokens, s.cached, static_cast<int>(batch.sequences.size()),
                                 s.read_at_once(), s.adapters.get(), s.adapters_from});
      for (int position = s.cached; position < s.cached + slice.tokens; ++position) {
        const int guesses = position + 1 - s.known();  // before the token that this row yields
        const bool picks_next = guesses >= 0 && s.remaining() > guesses;
        const bool pooled = output.pool().wants(position);
        if (picks_next || pooled || output.wants_logits(position, s.prompt_tokens)) {
          batch.logit_rows.push_back(static_cast<int>(batch.tokens.size()));
          const bool in_turn = output.constraint() || output.processor();
          rows.push_back({slice.seq, position, picks_next, false, in_turn ? std::max(guesses, 0) : 0});
          rounds = std::max(rounds, rows.back().round + 1);
          if (!pooled) logit_rows = rows.size();
        }
        batch.tokens.push_back(s.tokens[static_cast<std::size_t>(position)]);
        batch.positions.push_back(position);
      }
    }
  }

  /// Marks the rows of this sequence after row i: they read a token that is not in the text.
  void forget_after(std::size_t i) {
    for (std::size_t j = i + 1; j < rows.size() && rows[j].seq == rows[i].seq; ++j) {
      rows[j].gone = true;
      rows[j].pick = false;
    }
  }

  /// Marks rows of sequences that have ended, or were held or preempted, since the launch.
  void forget_gone(const SequenceTable& queue, const ActiveRequests& active) {
    for (LogitRow& row : rows) {
      row.gone = !active.writes(row.seq) || queue.sequence(row.seq).state != Sequence::State::running;
      row.pick = row.pick && !row.gone;
    }
  }

  /// In the batch of the next step, points tokens that only the device knows to their places among its picks.
  void point_to_picks(Batch& batch) const {
    std::size_t row = 0;  // mostly they stand in the same order
    for (const SequenceRows& s : batch.sequences) {
      TokenId& last = batch.tokens[static_cast<std::size_t>(s.first_row + s.rows - 1)];
      if (last != kUnknownToken) continue;
      while (rows[row].seq != s.seq) row = (row + 1) % rows.size();
      last = pick_at(static_cast<int>(row));
    }
  }
};

}  // namespace tenon
