// Encodes several texts as one rectangle of tokens, for models that take padded batches. tenon's engine needs no
// padding.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

/// The side on which shorter rows are padded.
enum class Padding { none, left, right };
/// The side on which tokens are dropped from a row that is too long.
enum class TruncationSide { right, left };

/// Options of encode_batch.
struct BatchOptions {
  Padding padding = Padding::right;                 ///< none: all rows must have the same length
  std::optional<TokenId> pad = {};                  ///< default: the tokenizer's pad token, otherwise its end of text
  std::optional<int> max_length = {};               ///< tokens per row, at least 1; default: no truncation
  TruncationSide truncate = TruncationSide::right;  ///< side where tokens are dropped
  /// Position of every pad. generate() of transformers uses 1. Default: as in Encoding::position_ids.
  std::optional<int> pad_position = {};
};

/// A padded batch. Arrays are row-major, [rows, cols]. cols is the length of the longest row.
struct Encoding {
  int rows = 0, cols = 0;                    ///< texts, and tokens per row
  std::vector<TokenId> ids;                  ///< token ids; the pad token where attention_mask is 0
  std::vector<std::uint8_t> attention_mask;  ///< 1: token, 0: padding
  std::vector<int> position_ids;             ///< number of tokens up to here, less 1, at least 0; or pad_position
};

/// Encodes each text with Tokenizer::encode, without special tokens, and pads the rows. As in transformers, positions
/// count from the first token of a row, wherever it is.
/// Error invalid_request if a text is not UTF-8 or max_length is below 1. Also where rows of different lengths have
/// no padding or no token to pad with.
Encoding encode_batch(const Tokenizer& tokenizer, std::span<const std::string> texts, const BatchOptions& options = {});

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/tokenizer/padding-inl.h"
#endif
