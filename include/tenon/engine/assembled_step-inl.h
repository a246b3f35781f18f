#pragma once
#include <algorithm>

#include "tenon/core/require.h"
#include "tenon/engine/assembled_step.h"

namespace tenon {

TENON_INLINE void AssembledStep::assemble(const Plan& of, const SequenceTable& queue, ActiveRequests& active,
                                          bool watched, TimePoint now, Batch& batch) {
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

TENON_INLINE void AssembledStep::forget_after(std::size_t i) {
  for (std::size_t j = i + 1; j < rows.size() && rows[j].seq == rows[i].seq; ++j) {
    rows[j].gone = true;
    rows[j].pick = false;
  }
}

TENON_INLINE void AssembledStep::forget_gone(const SequenceTable& queue, const ActiveRequests& active) {
  for (LogitRow& row : rows) {
    row.gone = !active.has_sequence(row.seq) || queue.sequence(row.seq).state != Sequence::State::running;
    row.pick = row.pick && !row.gone;
  }
}

TENON_INLINE void AssembledStep::point_to_picks(Batch& batch) const {
  std::size_t row = 0;  // mostly they stand in the same order
  for (const SequenceRows& s : batch.sequences) {
    TokenId& last = batch.tokens[static_cast<std::size_t>(s.first_row + s.rows - 1)];
    if (last != kUnknownToken) continue;
    while (rows[row].seq != s.seq) row = (row + 1) % rows.size();
    last = pick_at(static_cast<int>(row));
  }
}

}  // namespace tenon
