// head_draw in plain code: what a device that prepares rows for a draw must find.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/sample/strips.h"

namespace tenon::test {

inline float tamed(float logit) {
  return std::isnan(logit) ? -std::numeric_limits<float>::infinity()
                           : std::min(logit, std::numeric_limits<float>::max());
}

struct Drawn {
  std::vector<TokenLogit> best;
  double total = 0, log_total = 0;
};

// For one row of logits. `args` has the lists; its hidden rows and weights are unused.
template <class W>
Drawn drawn(std::vector<float> row, const DrawRow& draw, const HeadDrawArgs<W>& args) {
  const auto at = [&](TokenId id) -> float& { return row[static_cast<std::size_t>(id)]; };
  if (!std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); })) return {};
  for (const TokenLogit& b :
       args.biases.subspan(static_cast<std::size_t>(draw.first_bias), static_cast<std::size_t>(draw.biases))) {
    at(b.id) = tamed(at(b.id) + b.logit);
  }
  for (const SeenToken& s :
       args.seen.subspan(static_cast<std::size_t>(draw.first_seen), static_cast<std::size_t>(draw.seen))) {
    const float penalty = draw.repetition_penalty;
    if (penalty != 1) at(s.id) = tamed(at(s.id) < 0 ? at(s.id) * penalty : at(s.id) / penalty);
    if (s.generated > 0 && (draw.presence_penalty != 0 || draw.frequency_penalty != 0)) {
      at(s.id) =
          tamed(std::fma(-draw.frequency_penalty, static_cast<float>(s.generated), at(s.id)) - draw.presence_penalty);
    }
  }
  const std::size_t words = (row.size() + 31) / 32;
  for (std::size_t i = 0; draw.mask >= 0 && i < row.size(); ++i) {
    const std::uint32_t word = args.masks[static_cast<std::size_t>(draw.mask) * words + i / 32];
    if (!(word >> (i % 32) & 1u)) row[i] = -std::numeric_limits<float>::infinity();
  }
  Drawn out;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] > -std::numeric_limits<float>::infinity()) out.best.push_back({row[i], static_cast<TokenId>(i)});
  }
  std::stable_sort(out.best.begin(), out.best.end(),
                   [](const TokenLogit& a, const TokenLogit& b) { return a.logit > b.logit; });
  out.best.resize(std::min(out.best.size(), static_cast<std::size_t>(draw.best)));
  std::vector<float> terms(row.size());
  if (draw.temperature > 0 && !out.best.empty())
    out.total = exp_terms(row, out.best.front().logit, draw.temperature, terms.data());
  if (draw.log_total && !out.best.empty()) out.log_total = exp_terms(row, out.best.front().logit, 1, terms.data());
  return out;
}

// head_pick on the best of a row, in order of rank; -1 if there are none.
inline TokenId picked(const std::vector<TokenLogit>& best, const PickRow& row) {
  if (best.empty()) return -1;
  if (row.temperature == 0) return best.front().id;
  std::vector<double> weights;
  for (const TokenLogit& each : best)
    weights.push_back(static_cast<double>(exact::exp((each.logit - best.front().logit) / row.temperature)));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0),
               enough = static_cast<double>(row.top_p) * all;
  std::size_t kept = 0;
  double total = 0;
  for (; kept < weights.size() && (row.top_p == 1 || total < enough) && weights[kept] >= static_cast<double>(row.min_p);
       ++kept)
    total += weights[kept];
  double mass = 0;
  for (std::size_t rank = 0; rank < kept; ++rank) {
    mass += weights[rank];
    if (mass > row.u * total) return best[rank].id;
  }
  return best.front().id;
}

}  // namespace tenon::test
