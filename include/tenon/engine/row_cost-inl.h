#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "tenon/core/require.h"
#include "tenon/engine/row_cost.h"

namespace tenon {

TENON_INLINE void RowCost::measure(int rows, double seconds) {
  if (rows < 1 || rows > kMostRows || !(seconds > 0)) return;
  const auto at = static_cast<std::size_t>(rows);
  double& mean = seconds_[at];
  mean = mean == 0 ? seconds : mean + kNew * (seconds - mean);
  steps_[at] = ++step_;
  // Steps that look dear are chosen no more. An old measurement, of a slow moment perhaps, must not forbid them for
  // good.
  for (std::size_t i = 0; i < seconds_.size(); ++i)
    if (step_ - steps_[i] > kMostAge) seconds_[i] = 0;
}

TENON_INLINE bool RowCost::knows(int rows) const {
  const auto last = seconds_.begin() + std::min(rows, kMostRows) + 1;
  return std::any_of(seconds_.begin(), last, [](double seconds) { return seconds > 0; });
}

TENON_INLINE double RowCost::of(int rows) const {
  int below = std::min(rows, kMostRows), above = std::max(rows, 1);
  while (below > 0 && seconds_[static_cast<std::size_t>(below)] == 0) --below;
  while (above <= kMostRows && seconds_[static_cast<std::size_t>(above)] == 0) ++above;
  const bool has_below = below > 0, has_above = above <= kMostRows;
  const double low = has_below ? seconds_[static_cast<std::size_t>(below)] : 0;
  const double high = has_above ? seconds_[static_cast<std::size_t>(above)] : 0;
  if (has_below && below == rows) return low;
  if (has_below && has_above) return low + (high - low) * (rows - below) / (above - below);
  if (has_below) return low * (1 + kRowShare * (rows - below));
  if (has_above) return high / (1 + kRowShare * (above - rows));
  return 1 + kRowShare * (rows - 1);
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

}  // namespace detail

TENON_INLINE void choose_guesses(std::span<DraftOffer> offers, const StepToDraft& step, const RowCost& cost) {
  constexpr double kMostDelay = 1.02;
  if (step.gain > 0 && step.rows <= RowCost::kMostRows && !cost.knows(step.rows)) return;
  std::vector<double> chances;
  for (const DraftOffer& offer : offers) chances.push_back(offer.chance);
  std::vector<double> expected(offers.size(), 1);  // tokens of each sequence in this step
  std::vector<int> taken(offers.size(), 0);
  const double alone = cost.of(step.rows);
  double tokens = step.picking, best = step.gain * tokens / alone;
  for (int count = 1; count <= step.most; ++count) {
    const std::size_t next = detail::likeliest(offers, chances, taken);
    if (next == offers.size()) return;
    ++taken[next];
    tokens += chances[next];
    expected[next] += chances[next];
    chances[next] *= offers[next].chance;
    const double seconds = cost.of(step.rows + count);
    const double fewest = step.has_others ? 1 : *std::min_element(expected.begin(), expected.end());
    if (step.gain > 0 && seconds > kMostDelay * alone * fewest) continue;
    if (step.gain > 0 && tokens / seconds < best) continue;
    best = tokens / seconds;
    for (std::size_t i = 0; i < offers.size(); ++i) offers[i].taken = taken[i];
  }
}

}  // namespace tenon
