#pragma once
#include "tenon/core/require.h"
#include "tenon/tokenizer/stream_decoder.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon {

TENON_INLINE std::string StreamDecoder::push(TokenId id) {
  pending_ += tokenizer_->bytes(id);
  std::string text;
  pending_.erase(0, append_utf8(text, pending_));
  return text;
}

TENON_INLINE std::string StreamDecoder::finish() {
  std::string text = sanitize_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace tenon
