// Tokens to text one at a time, never half a character.
#pragma once
#include <string>

#include "tenon/core/views.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

// All that push and finish return, joined, is sanitize_utf8 of the bytes of all tokens, however they were cut: for a
// byte-level tokenizer sanitize_utf8(tokenizer.decode(all ids)). A space at the start stays, because what a model
// writes goes on behind its prompt. One stream each; the tokenizer must stay where it is while the decoder lives.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  explicit StreamDecoder(Tokenizer&&) = delete;

  // Text that is certain now: valid UTF-8, empty while a character is incomplete. Errors as Tokenizer::bytes.
  std::string push(TokenId id);

  // The end of the stream: U+FFFD where a character was left incomplete. The decoder may then be used anew.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;  // at most 3 bytes between calls
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/tokenizer/stream_decoder-inl.h"
#endif
