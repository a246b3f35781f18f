// What belongs to one answer of a request beside its tokens: its text so far, and what was asked of its prompt.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/constraint.h"
#include "tenon/core/hash.h"
#include "tenon/core/request.h"
#include "tenon/engine/answer.h"
#include "tenon/sample/logprobs.h"
#include "tenon/sample/strips.h"

namespace tenon {

class Stream {
 public:
  Stream(RequestId request, int choice, Options options, const Tokenizer* tokenizer,
         const Constraint* constraint = nullptr)
      : request_(request),
        choice_(choice),
        options_(std::move(options)),
        text_(tokenizer, options_.stop, options_.include_stop, options_.skip_special_tokens),
        constraint_(constraint ? constraint->start() : nullptr) {
    std::sort(options_.logits_at.begin(), options_.logits_at.end());
    options_.logits_at.erase(std::unique(options_.logits_at.begin(), options_.logits_at.end()),
                             options_.logits_at.end());
    if (!options_.logits_at.empty() || scores_tokens()) scores_ = std::make_shared<Scores>();
  }

  RequestId request() const { return request_; }
  int choice() const { return choice_; }
  const Options& options() const { return options_; }
  AnswerText& text() { return text_; }
  ConstraintState* constraint() const { return constraint_.get(); }  // null: any tokens
  const std::string& failure() const { return failure_; }

  // A step takes it up; the first counts.
  void begin(TimePoint now) {
    if (started_ == TimePoint{}) started_ = now;
  }

  // Whether the logits behind a prompt position are asked for, to be shown or to score the next token, and not yet
  // taken.
  bool wants_logits(int position, int prompt_tokens) const {
    if (!scores_) return false;
    const auto& at = options_.logits_at;
    const auto next = at.begin() + static_cast<std::ptrdiff_t>(logits_taken_);
    return (scores_tokens() && position >= scored_ && position + 1 < prompt_tokens) ||
           std::binary_search(next, at.end(), position);
  }

  // prompt: the request's prompt; logits: [vocab], behind `position` of it. A position that is computed again after
  // preemption counts once. Logits that are not finite fail the request.
  void score(int position, std::span<const TokenId> prompt, std::span<const float> logits) {
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

  // What a token that was picked adds to the answer, and why it is the last, where it is.
  struct Written {
    std::string text;
    std::optional<FinishReason> reason;
  };
  // full: there is no room for another token. Throws what the constraint says of the token.
  Written write(TokenId token, const std::vector<TokenId>& eos, bool full) {
    // Under a constraint the end of text comes only where it may, and with ignore_eos only where nothing else may.
    const bool ends = holds(options_.stop_ids, token) || ((!options_.ignore_eos || constraint_) && holds(eos, token));
    if (constraint_ && !ends) constraint_->advance(token);
    const bool complete = constraint_ && !ends && constraint_->must_end();
    Written written{ends ? std::string() : text_.push(token), {}};
    if (ends || complete || text_.stopped())
      written.reason = FinishReason::stop;
    else if (full)
      written.reason = FinishReason::length;
    if (written.reason) written.text += text_.finish();
    if (text_.stopped()) written.reason = FinishReason::stop;
    return written;
  }

  // row_hash: of the raw logits that a new token was drawn from, if options().logits_hash.
  void add_to_hash(std::uint64_t row_hash) { logits_hash_ = mix64(logits_hash_ ^ row_hash); }

  Event finished(FinishReason reason, std::string text = {}) {
    if (options_.nll && scored_ > 0) scores_->nll_mean = nll_sum_ / scored_;
    Event event{.kind = Event::Kind::finished,
                .request = request_,
                .choice = choice_,
                .text = std::move(text),
                .reason = reason,
                .scores = scores_,
                .started = started_};
    if (options_.logits_hash) event.logits_hash = logits_hash_;
    return event;
  }

 private:
  static bool holds(const std::vector<TokenId>& ids, TokenId token) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  }

  bool scores_tokens() const { return options_.nll || options_.prompt_logprobs >= 0; }

  // logits: [vocab], that the prompt's next token has been asked of.
  void score_token(TokenId token, std::span<const float> logits) {
    const double log_total = log_sum_exp(logits), logprob = log_softmax_at(logits, token, log_total);
    nll_sum_ -= logprob;
    if (options_.prompt_logprobs < 0) return;
    const float own = logits[static_cast<std::size_t>(token)];
    const auto likelier = std::count_if(logits.begin(), logits.end(), [own](float each) { return each > own; });
    scores_->prompt.push_back({{token, static_cast<float>(logprob)},
                               top_logprobs(logits, options_.prompt_logprobs, log_total),
                               1 + static_cast<int>(likelier)});
  }

  RequestId request_;
  int choice_;
  Options options_;
  AnswerText text_;
  std::unique_ptr<ConstraintState> constraint_;
  std::shared_ptr<Scores> scores_;  // null: nothing was asked
  std::size_t logits_taken_ = 0;    // of options_.logits_at
  int scored_ = 0;                  // prompt tokens that are scored
  double nll_sum_ = 0;
  std::uint64_t logits_hash_ = 0;
  std::string failure_;
  TimePoint started_{};
};

}  // namespace tenon
