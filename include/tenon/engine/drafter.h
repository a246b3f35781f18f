// Adds guesses to the plan of a step, as far as they are worth their rows.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/draft.h"
#include "tenon/engine/active_requests.h"
#include "tenon/engine/failure.h"
#include "tenon/engine/row_cost.h"
#include "tenon/schedule/sequence.h"

namespace tenon {

/// Values of EngineOptions and of the model.
struct DraftSettings {
  int tokens = 0;   ///< EngineOptions::draft_tokens
  double gain = 0;  ///< EngineOptions::draft_gain
  int rows = 0;     ///< EngineOptions::token_budget
  int vocab = 0;
};

/// Asks a draft policy for guesses and lets the plan verify them.
class Drafter {
 public:
  RowCost& cost() { return cost_; }

  /// Adds guesses to the slices of the plan that queue.plan() has just made. Guesses come last: they take the rows that
  /// EngineOptions::token_budget has left, and cache that is free. Returns their number.
  template <DraftPolicy P, class Queue, CacheLedger L>
  int extend(P& policy, Queue& queue, const Plan& plan, L& ledger, ActiveRequests& active,
             const DraftSettings& settings) {
    const int left = settings.rows - plan.rows;
    if (settings.tokens <= 0 || left <= 0) return 0;
    slices_.clear();
    offers_.clear();
    int picking = 0;
    for (std::size_t i = 0; i < plan.slices.size(); ++i) {
      const Plan::Slice& slice = plan.slices[i];
      const Sequence& s = queue.sequence(slice.seq);
      if (!queue.ends_known_tokens(slice) || s.remaining() <= 0) continue;
      ++picking;
      const DraftWriter out(guesses_, std::min(settings.tokens, queue.most_guesses(s)), settings.vocab);
      if (slice.tokens == 1 && s.generated() > 0) offer(policy, i, s, active.output(slice.seq).guesses(), out);
    }
    if (offers_.empty()) return 0;
    const bool has_others = offers_.size() < plan.slices.size();
    choose_guesses(offers_, {plan.rows, picking, left, has_others, settings.gain}, cost_);
    int count = 0;
    for (std::size_t i = 0; i < offers_.size(); ++i) {
      const auto offered = active.output(plan.slices[slices_[i]].seq).guesses().offered();
      count += queue.guess(slices_[i], offered.first(static_cast<std::size_t>(offers_[i].taken)), ledger);
    }
    return count;
  }

 private:
  // After a policy throws, the text gets no more guesses.
  template <DraftPolicy P>
  void offer(P& policy, std::size_t slice, const Sequence& s, GuessRecord& record, DraftWriter out) {
    if (record.stopped()) return;
    guesses_.clear();
    if (out.room() > 0 && detail::attempt([&] { policy.draft({s.tokens, s.prompt_tokens}, out); })) {
      guesses_.clear();
      record.stop();
    }
    record.offer(guesses_);
    if (guesses_.empty()) return;
    slices_.push_back(slice);
    offers_.push_back({record.chance(), static_cast<int>(guesses_.size())});
  }

  RowCost cost_;
  std::vector<std::size_t> slices_;  // [offers] of the plan
  std::vector<DraftOffer> offers_;
  std::vector<TokenId> guesses_;  // for one sequence
};

}  // namespace tenon
