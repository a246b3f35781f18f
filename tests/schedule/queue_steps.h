// Shared by the tests of the queue: texts, and steps that end no sequence.
#pragma once
#include <map>
#include <numeric>
#include <vector>

#include "tenon/schedule/queue.h"

namespace tenon {

using Granted = std::map<SeqId, int>;

inline std::vector<TokenId> text(int n, TokenId first = 100) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline Granted granted(const Plan& plan) {
  Granted all;
  for (const auto& slice : plan.slices) all[slice.seq] = slice.tokens;
  return all;
}

// A step whose picks end no sequence.
template <class Q, class L>
Granted step(Q& queue, L& ledger, int budget = 512) {
  const Plan& plan = queue.plan(ledger, budget, {});
  const Granted all = granted(plan);
  std::vector<SeqId> ended;
  for (const auto& slice : plan.slices) {
    if (queue.ends_known_tokens(slice)) ended.push_back(slice.seq);
  }
  queue.commit(plan, ledger);
  for (const SeqId seq : ended) queue.append(seq, 7);
  return all;
}

}  // namespace tenon
