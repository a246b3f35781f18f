// How often the guesses for one text have been right of late.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

/// The guesses of a step for one text, and the share of right ones, in which recent guesses count more. A guess that
/// was too dear to verify counts, too, once the token is known.
class GuessRecord {
 public:
  /// Replaces the guesses.
  void offer(std::span<const TokenId> tokens) {
    offered_.assign(tokens.begin(), tokens.end());
    next_ = 0;
  }
  std::span<const TokenId> offered() const { return offered_; }

  /// The next token of the text. After a wrong guess those after it mean nothing.
  void verify(TokenId token) {
    if (next_ >= offered_.size()) return;
    const bool right = offered_[next_] == token;
    tried_ = kMemory * tried_ + 1;
    right_ = kMemory * right_ + right;
    next_ = right ? next_ + 1 : offered_.size();
  }

  /// No guesses from now on.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  /// The probability that a guess is right if those before it are.
  double chance() const { return right_ / tried_; }

 private:
  static constexpr double kMemory = 0.9;  // a guess counts half after 7 others

  std::vector<TokenId> offered_;
  std::size_t next_ = 0;  // the first that is not verified
  bool stopped_ = false;
  double right_ = 0.5, tried_ = 1;  // before the first guess: as often right as wrong
};

}  // namespace tenon
