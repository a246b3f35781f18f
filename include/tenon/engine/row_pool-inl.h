#pragma once
#include <algorithm>
#include <utility>

#include "tenon/core/finite.h"
#include "tenon/core/require.h"
#include "tenon/engine/row_pool.h"

namespace tenon {

TENON_INLINE int classified_position(std::span<const TokenId> tokens, std::optional<TokenId> pad) {
  int at = static_cast<int>(tokens.size()) - 1;
  while (pad && at > 0 && tokens[static_cast<std::size_t>(at)] == *pad) --at;
  return at;
}

TENON_INLINE RowPool::RowPool(Pooling kind, std::span<const TokenId> tokens, std::optional<TokenId> pad,
                              std::shared_ptr<const ClassifierHead> head)
    : kind_(kind), head_(std::move(head)) {
  if (!pools()) return;
  last_ = kind == Pooling::classify ? classified_position(tokens, pad) : static_cast<int>(tokens.size()) - 1;
  next_ = kind == Pooling::mean ? 0 : last_;
}

TENON_INLINE void RowPool::add(int position, std::span<const float> row, float scale) {
  if (position != next_ || !wants(position) || !failure_.empty()) return;
  if (!all_finite(row)) {
    failure_ = "hidden: not finite at position " + std::to_string(position);
    return;
  }
  std::vector<float> own(row.begin(), row.end());
  if (scale != 1)
    for (float& each : own) each = static_cast<float>(static_cast<double>(each) / static_cast<double>(scale));
  ++next_;
  if (kind_ == Pooling::mean) {
    sums_.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) sums_[i] += static_cast<double>(own[i]);
    if (position < last_) return;
    own.clear();
    for (const double sum : sums_) own.push_back(static_cast<float>(sum / (last_ + 1)));
  }
  result_ = kind_ == Pooling::classify ? head_->logits(own) : std::move(own);
}

TENON_INLINE void RowPool::store(Scores& scores) {
  (kind_ == Pooling::classify ? scores.class_logits : scores.embedding) = std::move(result_);
}

}  // namespace tenon
