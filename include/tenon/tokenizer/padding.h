// Several texts as one rectangle of tokens, for models that take padded batches. (Our own engine needs none.)
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

enum class Padding { none, left, right };
enum class TruncationSide { right, left };  // where tokens are dropped

struct BatchOptions {
  Padding padding = Padding::right;
  std::optional<TokenId> pad = {};     // default: the tokenizer's pad token, else its end of text
  std::optional<int> max_length = {};  // tokens a row, at least 1; default: no truncation
  TruncationSide truncate = TruncationSide::right;
  // Position of every pad, as generate() of transformers numbers them: 1. Default: see Encoding.
  std::optional<int> pad_position = {};
};

// Row-major, [rows, cols] each; cols is the length of the longest row.
struct Encoding {
  int rows = 0, cols = 0;
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> attention_mask;  // 1: a token, 0: padding
  std::vector<int> position_ids;             // the sum of the mask up to here, less 1, and at least 0; or pad_position
};

// Texts are encoded as they stand, with no special tokens around them (Tokenizer::encode).
// The convention of transformers: positions count from the first token of a row, wherever that stands.
// Errors: invalid_request (text that is not UTF-8, max_length below 1, rows of several lengths without padding or
// without a token to pad with).
Encoding encode_batch(const Tokenizer& tokenizer, std::span<const std::string> texts, const BatchOptions& options = {});

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/tokenizer/padding-inl.h"
#endif
