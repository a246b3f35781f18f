#pragma once
#include <algorithm>
#include <limits>

#include "tenon/core/require.h"
#include "tenon/draft/predicted_text.h"
#include "tenon/engine/drafter.h"
#include "tenon/engine/failure.h"

namespace tenon {

TENON_INLINE void Drafter::measure(const Plan& plan, int guessed, double seconds) {
  const auto sequences = static_cast<int>(plan.slices.size());
  if (plan.rows == sequences + guessed) cost_.measure(sequences, guessed, seconds);  // else it read a text
}

TENON_INLINE std::uint64_t Drafter::extend(const Guesser& guess, SequenceQueue& queue, const Plan& plan,
                                           LedgerRef ledger, ActiveRequests& active, const DraftSettings& settings) {
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
    if (most > 0) offer(guess, i, s, active.output(slice.seq), most, settings);
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

TENON_INLINE void Drafter::offer(const Guesser& guess, std::size_t slice, const Sequence& s, SequenceOutput& output,
                                 int most, const DraftSettings& settings) {
  GuessRecord& record = output.guesses();
  if (record.stopped()) return;
  const std::span<const TokenId> text = s.tokens;
  const auto prompt = static_cast<std::size_t>(s.prompt_tokens);
  constexpr int kMostPredicted = std::numeric_limits<int>::max();  // the rows that are left bound it
  const auto fill = [&](GuessSource source, int tokens, auto&& of_source) {
    guesses_.clear();
    DraftWriter out(guesses_, std::min(tokens, most), settings.vocab);
    if (detail::attempt([&] { of_source(out); })) {  // after something throws, the text gets no more guesses
      guesses_.clear();
      record.stop();
    }
    record.offer(guesses_, source);
    return !guesses_.empty() || record.stopped();
  };
  const bool any = (!record.prediction().empty() &&
                    fill(GuessSource::prediction, kMostPredicted,
                         [&](DraftWriter& out) { guess_predicted(text.subspan(prompt), record.prediction(), out); })) ||
                   (output.constraint() && fill(GuessSource::constraint, settings.tokens,
                                                [&](DraftWriter& out) { output.constraint()->guess(out); })) ||
                   (s.generated() > 0 && fill(GuessSource::policy, settings.tokens, [&](DraftWriter& out) {
                      guess({text, s.prompt_tokens, record.group(), record.cache_salt()}, out);
                    }));
  if (!any || guesses_.empty()) return;
  slices_.push_back(slice);
  offers_.push_back({record.chance(), static_cast<int>(guesses_.size())});
}

}  // namespace tenon
