// Adds guesses to the plan of a step, as far as they are worth their rows.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/draft.h"
#include "tenon/draft/predicted_text.h"
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

/// Collects guesses for the texts of a step and lets the plan verify them. The next tokens of a text are guessed from
/// what its request expects (Request::prediction), else from what its constraint forces, else by the draft policy.
class Drafter {
 public:
  /// The step of this plan, `guessed` of whose rows were guesses, took this long.
  void measure(const Plan& plan, int guessed, double seconds) {
    const auto sequences = static_cast<int>(plan.slices.size());
    if (plan.rows == sequences + guessed) cost_.measure(sequences, guessed, seconds);  // else it read a text
  }

  /// Adds guesses to the slices of the plan that queue.plan() has just made. Guesses come last: they take the rows that
  /// EngineOptions::token_budget has left, and cache that is free. Returns their number.
  template <DraftPolicy P, class Queue, CacheLedger L>
  std::uint64_t extend(P& policy, Queue& queue, const Plan& plan, L& ledger, ActiveRequests& active,
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
      const int most = std::min(left, queue.most_guesses(s));
      if (most > 0) offer(policy, i, s, active.output(slice.seq), most, settings);
    }
    if (offers_.empty()) return 0;
    const bool has_others = offers_.size() < plan.slices.size();
    const bool reads_texts = plan.rows > static_cast<int>(plan.slices.size());
    choose_guesses(offers_, {plan.rows, picking, left, has_others, reads_texts, settings.gain}, cost_);
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < offers_.size(); ++i) {
      if (offers_[i].taken == 0) continue;
      GuessRecord& record = active.output(plan.slices[slices_[i]].seq).guesses();
      const int taken =
          queue.guess(slices_[i], record.offered().first(static_cast<std::size_t>(offers_[i].taken)), ledger);
      record.take(static_cast<std::size_t>(taken));
      count += static_cast<std::uint64_t>(taken);
    }
    return count;
  }

  /// Shows the policy texts that have ended. Its exceptions are ignored: a policy that forgets a text changes no
  /// answer.
  template <LearnsTexts P, class EndedTexts>
  static void learn(P& policy, const EndedTexts& texts) {
    for (const auto& ended : texts)
      detail::attempt([&] { policy.learn({ended.tokens, ended.prompt_tokens, ended.group, ended.cache_salt}); });
  }

 private:
  // Offers guesses of the first source that has any.
  template <DraftPolicy P>
  void offer(P& policy, std::size_t slice, const Sequence& s, SequenceOutput& output, int most,
             const DraftSettings& settings) {
    GuessRecord& record = output.guesses();
    if (record.stopped()) return;
    const std::span<const TokenId> text = s.tokens;
    const auto prompt = static_cast<std::size_t>(s.prompt_tokens);
    const auto fill = [&](GuessSource source, int tokens, auto&& guess) {
      guesses_.clear();
      DraftWriter out(guesses_, std::min(tokens, most), settings.vocab);
      if (detail::attempt([&] { guess(out); })) {  // after something throws, the text gets no more guesses
        guesses_.clear();
        record.stop();
      }
      record.offer(guesses_, source);
      return !guesses_.empty() || record.stopped();
    };
    const bool any =
        (!record.prediction().empty() &&
         fill(GuessSource::prediction, kMostPredicted,
              [&](DraftWriter& out) { guess_predicted(text.subspan(prompt), record.prediction(), out); })) ||
        (output.constraint() &&
         fill(GuessSource::constraint, settings.tokens, [&](DraftWriter& out) { output.constraint()->guess(out); })) ||
        (s.generated() > 0 && fill(GuessSource::policy, settings.tokens, [&](DraftWriter& out) {
           policy.draft({text, s.prompt_tokens, record.group(), record.cache_salt()}, out);
         }));
    if (!any || guesses_.empty()) return;
    slices_.push_back(slice);
    offers_.push_back({record.chance(), static_cast<int>(guesses_.size())});
  }

  static constexpr int kMostPredicted = std::numeric_limits<int>::max();  // the rows that are left bound it

  RowCost cost_;
  std::vector<std::size_t> slices_;  // [offers] of the plan
  std::vector<DraftOffer> offers_;
  std::vector<TokenId> guesses_;  // for one sequence
};

}  // namespace tenon
