// Byte-pair encoding of text and decoding, as in GPT-2, StarCoder, Llama, Mistral and Bloom.
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
#include "tenon/io/fields.h"
#include "tenon/tokenizer/special_token.h"
#include "tenon/tokenizer/text_span.h"

namespace tenon {
namespace detail {
struct TokenizerTables;
}

/// A tokenizer read from a model folder. Copies share its tables; const use is thread-safe. Returned views live as long
/// as any copy.
class Tokenizer {
 public:
  /// Reads tokenizer.json, or else vocab.json and merges.txt, or else tokenizer.model. Reads tokenizer_config.json,
  /// too, where it exists. docs/tokenizers.md lists what is supported. vocab_size: rows of the model's embedding
  /// (default: highest id + 1). Errors name file and field. They are io if a file is missing, invalid_file or
  /// unsupported.
  static Tokenizer load(const std::filesystem::path& folder, std::optional<int> vocab_size = {});
  /// Reads the tokenizer in the metadata of a GGUF file (gguf_tokenizer.h). Errors as for `load`.
  static Tokenizer from_gguf(const Fields& metadata, std::optional<int> vocab_size = {});

  /// Ids of a text, without the tokens of the template. Added tokens that are not special are found in the text.
  /// Spellings of special tokens are ordinary characters; with parse_special they become ids, as in Hugging Face's
  /// tokenizers.
  /// decode(encode(text)) == text for byte-level tokenizers without a normalizer or a step that removes text.
  /// SentencePiece tokenizers may lose a leading space, U+2581 and unknown characters (docs/tokenizers.md).
  /// Error invalid_request if text is not UTF-8. Error capacity from 2^31 bytes on (a space counts 3 for Llama 2),
  /// or where the expression of a pre-tokenizer takes too many steps (regex.h).
  std::vector<TokenId> encode(std::string_view text, bool parse_special = false) const;

  /// Ids of a prompt: encode() with the tokens that the template of tokenizer.json puts before and after a text, such
  /// as Llama's begin of text. With parse_special this equals tokenizer(text) of transformers. Errors as for encode().
  std::vector<TokenId> encode_prompt(std::string_view text, bool parse_special = false) const;

  /// Ids of a rendered chat prompt, without the tokens of the template of tokenizer.json. The chat template wrote the
  /// bytes in `template_spans`; messages wrote the rest. The spelling of a special token becomes its id where the
  /// template wrote all its bytes; elsewhere it is ordinary characters. Text between two such tokens is encoded as one
  /// text, even if template and messages both wrote parts of it. Where messages spell no special token, the result is
  /// encode(text, true). Spans are in order and may touch. Errors as for encode(); invalid_request if a span is out
  /// of order or outside the text.
  std::vector<TokenId> encode_rendered(std::string_view text, std::span<const TextSpan> template_spans) const;

  /// The text of a complete token sequence: the bytes of all tokens, special ones included, without the space that
  /// SentencePiece puts in front. The result may be invalid UTF-8 (see sanitize_utf8). For the continuation of a
  /// prompt, join bytes() instead, as StreamDecoder does. Errors as for bytes().
  std::string decode(std::span<const TokenId> ids) const;

  /// The bytes of one token; empty for an id without a token, such as padding rows of the embedding. Error
  /// invalid_request if id is not in [0, vocab_size()).
  std::string_view bytes(TokenId id) const;

  /// Ids are in [0, vocab_size()).
  int vocab_size() const noexcept;
  /// Upper bound on the bytes of text per token, so that a text that is too long can be refused before it is encoded.
  /// Empty where there is no bound: with a normalizer, unknown characters, or tokens that take white space.
  std::optional<std::size_t> most_bytes_a_token() const noexcept;
  /// Byte-level or SentencePiece.
  TokenizerFamily family() const noexcept;
  /// A name for people, with the pattern: "byte-level BPE (Llama 3)".
  std::string_view description() const noexcept;

  /// Fields of tokenizer_config.json that have no effect on ids, sorted.
  std::span<const std::string> ignored_fields() const noexcept;

  /// The tokens that encode_prompt adds before and after a text.
  std::span<const TokenId> before_prompt() const noexcept;
  std::span<const TokenId> after_prompt() const noexcept;

  /// Tokens with a role, from tokenizer_config.json. Without eos_token there, end_of_text() is <|endoftext|> if the
  /// vocabulary has it.
  std::optional<TokenId> end_of_text() const noexcept;
  std::optional<TokenId> begin_of_text() const noexcept;
  std::optional<TokenId> pad() const noexcept;

  /// Special tokens sorted by id, each once.
  std::span<const SpecialToken> special_tokens() const noexcept;
  /// Whether the id is that of a special token.
  bool is_special(TokenId id) const noexcept;
  /// The id of a special token by its text, for chat templates.
  std::optional<TokenId> special(std::string_view text) const noexcept;

 private:
  explicit Tokenizer(detail::TokenizerTables&& vocabulary);

  void append(std::string_view text, bool parse_special, std::vector<TokenId>& ids) const;

  static void check_text(std::string_view text);

  std::shared_ptr<const detail::TokenizerTables> vocabulary_;  // null only after a move
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/tokenizer/bpe-inl.h"
#endif
