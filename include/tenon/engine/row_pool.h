// Pools the rows of one prompt after the final norm: to an embedding, or to the logits of a classification head.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/request.h"

namespace tenon {

/// The rows that a request pools, and their result.
class RowPool {
 public:
  /// Pools nothing.
  RowPool() = default;
  /// tokens: the prompt. pad: ModelConfig::pad. head: read for Pooling::classify, not null then.
  RowPool(Pooling kind, std::span<const TokenId> tokens, std::optional<TokenId> pad,
          std::shared_ptr<const ClassifierHead> head);

  /// Whether the request pools rows at all.
  bool pools() const { return kind_ != Pooling::none; }

  /// The first position that add() needs. Prompt tokens before it may come from the cache.
  int first() const { return next_; }

  /// Whether add() still needs the row of `position`. A position that is computed again after a preemption counts once.
  bool wants(int position) const { return pools() && position >= next_ && position <= last_; }

  /// Takes the row of `position`, [width], in the order of positions. scale: the row is divided by it.
  void add(int position, std::span<const float> row, float scale);

  /// Why there is no result: a row was not finite. Empty: no failure.
  const std::string& failure() const { return failure_; }

  /// Moves the result to the field of `scores` that the kind of pooling has.
  void store(Scores& scores);

 private:
  Pooling kind_ = Pooling::none;
  int next_ = 0, last_ = -1;  // positions that are still needed
  std::shared_ptr<const ClassifierHead> head_;
  std::vector<double> sums_;  // Pooling::mean
  std::vector<float> result_;
  std::string failure_;
};

/// The position that a classification head reads: the rightmost token that is not `pad`, 0 if all are; without a pad
/// the last one (GenericForSequenceClassification of transformers 5). tokens: at least one.
int classified_position(std::span<const TokenId> tokens, std::optional<TokenId> pad);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/row_pool-inl.h"
#endif
