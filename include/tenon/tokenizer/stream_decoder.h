// Decodes tokens to text one at a time, without splitting characters.
#pragma once
#include <string>

#include "tenon/core/views.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

/// Decodes the tokens of one stream. The concatenation of all results of push and finish is sanitize_utf8 of the bytes
/// of all tokens. For a byte-level tokenizer that is sanitize_utf8(tokenizer.decode(ids)). A leading space is kept,
/// because generated text continues a prompt. The tokenizer must outlive the decoder and must not move.
class StreamDecoder {
 public:
  /// `tokenizer` is referenced, not copied.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  explicit StreamDecoder(Tokenizer&&) = delete;

  /// Text that is final after this token: valid UTF-8, empty while a character is incomplete. Errors as
  /// Tokenizer::bytes.
  std::string push(TokenId id);

  /// Ends the stream: returns U+FFFD for an incomplete character, otherwise "". The decoder can then start a new
  /// stream.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;  // at most 3 bytes between calls
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/tokenizer/stream_decoder-inl.h"
#endif
