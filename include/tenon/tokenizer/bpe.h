// Byte-pair encoding of text, as GPT-2, StarCoder, Llama, Mistral and Bloom have it, and back.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/tokenizer/special_token.h"
#include "tenon/tokenizer/text_span.h"

namespace tenon {
namespace detail {
struct TokenizerTables;
}

// Movable; const use is safe from many threads. What it returns views of lives as long as it does.
class Tokenizer {
 public:
  // Reads tokenizer.json, or where there is none vocab.json and merges.txt; and tokenizer_config.json beside either.
  // vocab_size: rows of the model's embedding; without it, the highest id + 1. docs/tokenizers.md says what is read.
  // Errors name file and field: io where a file is missing, invalid_file, unsupported.
  static Tokenizer load(const std::filesystem::path& folder, std::optional<int> vocab_size = {});

  Tokenizer(Tokenizer&&) noexcept = default;
  Tokenizer& operator=(Tokenizer&&) noexcept = default;

  // The ids of a text, with nothing put around it. Added tokens that are not special are found in the text. Spellings
  // of special tokens are ordinary characters, or, with parse_special, become their ids as in Hugging Face's
  // tokenizers. decode(encode(text)) == text for a byte-level tokenizer that does not normalize; SentencePiece's may
  // lose a space at the start, U+2581 and characters that it does not know (docs/tokenizers.md).
  // Errors: invalid_request where text is not UTF-8, capacity from 2^31 bytes on (for Llama 2's, spaces count 3),
  // or where the expression of a pre-tokenizer takes too many steps (regex.h).
  std::vector<TokenId> encode(std::string_view text, bool parse_special = false) const;

  // As a model expects a prompt: with what the template of tokenizer.json puts before and after a text, such as the
  // begin of text of Llama. With parse_special, tokenizer(text) of transformers. Errors as encode().
  std::vector<TokenId> encode_prompt(std::string_view text, bool parse_special = false) const;

  // The ids of a chat prompt, with nothing put around it. The template wrote the bytes in `template_spans`, the
  // messages the rest. The spelling of a special token becomes its id where the template wrote all of it; elsewhere it
  // is ordinary characters. Text between two of those tokens is encoded as one text, whoever wrote it. Where messages
  // spell no special token, the result is encode(text, true). Spans are in order and may touch.
  // Errors as encode(); invalid_request where a span is out of order or outside the text.
  std::vector<TokenId> encode_rendered(std::string_view text, std::span<const TextSpan> template_spans) const;

  // The text of a whole text's tokens, special ones as theirs: the bytes of all, less the space that SentencePiece puts
  // in front. They need not be UTF-8 (see sanitize_utf8). What follows a prompt is no whole text: join the bytes of its
  // tokens, as StreamDecoder does. Errors as bytes().
  std::string decode(std::span<const TokenId> ids) const;

  // The bytes of one token; none for an id that the vocabulary leaves out (rows that pad an embedding).
  // Error invalid_request where id is not in [0, vocab_size()).
  std::string_view bytes(TokenId id) const;

  int vocab_size() const noexcept;
  // The most bytes of a text that one token stands for, so that a long text can be refused before it is encoded. None
  // where there is no such bound: text that is normalized, characters that are not known, tokens that take white space.
  std::optional<std::size_t> most_bytes_a_token() const noexcept;
  TokenizerFamily family() const noexcept;
  // For people: "byte-level BPE (Llama 3)", where the pattern is Llama 3's.
  std::string_view description() const noexcept;

  // What encode_prompt puts around a text.
  std::span<const TokenId> before_prompt() const noexcept;
  std::span<const TokenId> after_prompt() const noexcept;

  // eos_token of tokenizer_config.json; where that names none, <|endoftext|> if the vocabulary has it.
  std::optional<TokenId> end_of_text() const noexcept;
  std::optional<TokenId> begin_of_text() const noexcept;
  std::optional<TokenId> pad() const noexcept;

  // By id, each once.
  std::span<const SpecialToken> special_tokens() const noexcept;
  bool is_special(TokenId id) const noexcept;
  // The id of a special token by its text, for chat templates.
  std::optional<TokenId> special(std::string_view text) const noexcept;

 private:
  explicit Tokenizer(detail::TokenizerTables&& vocabulary);

  void append(std::string_view text, bool parse_special, std::vector<TokenId>& ids) const;

  static void check_text(std::string_view text);

  std::shared_ptr<const detail::TokenizerTables> vocabulary_;  // never null but once moved from
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/tokenizer/bpe-inl.h"
#endif
