#pragma once
#include <algorithm>
#include <cstddef>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/tokenizer/padding.h"

namespace tenon::detail {

TENON_INLINE std::vector<std::vector<TokenId>> encode_truncated(const Tokenizer& tokenizer,
                                                                std::span<const std::string> texts,
                                                                const BatchOptions& options) {
  if (options.max_length && *options.max_length < 1)
    throw Error(Error::Kind::invalid_request, "max_length",
                "must be at least 1, is " + std::to_string(*options.max_length));
  std::vector<std::vector<TokenId>> rows;
  rows.reserve(texts.size());
  for (const std::string& text : texts) {
    auto& row = rows.emplace_back(tokenizer.encode(text));
    const auto limit = options.max_length ? static_cast<std::size_t>(*options.max_length) : row.size();
    if (row.size() <= limit) continue;
    if (options.truncate == TruncationSide::left)
      row.erase(row.begin(), row.end() - *options.max_length);
    else
      row.resize(limit);
  }
  return rows;
}

TENON_INLINE TokenId padding_token(const Tokenizer& tokenizer, const BatchOptions& options) {
  if (options.padding == Padding::none)
    throw Error(Error::Kind::invalid_request, "padding", "the texts differ in length, and padding is none");
  const auto pad = options.pad ? options.pad : tokenizer.pad() ? tokenizer.pad() : tokenizer.end_of_text();
  if (!pad) throw Error(Error::Kind::invalid_request, "pad", "the tokenizer has no pad token; name one");
  tokenizer.bytes(*pad);  // error where the id is outside the vocabulary
  return *pad;
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE Encoding encode_batch(const Tokenizer& tokenizer, std::span<const std::string> texts,
                                   const BatchOptions& options) {
  const auto rows = detail::encode_truncated(tokenizer, texts, options);
  std::size_t cols = 0;
  bool ragged = false;
  for (const auto& row : rows) {
    ragged = ragged || row.size() != rows.front().size();
    cols = std::max(cols, row.size());
  }
  const TokenId pad = ragged ? detail::padding_token(tokenizer, options) : 0;

  Encoding out{static_cast<int>(rows.size()), static_cast<int>(cols), {}, {}, {}};
  out.ids.reserve(rows.size() * cols);
  out.attention_mask.reserve(rows.size() * cols);
  out.position_ids.reserve(rows.size() * cols);
  for (const auto& row : rows) {
    const std::size_t first = options.padding == Padding::left ? cols - row.size() : 0;
    int position = -1;
    for (std::size_t col = 0; col < cols; ++col) {
      const bool token = col >= first && col - first < row.size();
      position += token ? 1 : 0;
      out.ids.push_back(token ? row[col - first] : pad);
      out.attention_mask.push_back(token ? 1 : 0);
      out.position_ids.push_back(token ? position : options.pad_position.value_or(std::max(position, 0)));
    }
  }
  return out;
}

}  // namespace tenon
