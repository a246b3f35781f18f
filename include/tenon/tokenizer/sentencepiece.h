// The tokenizer of a tokenizer.model, with the ids of the sentencepiece library (0.2.3).
#pragma once
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/added_token_list.h"
#include "tenon/tokenizer/characters.h"
#include "tenon/tokenizer/score_merger.h"
#include "tenon/tokenizer/sentencepiece_file.h"
#include "tenon/tokenizer/sentencepiece_model.h"
#include "tenon/tokenizer/sentencepiece_normalizer.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/tokenizer_config.h"
#include "tenon/tokenizer/unigram.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

inline constexpr const char* kSentencePieceName = "tokenizer.model";

// The tokens of all bytes; empty without byte_fallback.
inline std::optional<std::vector<TokenId>> byte_pieces(const SentencePieceFile& file, const Spellings& spellings) {
  if (!file.byte_fallback) return std::nullopt;
  std::vector<TokenId> out;
  for (int value = 0; value < 256; ++value) {
    const std::string spelling = byte_fallback_spelling(value);
    const auto id = spellings.find(spelling);
    if (!id || file.pieces[static_cast<std::size_t>(*id)].kind != SentencePieceFile::byte)
      throw Error(Error::Kind::invalid_file, std::string(kSentencePieceName) + ": pieces",
                  "byte_fallback is true, but there is no byte token " + spelling);
    out.push_back(*id);
  }
  return out;
}

// Makes the tables of the model. `prefix_once`: see SentencePieceNormalizer.
inline SentencePieceModel make_sentencepiece(const SentencePieceFile& file, const Spellings& spellings,
                                             bool prefix_once) {
  using Kind = SentencePieceFile::Kind;
  std::vector<ScoredPiece> pieces, user_defined;
  std::optional<TokenId> unknown;
  double least = std::numeric_limits<float>::max();
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    const SentencePieceFile::Piece& piece = file.pieces[id];
    const auto token = static_cast<TokenId>(id);
    if (piece.kind == Kind::unknown) unknown = token;
    if (piece.kind == Kind::normal) least = std::min(least, static_cast<double>(piece.score));
    if (piece.kind != Kind::normal && piece.kind != Kind::user_defined && piece.kind != Kind::unused) continue;
    pieces.push_back({piece.text, token, piece.score, piece.kind == Kind::user_defined, piece.kind == Kind::unused});
    if (piece.kind == Kind::user_defined) user_defined.push_back(pieces.back());
  }
  const UnknownText unknown_text(unknown, byte_pieces(file, spellings));
  const PieceTable fixed(std::move(user_defined));
  const SentencePieceNormalizer::Options options{.dummy_prefix = file.add_dummy_prefix,
                                                 .extra_spaces = !file.remove_extra_whitespaces,
                                                 .escapes_spaces = file.escape_whitespaces,
                                                 .prefix_once = prefix_once};
  const std::string where = std::string(kSentencePieceName) + ": normalizer_spec.precompiled_charsmap";
  SentencePieceNormalizer normalizer(options, file.charsmap.empty() ? Charsmap() : Charsmap(file.charsmap, where),
                                     fixed);
  PieceTable table(std::move(pieces));
  if (!file.unigram) return {std::move(normalizer), ScoreMerger(std::move(table), fixed, unknown_text)};
  return {std::move(normalizer), Unigram(std::move(table), unknown_text, least, Unigram::Reference::sentencepiece)};
}

// The classes that read tokenizer.model without changing its ids. Other classes move them (XGLM) or read other files.
inline void check_sentencepiece_class(const TokenizerClass& which, const Fields& config) {
  for (const char* name : {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "PreTrainedTokenizer"})
    if (which.name == name) return;
  throw Error(Error::Kind::unsupported, config.where("tokenizer_class"),
              std::string(which.name) +
                  " does not read tokenizer.model; tokenizer.json is needed, which save_pretrained of transformers' "
                  "fast tokenizers writes");
}

// `legacy` of LlamaTokenizer: true, the default, puts the space before each part of a text.
inline bool prefixes_once(const Fields& config, const TokenizerClass& which, const SentencePieceFile& file) {
  if (!which.rebuilds) return false;
  if (config.has("add_prefix_space") && config.boolean("add_prefix_space") != file.add_dummy_prefix)
    throw Error(Error::Kind::unsupported, config.where("add_prefix_space"),
                "contradicts normalizer_spec.add_dummy_prefix of tokenizer.model");
  return !config.boolean("legacy", true);
}

// The bytes of a piece in a text.
inline std::string bytes_of_piece(const SentencePieceFile& file, std::size_t id, const std::string& spelling) {
  const int kind = id < file.pieces.size() ? file.pieces[id].kind : SentencePieceFile::control;
  if (kind == SentencePieceFile::control || kind == SentencePieceFile::unknown) return spelling;
  if (kind != SentencePieceFile::byte) return unspell_spaces(spelling);
  if (const auto value = byte_of_fallback_spelling(spelling)) return std::string(1, static_cast<char>(*value));
  throw Error(Error::Kind::invalid_file, std::string(kSentencePieceName) + ": pieces[" + std::to_string(id) + "]",
              "is no spelling of a byte: \"" + printable(spelling, 60) + "\"");
}

// Control tokens are special, and so are the turns of Gemma's chats (GemmaConverter of transformers).
inline void list_control_tokens(const SentencePieceFile& file, const TokenizerClass& which, TokenizerTables& out) {
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    const SentencePieceFile::Piece& piece = file.pieces[id];
    const bool turn =
        which.name == "GemmaTokenizer" && (piece.text == "<start_of_turn>" || piece.text == "<end_of_turn>");
    if (piece.kind == SentencePieceFile::control || turn) out.special.push_back({static_cast<TokenId>(id), piece.text});
  }
}

// Makes the tables from a model and the members of tokenizer_config.json.
inline TokenizerTables make_sentencepiece_tables(const SentencePieceFile& file, const Fields& config,
                                                 const TokenizerClass& which, std::optional<int> vocab_size) {
  check_sentencepiece_class(which, config);
  const Json none = Json::object();
  const Fields named(none, kSentencePieceName);
  Spellings spellings(vocab_size.value_or(kMaxVocabulary));
  if (file.pieces.size() > static_cast<std::size_t>(spellings.limit()))
    named.refuse("pieces", "has " + std::to_string(file.pieces.size()) + " pieces, but vocab_size is " +
                               std::to_string(spellings.limit()));
  for (std::size_t id = 0; id < file.pieces.size(); ++id)
    spellings.add(named, "pieces[" + std::to_string(id) + "]", file.pieces[id].text, static_cast<int>(id));

  TokenizerTables out;
  out.pipeline.family = TokenizerFamily::sentencepiece;
  if (file.add_dummy_prefix || file.remove_extra_whitespaces) out.pipeline.start = Pipeline::Start::drop_space;
  out.sentencepiece = std::make_shared<const SentencePieceModel>(
      make_sentencepiece(file, spellings, prefixes_once(config, which, file)));
  AddedTokenList added(spellings, out.pipeline.normalizer, AddedTokenList::Ids::as_written);
  add_missing_tokens(config, added);
  read_roles(config, which, spellings, added, out);
  apply_template_flags(config, which, out);
  list_control_tokens(file, which, out);
  sort_special_tokens(out);
  added.add_roles(out.special);
  added.list_special(out);
  finish_vocabulary(
      spellings, vocab_size,
      [&](TokenId id, const std::string& spelling) {
        return bytes_of_piece(file, static_cast<std::size_t>(id), spelling);
      },
      out);
  added.finish(out);
  return out;
}

// Reads the folder's tokenizer.model and tokenizer_config.json. Errors name file and field.
inline TokenizerTables read_sentencepiece(const std::filesystem::path& folder, std::optional<int> vocab_size) {
  const std::string bytes = read_text_file(folder / kSentencePieceName, kMaxTokenizerFile);
  const SentencePieceFile file = parse_sentencepiece(bytes, kSentencePieceName);
  const TokenizerConfig read = read_tokenizer_config(folder);
  FieldLog log;
  const Fields config(read.members, read.file, {}, Error::Kind::invalid_file, &log);
  TokenizerTables out = make_sentencepiece_tables(file, config, tokenizer_class(config, folder), vocab_size);
  out.ignored = log.unread(read.members);
  return out;
}

}  // namespace tenon::detail
