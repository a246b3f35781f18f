#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "tenon/core/require.h"
#include "tenon/engine/row_cost.h"

namespace tenon {

TENON_INLINE void RowCost::measure(int sequences, int guesses, double seconds) {
  if (sequences < 1 || guesses < 0 || sequences + guesses > kMostRows || !(seconds > 0)) return;
  Batch& batch = batches_[static_cast<std::size_t>(sequences)];
  const auto at = static_cast<std::size_t>(guesses);
  if (batch.means.size() <= at) batch.means.resize(at + 1);
  Mean& mean = batch.means[at];
  if (guesses == 0 && is_stale(batch)) mean = Mean();
  mean.count = std::min(mean.count, static_cast<int>(1 / kNew)) + 1;
  mean.seconds += std::max(1.0 / mean.count, seconds < mean.seconds ? kFaster : kNew) * (seconds - mean.seconds);
  mean.newest = ++batch.steps;
  mean.when = ++steps_;
  if (guesses > 0) batch.guessed = batch.steps;
  // Steps that look dear are chosen no more. An old measurement, of a slow moment perhaps, must not forbid them for
  // good.
  for (Mean& other : batch.means)
    if (batch.steps - other.newest > kMostAge || steps_ - other.when > kLongAgo) other = Mean();
}

TENON_INLINE bool RowCost::knows(int sequences, int fewest) const {
  const Batch* at = batch(sequences);
  return at != nullptr && !at->means.empty() && at->means[0].count >= fewest && !is_stale(*at);
}

TENON_INLINE int RowCost::most_guesses(int sequences) const {
  constexpr int kFirst = 8;
  const Batch* at = batch(sequences);
  int measured = at == nullptr ? 0 : static_cast<int>(at->means.size()) - 1;
  while (measured > 0 && at->means[static_cast<std::size_t>(measured)].count == 0) --measured;
  return std::min(std::max({kFirst, sequences, 2 * measured}), kMostRows - sequences);
}

TENON_INLINE bool RowCost::should_probe(int sequences) const {
  const Batch* at = batch(sequences);
  return at != nullptr && at->steps - at->guessed >= kProbe;
}

TENON_INLINE double RowCost::of(int sequences, int guesses) const {
  const Batch* at = batch(sequences);
  const int measured = at == nullptr ? 0 : static_cast<int>(at->means.size());
  const auto seconds = [&](int count) {
    return count < measured ? at->means[static_cast<std::size_t>(count)].seconds : 0;
  };
  int below = std::min(guesses, measured - 1), above = guesses;
  while (below >= 0 && seconds(below) == 0) --below;
  while (above < measured && seconds(above) == 0) ++above;
  const bool has_below = below >= 0, has_above = above < measured;
  if (has_below && below == guesses) return seconds(below);
  if (has_below && has_above)
    return seconds(below) + (seconds(above) - seconds(below)) * (guesses - below) / (above - below);
  if (has_below && below > 0 && seconds(0) > 0)
    return seconds(below) + std::max(seconds(below) - seconds(0), 0.0) / below * (guesses - below);
  const double ratio = unknown(sequences + guesses);
  if (has_below) return seconds(below) * ratio / unknown(sequences + below);
  if (has_above) return seconds(above) * ratio / unknown(sequences + above);
  return ratio;
}

namespace detail {

// The offer whose next guess is most likely to count; offers.size(): none has another one. chances: of each offer's
// next guess.
inline std::size_t likeliest(std::span<const DraftOffer> offers, std::span<const double> chances,
                             std::span<const int> taken) {
  std::size_t best = offers.size();
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (taken[i] < offers[i].tokens && (best == offers.size() || chances[i] > chances[best])) best = i;
  }
  return best;
}

// Takes a few guesses, at most `most`, of the offer with the largest chance, if they are likely.
inline void probe(std::span<DraftOffer> offers, int most) {
  constexpr double kLikely = 0.5;
  const auto best = std::max_element(offers.begin(), offers.end(),
                                     [](const DraftOffer& a, const DraftOffer& b) { return a.chance < b.chance; });
  if (best != offers.end() && best->chance >= kLikely)
    best->taken = std::min({RowCost::kFewProbed, best->tokens, most});
}

}  // namespace detail

TENON_INLINE void choose_guesses(std::span<DraftOffer> offers, const StepToDraft& step, const RowCost& cost) {
  constexpr double kMostDelay = 1.02;
  const bool measures = !step.reads_texts && step.rows <= RowCost::kMostRows;
  const int fewest_steps = step.has_others ? RowCost::kFewest : 1;
  if (step.gain > 0 && measures && !cost.knows(step.rows, fewest_steps)) return;
  const auto seconds_with = [&](int guesses) {
    return measures ? cost.of(step.rows, guesses) : RowCost::unknown(step.rows + guesses);
  };
  std::vector<double> chances;
  for (const DraftOffer& offer : offers) chances.push_back(offer.chance);
  std::vector<double> expected(offers.size(), 1);  // tokens of each sequence in this step
  std::vector<int> taken(offers.size(), 0);
  const double alone = seconds_with(0);
  double tokens = step.picking, best = step.gain * tokens / alone;
  bool takes = false;
  const int most = measures && step.gain > 0 ? std::min(step.most, cost.most_guesses(step.rows)) : step.most;
  for (int count = 1; count <= most; ++count) {
    const std::size_t next = detail::likeliest(offers, chances, taken);
    if (next == offers.size()) break;
    ++taken[next];
    tokens += chances[next];
    expected[next] += chances[next];
    chances[next] *= offers[next].chance;
    const double seconds = seconds_with(count);
    const double fewest = step.has_others ? 1 : *std::min_element(expected.begin(), expected.end());
    if (step.gain > 0 && seconds > kMostDelay * alone * fewest) continue;
    if (step.gain > 0 && tokens / seconds <= best) continue;
    best = tokens / seconds;
    takes = true;
    for (std::size_t i = 0; i < offers.size(); ++i) offers[i].taken = taken[i];
  }
  if (!takes && measures && cost.should_probe(step.rows)) detail::probe(offers, most);
}

}  // namespace tenon
