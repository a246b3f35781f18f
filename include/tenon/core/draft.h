/// The draft's side of a step: the text whose next tokens are guessed, and the only way to guess. A guess is verified,
/// so it changes how many tokens a step gives and never which ones.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

/// A text that is about to get its next token. Valid during the call.
struct DraftState {
  std::span<const TokenId> text;  ///< the prompt and the answer so far, at least one token
  int prompt_tokens = 0;          ///< of these, tokens of the prompt
  /// Texts of one group belong to the same client and have the same Options::cache_salt. A policy may guess a text only
  /// from others of its group, because the number of accepted guesses reveals their content. Empty: the text stands
  /// alone.
  std::string_view group = {};
  /// Options::cache_salt. A policy that runs another engine gives it on, so that texts share no prefixes there, either.
  std::string_view cache_salt = {};
};

/// Collects the tokens that may follow a text, in their order.
class DraftWriter {
 public:
  /// out: guesses are appended to it. most: limit on guesses. vocab: number of tokens of the model.
  DraftWriter(std::vector<TokenId>& out, int most, int vocab) : out_(out), left_(most), vocab_(vocab) {}

  /// How many more tokens may be guessed.
  int room() const { return left_; }

  /// Guesses the token after those that were added before. Returns false if no room is left or the model has no such
  /// token; later calls then add nothing.
  bool add(TokenId token) {
    if (token < 0 || token >= vocab_) left_ = 0;
    if (left_ <= 0) return false;
    out_.push_back(token);
    --left_;
    return true;
  }

 private:
  std::vector<TokenId>& out_;
  int left_, vocab_;
};

}  // namespace tenon
