#pragma once
#include <algorithm>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/engine/sequence_output.h"
#include "tenon/sample/logprobs.h"
#include "tenon/sample/strips.h"

namespace tenon {

TENON_INLINE SequenceOutput::SequenceOutput(RequestId request, int choice, Options options, const Tokenizer* tokenizer,
                                            const Constraint* constraint, AnyLogitsProcessor processor, RowPool pool,
                                            GuessRecord guesses, const Receipt* receipt)
    : request_(request),
      choice_(choice),
      options_(std::move(options)),
      text_(tokenizer, options_.stop, options_.include_stop, options_.skip_special_tokens),
      constraint_(constraint ? constraint->start() : nullptr),
      processor_(std::move(processor)),
      pool_(std::move(pool)),
      guesses_(std::move(guesses)) {
  std::sort(options_.logits_at.begin(), options_.logits_at.end());
  options_.logits_at.erase(std::unique(options_.logits_at.begin(), options_.logits_at.end()), options_.logits_at.end());
  if (receipt) {
    Receipt begun = *receipt;
    begun.options = detail::deciding(options_);
    receipt_.emplace(std::move(begun));
  }
  if (!options_.logits_at.empty() || scores_tokens() || pool_.pools()) scores_ = std::make_shared<Scores>();
}

TENON_INLINE void SequenceOutput::begin(TimePoint now) {
  if (started_ == TimePoint{}) started_ = now;
}

TENON_INLINE bool SequenceOutput::wants_logits(int position, int prompt_tokens) const {
  if (!scores_) return false;
  const auto& at = options_.logits_at;
  const auto next = at.begin() + static_cast<std::ptrdiff_t>(logits_taken_);
  return (scores_tokens() && position >= scored_ && position + 1 < prompt_tokens) ||
         std::binary_search(next, at.end(), position);
}

TENON_INLINE void SequenceOutput::score(int position, std::span<const TokenId> prompt, std::span<const float> logits) {
  if (!scores_ || !failure_.empty()) return;
  if (!all_finite(logits)) {
    failure_ = "logits: not finite behind position " + std::to_string(position);
    return;
  }
  const auto& at = options_.logits_at;
  if (logits_taken_ < at.size() && at[logits_taken_] == position) {
    scores_->logits.emplace_back(position, std::vector<float>(logits.begin(), logits.end()));
    ++logits_taken_;
  }
  if (scores_tokens() && position == scored_ && static_cast<std::size_t>(position) + 1 < prompt.size()) {
    score_token(prompt[static_cast<std::size_t>(position) + 1], logits);
    ++scored_;
  }
}

TENON_INLINE SequenceOutput::Written SequenceOutput::write(TokenId token, const std::vector<TokenId>& eos, bool full) {
  // Under a constraint the end of text comes only where it may, and with ignore_eos only where nothing else may.
  so_far_.ids.push_back(token);
  const bool ends = holds(options_.stop_ids, token) || ((!options_.ignore_eos || constraint_) && holds(eos, token));
  if (constraint_ && !ends) constraint_->advance(token);
  // As in vLLM: stop strings are not looked for in the first min_new_tokens tokens.
  const bool may_stop = so_far_.ids.size() > static_cast<std::size_t>(options_.min_new_tokens);
  const bool complete = constraint_ && !ends && constraint_->must_end();
  Written written{ends ? std::string() : text_.push(token, may_stop), {}};
  if (ends || complete || text_.stopped())
    written.reason = FinishReason::stop;
  else if (full)
    written.reason = FinishReason::length;
  if (written.reason) written.text += text_.finish();
  if (text_.stopped()) written.reason = FinishReason::stop;
  return written;
}

TENON_INLINE void SequenceOutput::begin_replay(const ChoiceProgress& begun,
                                               const std::shared_ptr<const Scores>& scores) {
  so_far_.logits_hash = begun.logits_hash;
  if (receipt_)
    for (std::size_t i = 0; i < begun.ids.size(); ++i) receipt_->add_link(begun.ids[i], begun.chain[i]);
  if (scores_ && scores) scores_ = std::make_shared<Scores>(*scores);
}

// mask_within() comes before each token, as where the token was picked: must_end() depends on it.
TENON_INLINE SequenceOutput::Written SequenceOutput::replay(TokenId token, const std::vector<TokenId>& eos,
                                                            int remaining) {
  if (constraint_) {
    const auto mask = options_.finish_within_budget ? constraint_->mask_within(remaining) : constraint_->mask();
    const auto word = static_cast<std::size_t>(token) / 32;
    detail::require(word < mask.size() && (mask[word] >> (token % 32) & 1u) != 0, "begun",
                    "has a token that the constraint does not allow");
  }
  return write(token, eos, remaining == 1);
}

TENON_INLINE ChoiceProgress SequenceOutput::progress() const {
  ChoiceProgress progress = so_far_;
  if (receipt_) progress.chain = receipt_->chain();
  return progress;
}

TENON_INLINE void SequenceOutput::add_logprobs(float logprob, const std::vector<TokenLogprob>& top) {
  if (options_.top_logprobs < 0) return;
  so_far_.logprobs.push_back(logprob);
  so_far_.top_logprobs.push_back(top);
}

TENON_INLINE std::shared_ptr<const Scores> SequenceOutput::first_scores() {
  if (options_.prompt_logprobs < 0 || scores_ended_) return nullptr;
  end_scores();
  return scores_;
}

TENON_INLINE void SequenceOutput::end_scores() {
  if (std::exchange(scores_ended_, true)) return;
  if (pool_.pools()) pool_.store(*scores_);
  if (options_.nll && scored_ > 0) scores_->nll_mean = nll_sum_ / scored_;
}

TENON_INLINE Event SequenceOutput::finished(FinishReason reason, std::string text) {
  end_scores();
  Event event{.kind = Event::Kind::finished,
              .request = request_,
              .choice = choice_,
              .text = std::move(text),
              .reason = reason,
              .scores = scores_,
              .guesses = guesses_.counts(),
              .started = started_};
  if (options_.logits_hash) event.logits_hash = so_far_.logits_hash;
  if (receipt_) event.receipt = receipt_->finished(reason);
  return event;
}

TENON_INLINE bool SequenceOutput::holds(const std::vector<TokenId>& ids, TokenId token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

TENON_INLINE void SequenceOutput::score_token(TokenId token, std::span<const float> logits) {
  const double log_total = log_sum_exp(logits), logprob = log_softmax_at(logits, token, log_total);
  nll_sum_ -= logprob;
  if (options_.prompt_logprobs < 0) return;
  const float own = logits[static_cast<std::size_t>(token)];
  const auto likelier = std::count_if(logits.begin(), logits.end(), [own](float each) { return each > own; });
  scores_->prompt.push_back({{token, static_cast<float>(logprob)},
                             top_logprobs(logits, options_.prompt_logprobs, log_total),
                             1 + static_cast<int>(likelier)});
}

}  // namespace tenon
