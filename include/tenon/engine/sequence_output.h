// The output of one sequence: its text so far, its constraint, the scores of its prompt, its logits_hash and receipt.
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
#include "tenon/engine/guess_record.h"
#include "tenon/engine/progress.h"
#include "tenon/engine/receipt.h"
#include "tenon/engine/row_pool.h"
#include "tenon/engine/stop_matcher.h"

namespace tenon {

/// The output state of a sequence. The queue stores its tokens.
class SequenceOutput {
 public:
  /// receipt: PreparedRequest::receipt.
  SequenceOutput(RequestId request, int choice, Options options, const Tokenizer* tokenizer,
                 const Constraint* constraint = nullptr, AnyLogitsProcessor processor = {}, RowPool pool = {},
                 GuessRecord guesses = {}, const Receipt* receipt = nullptr);

  RequestId request() const { return request_; }
  int choice() const { return choice_; }
  const Options& options() const { return options_; }
  OutputText& text() { return text_; }
  const AnyLogitsProcessor& processor() const { return processor_; }
  ConstraintState* constraint() const { return constraint_.get(); }  ///< null: any tokens
  GuessRecord& guesses() { return guesses_; }
  const GuessRecord& guesses() const { return guesses_; }
  RowPool& pool() { return pool_; }
  const RowPool& pool() const { return pool_; }
  /// Why scores or rows of the prompt are of no use: a value was not finite. Empty: no failure.
  const std::string& failure() const { return pool_.failure().empty() ? failure_ : pool_.failure(); }

  /// Records `now` as the start of the sequence's first step. Later calls change nothing.
  void begin(TimePoint now);

  /// Whether score() still needs the logits after `position` of the prompt: for Options::logits_at, or for the
  /// log-probability of the next prompt token.
  bool wants_logits(int position, int prompt_tokens) const;

  /// Takes the logits, [vocab], after `position` of the prompt, where wants_logits(). A position that is computed again
  /// after a preemption counts once. Logits that are not finite set failure().
  void score(int position, std::span<const TokenId> prompt, std::span<const float> logits);

  /// The result of write(): the text that the token adds, and a finish reason if it is the last token.
  struct Written {
    std::string text;
    std::optional<FinishReason> reason;
  };
  /// Adds a picked token. full: max_new_tokens is reached. Throws what the constraint throws.
  Written write(TokenId token, const std::vector<TokenId>& eos, bool full);

  /// Takes what another engine has computed of this sequence. Call it before replay() of the first token. scores: of
  /// the prompt, if the sequence has ended and the request asks for them.
  void begin_replay(const ChoiceProgress& begun, const std::shared_ptr<const Scores>& scores);
  /// As write(), for the next token of begin_replay(). remaining: new tokens before max_new_tokens is reached, this one
  /// included. Error invalid_request if the constraint does not allow the token.
  Written replay(TokenId token, const std::vector<TokenId>& eos, int remaining);

  /// The tokens so far and what belongs to them, for another engine.
  ChoiceProgress progress() const;

  /// Adds the log-probabilities of the token that was written last.
  void add_logprobs(float logprob, const std::vector<TokenLogprob>& top);

  /// row_hash: hash64 of the raw logits that a new token was drawn from, if options().logits_hash.
  void add_to_hash(std::uint64_t row_hash) { so_far_.logits_hash = mix64(so_far_.logits_hash ^ row_hash); }

  /// row: SHA-256 of the raw logits that `token` was picked from, if options().receipt.
  void add_to_receipt(TokenId token, const Sha256::Digest& row) {
    if (receipt_) receipt_->add(token, row);
  }

  /// The scores of the prompt for the event of the first token that is picked here, if options().prompt_logprobs asks
  /// for them. Null for later tokens.
  std::shared_ptr<const Scores> first_scores();

  /// The event that ends the sequence.
  Event finished(FinishReason reason, std::string text = {});

 private:
  static bool holds(const std::vector<TokenId>& ids, TokenId token);

  bool scores_tokens() const { return options_.nll || options_.prompt_logprobs >= 0; }

  void end_scores();  // nothing writes scores_ after it: another thread may read them

  // Scores a prompt token by the logits, [vocab], before it.
  void score_token(TokenId token, std::span<const float> logits);

  RequestId request_;
  int choice_;
  Options options_;
  OutputText text_;
  std::unique_ptr<ConstraintState> constraint_;
  AnyLogitsProcessor processor_;
  RowPool pool_;
  GuessRecord guesses_;
  std::shared_ptr<Scores> scores_;  // null: the request asks for none
  std::size_t logits_taken_ = 0;    // of options_.logits_at
  int scored_ = 0;                  // prompt tokens that are scored
  double nll_sum_ = 0;
  bool scores_ended_ = false;
  std::optional<detail::ReceiptWriter> receipt_;  // empty: none is asked for
  ChoiceProgress so_far_;                         // without its chain, which receipt_ has
  std::string failure_;
  TimePoint started_{};
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/sequence_output-inl.h"
#endif
