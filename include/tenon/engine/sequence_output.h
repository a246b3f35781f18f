// What belongs to one answer of a request beside its tokens: its text so far, and what was asked of its prompt.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/constraint.h"
#include "tenon/core/hash.h"
#include "tenon/core/request.h"
#include "tenon/engine/stop_matcher.h"

namespace tenon {

class SequenceOutput {
 public:
  SequenceOutput(RequestId request, int choice, Options options, const Tokenizer* tokenizer,
                 const Constraint* constraint = nullptr, AnyLogitsProcessor processor = {});

  RequestId request() const { return request_; }
  int choice() const { return choice_; }
  const Options& options() const { return options_; }
  OutputText& text() { return text_; }
  const AnyLogitsProcessor& processor() const { return processor_; }
  ConstraintState* constraint() const { return constraint_.get(); }  // null: any tokens
  const std::string& failure() const { return failure_; }

  // A step takes it up; the first counts.
  void begin(TimePoint now);

  // Whether the logits behind a prompt position are asked for, to be shown or to score the next token, and not yet
  // taken.
  bool wants_logits(int position, int prompt_tokens) const;

  // prompt: the request's prompt; logits: [vocab], behind `position` of it. A position that is computed again after
  // preemption counts once. Logits that are not finite fail the request.
  void score(int position, std::span<const TokenId> prompt, std::span<const float> logits);

  // What a token that was picked adds to the answer, and why it is the last, where it is.
  struct Written {
    std::string text;
    std::optional<FinishReason> reason;
  };
  // full: there is no room for another token. Throws what the constraint says of the token.
  Written write(TokenId token, const std::vector<TokenId>& eos, bool full);

  // row_hash: of the raw logits that a new token was drawn from, if options().logits_hash.
  void add_to_hash(std::uint64_t row_hash) { logits_hash_ = mix64(logits_hash_ ^ row_hash); }

  Event finished(FinishReason reason, std::string text = {});

 private:
  static bool holds(const std::vector<TokenId>& ids, TokenId token);

  bool scores_tokens() const { return options_.nll || options_.prompt_logprobs >= 0; }

  // logits: [vocab], that the prompt's next token has been asked of.
  void score_token(TokenId token, std::span<const float> logits);

  RequestId request_;
  int choice_;
  Options options_;
  OutputText text_;
  std::unique_ptr<ConstraintState> constraint_;
  AnyLogitsProcessor processor_;
  std::shared_ptr<Scores> scores_;  // null: nothing was asked
  std::size_t logits_taken_ = 0;    // of options_.logits_at
  int scored_ = 0;                  // prompt tokens that are scored
  double nll_sum_ = 0;
  std::uint64_t logits_hash_ = 0;
  std::string failure_;
  TimePoint started_{};
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/sequence_output-inl.h"
#endif
