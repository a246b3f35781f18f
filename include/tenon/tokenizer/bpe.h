// Byte-pair encoding of text, as GPT-2, StarCoder, Llama, Mistral and Bloom have it, and back.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/views.h"
#include "tenon/tokenizer/encoder.h"
#include "tenon/tokenizer/load.h"
#include "tenon/tokenizer/text_span.h"
#include "tenon/tokenizer/unicode.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon {

// Movable; const use is safe from many threads. What it returns views of lives as long as it does.
class Tokenizer {
 public:
  // Reads tokenizer.json, or where there is none vocab.json and merges.txt; and tokenizer_config.json beside either.
  // vocab_size: rows of the model's embedding; without it, the highest id + 1. docs/tokenizers.md says what is read.
  // Errors name file and field: io where a file is missing, invalid_file, unsupported.
  static Tokenizer load(const std::filesystem::path& folder, std::optional<int> vocab_size = {}) {
    return Tokenizer(detail::load_vocabulary(folder, vocab_size));
  }

  Tokenizer(Tokenizer&&) noexcept = default;
  Tokenizer& operator=(Tokenizer&&) noexcept = default;

  // The ids of a text, with nothing put around it. Added tokens that are not special are found in the text. Spellings
  // of special tokens are ordinary characters, or, with parse_special, become their ids as in Hugging Face's
  // tokenizers. decode(encode(text)) == text for a byte-level tokenizer that does not normalize; SentencePiece's may
  // lose a space at the start, U+2581 and characters that it does not know (docs/tokenizers.md).
  // Errors: invalid_request where text is not UTF-8, capacity from 2^31 bytes on (for Llama 2's, spaces count 3),
  // or where the expression of a pre-tokenizer takes too many steps (regex.h).
  std::vector<TokenId> encode(std::string_view text, bool parse_special = false) const {
    std::vector<TokenId> ids;
    append(text, parse_special, ids);
    return ids;
  }

  // As a model expects a prompt: with what the template of tokenizer.json puts before and after a text, such as the
  // begin of text of Llama. With parse_special, tokenizer(text) of transformers. Errors as encode().
  std::vector<TokenId> encode_prompt(std::string_view text, bool parse_special = false) const {
    const detail::Pipeline& pipeline = vocabulary_.pipeline;
    std::vector<TokenId> ids = pipeline.before;
    append(text, parse_special, ids);
    ids.insert(ids.end(), pipeline.after.begin(), pipeline.after.end());
    return ids;
  }

  // The ids of a chat prompt, with nothing put around it. The template wrote the bytes in `template_spans`, the
  // messages the rest. The spelling of a special token becomes its id where the template wrote all of it; elsewhere it
  // is ordinary characters. Text between two of those tokens is encoded as one text, whoever wrote it. Where messages
  // spell no special token, the result is encode(text, true). Spans are in order and may touch.
  // Errors as encode(); invalid_request where a span is out of order or outside the text.
  std::vector<TokenId> encode_rendered(std::string_view text, std::span<const TextSpan> template_spans) const {
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
    detail::Encoder(vocabulary_, ids).encode(text, detail::SpecialSpellings::where(mask));
    return ids;
  }

  // The text of a whole text's tokens, special ones as theirs: the bytes of all, less the space that SentencePiece puts
  // in front. They need not be UTF-8 (see sanitize_utf8). What follows a prompt is no whole text: join the bytes of its
  // tokens, as StreamDecoder does. Errors as bytes().
  std::string decode(std::span<const TokenId> ids) const {
    using Start = detail::Pipeline::Start;
    const Start start = vocabulary_.pipeline.start;
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

  // The bytes of one token; none for an id that the vocabulary leaves out (rows that pad an embedding).
  // Error invalid_request where id is not in [0, vocab_size()).
  std::string_view bytes(TokenId id) const {
    if (id < 0 || id >= vocabulary_.size)
      throw Error(Error::Kind::invalid_request, "token id",
                  std::to_string(id) + " is not in [0, " + std::to_string(vocabulary_.size) + ")");
    const std::uint32_t* begin = &vocabulary_.begin[static_cast<std::size_t>(id)];
    return std::string_view(vocabulary_.text).substr(begin[0], begin[1] - begin[0]);
  }

  int vocab_size() const noexcept { return vocabulary_.size; }
  // The most bytes of a text that one token stands for, so that a long text can be refused before it is encoded. None
  // where there is no such bound: text that is normalized, characters that are not known, tokens that take white space.
  std::optional<std::size_t> most_bytes_a_token() const noexcept {
    const detail::Pipeline& pipeline = vocabulary_.pipeline;
    const bool drops = pipeline.added.strips() || pipeline.pre_tokenizer.drops() || vocabulary_.has_holes();
    if (family() != TokenizerFamily::byte_level || !pipeline.normalizer.empty() || drops) return std::nullopt;
    return vocabulary_.longest_token;
  }
  TokenizerFamily family() const noexcept { return vocabulary_.pipeline.family; }
  // For people: "byte-level BPE (Llama 3)", where the pattern is Llama 3's.
  std::string_view description() const noexcept {
    if (family() == TokenizerFamily::sentencepiece) return "SentencePiece BPE";
    const auto pattern = vocabulary_.pipeline.pre_tokenizer.pattern();
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

  // What encode_prompt puts around a text.
  std::span<const TokenId> before_prompt() const noexcept { return vocabulary_.pipeline.before; }
  std::span<const TokenId> after_prompt() const noexcept { return vocabulary_.pipeline.after; }

  // eos_token of tokenizer_config.json; where that names none, <|endoftext|> if the vocabulary has it.
  std::optional<TokenId> end_of_text() const noexcept { return vocabulary_.eos; }
  std::optional<TokenId> begin_of_text() const noexcept { return vocabulary_.bos; }
  std::optional<TokenId> pad() const noexcept { return vocabulary_.pad; }

  // By id, each once.
  std::span<const SpecialToken> special_tokens() const noexcept { return vocabulary_.special; }
  bool is_special(TokenId id) const noexcept { return detail::is_special(vocabulary_.special, id); }
  // The id of a special token by its text, for chat templates.
  std::optional<TokenId> special(std::string_view text) const noexcept {
    for (const SpecialToken& token : vocabulary_.special)
      if (token.text == text) return token.id;
    return std::nullopt;
  }

 private:
  explicit Tokenizer(detail::Vocabulary&& vocabulary) : vocabulary_(std::move(vocabulary)) {}

  void append(std::string_view text, bool parse_special, std::vector<TokenId>& ids) const {
    using detail::SpecialSpellings;
    check_text(text);
    detail::Encoder(vocabulary_, ids)
        .encode(text, parse_special ? SpecialSpellings::everywhere() : SpecialSpellings::nowhere());
  }

  static void check_text(std::string_view text) {
    if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
      throw Error(Error::Kind::capacity, "text",
                  "has " + std::to_string(text.size()) + " bytes, 2^31 - 1 can be encoded");
    if (const std::size_t at = find_invalid_utf8(text); at != text.npos)
      throw Error(Error::Kind::invalid_request, "text", "is not valid UTF-8 at byte " + std::to_string(at));
  }

  detail::Vocabulary vocabulary_;
};

}  // namespace tenon
