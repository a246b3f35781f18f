#pragma once
#include <algorithm>

#include "tenon/core/require.h"
#include "tenon/engine/best_of.h"

namespace tenon {

TENON_INLINE BestOf::BestOf(const Options& options)
    : wanted_(static_cast<std::size_t>(options.n)),
      with_logprobs_(options.top_logprobs >= 0),
      answers_(static_cast<std::size_t>(options.best_of)) {}

TENON_INLINE void BestOf::add(Event event) {
  Buffered& answer = answers_[static_cast<std::size_t>(event.choice)];
  if (event.kind == Event::Kind::token) {
    answer.logprob += static_cast<double>(event.logprob);
    ++answer.tokens;
  }
  if (event.scores) scores_ = event.scores;
  answer.events.push_back(std::move(event));
}

TENON_INLINE int BestOf::Buffered::rank() const {
  const FinishReason reason = events.back().reason;
  if (reason == FinishReason::length || reason == FinishReason::stop) return 2;
  return tokens > 0 ? 1 : 0;
}

}  // namespace tenon
