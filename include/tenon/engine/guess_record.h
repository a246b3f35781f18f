// The guesses for one text: where they come from, and how often they have been right of late.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/core/views.h"

namespace tenon {

/// The sources of guesses for a text, in the order in which they are asked.
enum class GuessSource { prediction, constraint, policy };
inline constexpr std::size_t kGuessSources = 3;

/// The guesses of a step for one text, and for each source the share of right ones, in which recent guesses count more.
/// A guess that was too dear to verify counts, too, once the token is known.
class GuessRecord {
 public:
  GuessRecord() = default;
  /// prediction: Request::prediction, or null. group, cache_salt: as in DraftState.
  GuessRecord(std::shared_ptr<const std::vector<TokenId>> prediction, std::string group, std::string cache_salt)
      : prediction_(std::move(prediction)), group_(std::move(group)), cache_salt_(std::move(cache_salt)) {}

  /// Request::prediction; empty: none.
  std::span<const TokenId> prediction() const {
    return prediction_ ? std::span<const TokenId>(*prediction_) : std::span<const TokenId>();
  }
  /// DraftState::group.
  const std::string& group() const { return group_; }
  /// DraftState::cache_salt.
  const std::string& cache_salt() const { return cache_salt_; }

  /// Replaces the guesses.
  void offer(std::span<const TokenId> tokens, GuessSource source) {
    offered_.assign(tokens.begin(), tokens.end());
    source_ = source;
    next_ = taken_ = 0;
  }
  std::span<const TokenId> offered() const { return offered_; }
  /// The step verifies the first `count` of them.
  void take(std::size_t count) {
    taken_ = count;
    drafted_[static_cast<std::size_t>(source_)] += static_cast<int>(count);
  }

  /// The next token of the text. After a wrong guess those after it mean nothing.
  void verify(TokenId token) {
    if (next_ >= offered_.size()) return;
    const bool right = offered_[next_] == token;
    Share& share = shares_[static_cast<std::size_t>(source_)];
    share.tried = kMemory * share.tried + 1;
    share.right = kMemory * share.right + right;
    if (right && next_ < taken_) ++accepted_[static_cast<std::size_t>(source_)];
    next_ = right ? next_ + 1 : offered_.size();
  }

  /// No guesses from now on. Guesses that are not verified yet do not count.
  void stop() {
    stopped_ = true;
    drafted_[static_cast<std::size_t>(source_)] -= static_cast<int>(taken_ - std::min(next_, taken_));
    taken_ = std::min(next_, taken_);
  }
  bool stopped() const { return stopped_; }

  /// The probability that a guess of the source that offered them is right if those before it are.
  double chance() const {
    const Share& share = shares_[static_cast<std::size_t>(source_)];
    return share.right / share.tried;
  }

  /// All guesses so far that were verified.
  GuessCounts counts() const {
    constexpr auto kPrediction = static_cast<std::size_t>(GuessSource::prediction);
    return {.drafted = std::accumulate(drafted_.begin(), drafted_.end(), 0),
            .accepted = std::accumulate(accepted_.begin(), accepted_.end(), 0),
            .prediction_drafted = drafted_[kPrediction],
            .prediction_accepted = accepted_[kPrediction]};
  }

 private:
  static constexpr double kMemory = 0.9;  // a guess counts half after 7 others

  struct Share {
    double right = 0.5, tried = 1;  // before the first guess: as often right as wrong
  };

  std::shared_ptr<const std::vector<TokenId>> prediction_;
  std::string group_, cache_salt_;
  std::vector<TokenId> offered_;
  GuessSource source_ = GuessSource::policy;  // of offered_
  std::size_t next_ = 0;                      // the first that is not verified
  std::size_t taken_ = 0;                     // of offered_, the first ones, which the step verifies
  bool stopped_ = false;
  std::array<Share, kGuessSources> shares_;
  std::array<int, kGuessSources> drafted_{}, accepted_{};
};

}  // namespace tenon
