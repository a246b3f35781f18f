#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/encoder.h"
#include "tenon/tokenizer/gguf_tokenizer.h"
#include "tenon/tokenizer/load.h"
#include "tenon/tokenizer/unicode.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon {

TENON_INLINE Tokenizer::Tokenizer(detail::TokenizerTables&& vocabulary)
    : vocabulary_(std::make_shared<const detail::TokenizerTables>(std::move(vocabulary))) {}

TENON_INLINE Tokenizer Tokenizer::load(const std::filesystem::path& folder, std::optional<int> vocab_size) {
  return Tokenizer(detail::load_vocabulary(folder, vocab_size));
}

TENON_INLINE Tokenizer Tokenizer::from_gguf(const Fields& metadata, std::optional<int> vocab_size) {
  return Tokenizer(detail::read_gguf_tokenizer(metadata, vocab_size));
}

TENON_INLINE std::vector<TokenId> Tokenizer::encode(std::string_view text, bool parse_special) const {
  std::vector<TokenId> ids;
  append(text, parse_special, ids);
  return ids;
}

TENON_INLINE std::vector<TokenId> Tokenizer::encode_prompt(std::string_view text, bool parse_special) const {
  const detail::Pipeline& pipeline = vocabulary_->pipeline;
  std::vector<TokenId> ids = pipeline.before;
  append(text, parse_special, ids);
  ids.insert(ids.end(), pipeline.after.begin(), pipeline.after.end());
  return ids;
}

TENON_INLINE std::vector<TokenId> Tokenizer::encode_rendered(std::string_view text,
                                                             std::span<const TextSpan> template_spans) const {
  check_text(text);
  std::string mask(text.size(), '\0');
  std::size_t done = 0;
  for (const TextSpan& span : template_spans) {
    if (span.begin < done || span.end < span.begin || span.end > text.size())
      throw Error(Error::Kind::invalid_request, "template_spans",
                  "must be in order and inside the text of " + std::to_string(text.size()) + " bytes");
    std::fill(mask.begin() + static_cast<std::ptrdiff_t>(span.begin),
              mask.begin() + static_cast<std::ptrdiff_t>(span.end), '\1');
    done = span.end;
  }
  std::vector<TokenId> ids;
  detail::Encoder(*vocabulary_, ids).encode(text, detail::SpecialSpellings::where(mask));
  return ids;
}

TENON_INLINE std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  using Start = detail::Pipeline::Start;
  const Start start = vocabulary_->pipeline.start;
  std::string out;
  bool first = true;
  for (const TokenId id : ids) {
    out += bytes(id);
    if (first && start == Start::drop_spaces_of_token) std::erase(out, ' ');
    first = first && bytes(id).empty();
  }
  if (start == Start::drop_space && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

TENON_INLINE std::string_view Tokenizer::bytes(TokenId id) const {
  if (id < 0 || id >= vocabulary_->size)
    throw Error(Error::Kind::invalid_request, "token id",
                std::to_string(id) + " is not in [0, " + std::to_string(vocabulary_->size) + ")");
  const std::uint32_t* begin = &vocabulary_->begin[static_cast<std::size_t>(id)];
  return std::string_view(vocabulary_->text).substr(begin[0], begin[1] - begin[0]);
}

TENON_INLINE std::optional<std::size_t> Tokenizer::most_bytes_a_token() const noexcept {
  const detail::Pipeline& pipeline = vocabulary_->pipeline;
  const bool drops = pipeline.added.strips() || pipeline.pre_tokenizer.drops() || vocabulary_->has_holes();
  if (family() != TokenizerFamily::byte_level || !pipeline.normalizer.empty() || drops) return std::nullopt;
  return vocabulary_->longest_token;
}

TENON_INLINE std::string_view Tokenizer::description() const noexcept {
  if (vocabulary_->unigram || (vocabulary_->sentencepiece && vocabulary_->sentencepiece->unigram()))
    return "SentencePiece unigram";
  if (family() == TokenizerFamily::sentencepiece) return "SentencePiece BPE";
  const auto pattern = vocabulary_->pipeline.pre_tokenizer.pattern();
  if (!pattern) return "byte-level BPE (own pattern)";
  switch (*pattern) {
    case Pattern::starcoder:
      return "byte-level BPE (StarCoder)";
    case Pattern::llama3:
      return "byte-level BPE (Llama 3)";
    case Pattern::qwen2:
      return "byte-level BPE (Qwen2)";
    case Pattern::bloom:
      return "byte-level BPE (Bloom)";
    default:
      return "byte-level BPE (GPT-2)";
  }
}

TENON_INLINE std::optional<TokenId> Tokenizer::special(std::string_view text) const noexcept {
  for (const SpecialToken& token : vocabulary_->special)
    if (token.text == text) return token.id;
  return std::nullopt;
}

TENON_INLINE void Tokenizer::append(std::string_view text, bool parse_special, std::vector<TokenId>& ids) const {
  using detail::SpecialSpellings;
  check_text(text);
  detail::Encoder(*vocabulary_, ids)
      .encode(text, parse_special ? SpecialSpellings::everywhere() : SpecialSpellings::nowhere());
}

TENON_INLINE void Tokenizer::check_text(std::string_view text) {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw Error(Error::Kind::capacity, "text",
                "has " + std::to_string(text.size()) + " bytes, 2^31 - 1 can be encoded");
  if (const std::size_t at = find_invalid_utf8(text); at != text.npos)
    throw Error(Error::Kind::invalid_request, "text", "is not valid UTF-8 at byte " + std::to_string(at));
}

TENON_INLINE int Tokenizer::vocab_size() const noexcept { return vocabulary_->size; }

TENON_INLINE TokenizerFamily Tokenizer::family() const noexcept { return vocabulary_->pipeline.family; }

TENON_INLINE std::span<const std::string> Tokenizer::ignored_fields() const noexcept { return vocabulary_->ignored; }

TENON_INLINE std::span<const TokenId> Tokenizer::before_prompt() const noexcept { return vocabulary_->pipeline.before; }

TENON_INLINE std::span<const TokenId> Tokenizer::after_prompt() const noexcept { return vocabulary_->pipeline.after; }

TENON_INLINE std::optional<TokenId> Tokenizer::end_of_text() const noexcept { return vocabulary_->eos; }

TENON_INLINE std::optional<TokenId> Tokenizer::begin_of_text() const noexcept { return vocabulary_->bos; }

TENON_INLINE std::optional<TokenId> Tokenizer::pad() const noexcept { return vocabulary_->pad; }

TENON_INLINE std::span<const SpecialToken> Tokenizer::special_tokens() const noexcept { return vocabulary_->special; }

TENON_INLINE bool Tokenizer::is_special(TokenId id) const noexcept {
  return detail::is_special(vocabulary_->special, id);
}

}  // namespace tenon
