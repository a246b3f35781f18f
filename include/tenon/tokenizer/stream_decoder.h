// Tokens to text one at a time, never half a character.
#pragma once
#include <string>

#include "tenon/core/views.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon {

// All that push and finish return, joined, is sanitize_utf8 of the bytes of all tokens, however they were cut: for a
// byte-level tokenizer sanitize_utf8(tokenizer.decode(all ids)). A space at the start stays, because what a model
// writes goes on behind its prompt. One stream each; the tokenizer must stay where it is while the decoder lives.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  explicit StreamDecoder(Tokenizer&&) = delete;

  // Text that is certain now: valid UTF-8, empty while a character is incomplete. Errors as Tokenizer::bytes.
  std::string push(TokenId id) {
    pending_ += tokenizer_->bytes(id);
    std::string text;
    pending_.erase(0, append_utf8(text, pending_));
    return text;
  }

  // The end of the stream: U+FFFD where a character was left incomplete. The decoder may then be used anew.
  std::string finish() {
    std::string text = sanitize_utf8(pending_);
    pending_.clear();
    return text;
  }

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;  // at most 3 bytes between calls
};

}  // namespace tenon
