// Adds guesses to the plan of a step, as far as they are worth their rows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/draft.h"
#include "tenon/engine/active_requests.h"
#include "tenon/engine/failure.h"
#include "tenon/engine/row_cost.h"
#include "tenon/schedule/sequence_queue.h"

namespace tenon {

/// Values of EngineOptions and of the model.
struct DraftSettings {
  int tokens = 0;   ///< EngineOptions::draft_tokens
  double gain = 0;  ///< EngineOptions::draft_gain
  int rows = 0;     ///< EngineOptions::token_budget
  int vocab = 0;
};

/// DraftPolicy::draft of any policy.
using Guesser = std::function<void(const DraftState&, DraftWriter&)>;

/// Collects guesses for the texts of a step and lets the plan verify them. The next tokens of a text are guessed from
/// what its request expects (Request::prediction), else from what its constraint forces, else by the draft policy.
class Drafter {
 public:
  /// The step of this plan, `guessed` of whose rows were guesses, took this long.
  void measure(const Plan& plan, int guessed, double seconds);

  /// Adds guesses to the slices of the plan that queue.plan() has just made. Guesses come last: they take the rows that
  /// EngineOptions::token_budget has left, and cache that is free. Returns their number.
  std::uint64_t extend(const Guesser& guess, SequenceQueue& queue, const Plan& plan, LedgerRef ledger,
                       ActiveRequests& active, const DraftSettings& settings);

  /// Shows the policy texts that have ended. Its exceptions are ignored: a policy that forgets a text changes no
  /// answer.
  template <LearnsTexts P, class EndedTexts>
  static void learn(P& policy, const EndedTexts& texts) {
    for (const auto& ended : texts)
      detail::attempt([&] { policy.learn({ended.tokens, ended.prompt_tokens, ended.group, ended.cache_salt}); });
  }

 private:
  // Offers guesses of the first source that has any.
  void offer(const Guesser& guess, std::size_t slice, const Sequence& s, SequenceOutput& output, int most,
             const DraftSettings& settings);

  RowCost cost_;
  std::vector<std::size_t> slices_;  // [offers] of the plan
  std::vector<DraftOffer> offers_;
  std::vector<TokenId> guesses_;  // for one sequence
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/drafter-inl.h"
#endif
