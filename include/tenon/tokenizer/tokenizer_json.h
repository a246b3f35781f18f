// tokenizer.json of Hugging Face's tokenizers (0.22). A tokenizer gives the library's ids, or the file is refused by
// name.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/added_token_list.h"
#include "tenon/tokenizer/characters.h"
#include "tenon/tokenizer/json_node.h"
#include "tenon/tokenizer/pipeline_json.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/tokenizer_config.h"
#include "tenon/tokenizer/unigram.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

// Whether the model is a unigram model, and not BPE.
inline bool is_unigram(const JsonNode& model) { return model->string("type", "") == "Unigram"; }

// Checks the members of "model" that are supported only with the value that has no effect.
inline void check_model(const JsonNode& model) {
  if (is_unigram(model)) return model.only({"type", "unk_id", "vocab", "byte_fallback"});
  // The library's files before 2020 name no type. Merges then imply BPE, the only model that has them.
  if (model->json().contains("type") || !model->json().contains("merges")) model->choice("type", {"BPE", "Unigram"});
  model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (model->number("dropout", 0, 1, 0) != 0) model.unsupported("dropout", "only none is supported");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model->string(key, "").empty()) model.unsupported(key, "only none is supported");
}

// Merge rules are "left right" (older files) or ["left", "right"]. Calls add(left, right) for each valid rule.
template <class Add>
void read_merge_list(const JsonNode& model, const Spellings& spellings, MergeRules& out, Add&& add) {
  const Json& list = model->value("merges");
  if (!list.is_array()) model->refuse("merges", "must be a list, is " + Fields::describe(list));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& rule = list[i];
    const std::string key = "merges[" + std::to_string(i) + "]";
    if (rule.type() != list[0].type()) model->refuse(key, "must be of the form that the first merge rule has");
    std::string left, right;
    if (rule.is_string()) {
      const std::string& text = rule.get_ref<const std::string&>();
      if (text.starts_with("#version"))  // the library would skip this line
        model->refuse(key, "is no merge rule: \"" + printable(text) + "\" is the first line of a merges.txt");
      std::tie(left, right) = split_merge(text, model->where(key));
    } else if (rule.is_array() && rule.size() == 2 && rule[0].is_string() && rule[1].is_string()) {
      left = rule[0].get<std::string>(), right = rule[1].get<std::string>();
    } else {
      model->refuse(key,
                    "the merge rule must be \"left right\" or [\"left\", \"right\"], is " + Fields::describe(rule));
    }
    add_merge(left, right, spellings, {model->where(key), "model.vocab"}, out);
    add(left, right);
  }
}

inline std::optional<std::array<TokenId, 256>> byte_fallback_tokens(const JsonNode& model, const Spellings& spellings) {
  if (!model->boolean("byte_fallback", false)) return std::nullopt;
  std::array<TokenId, 256> tokens{};
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = spellings.find(byte_fallback_spelling(byte));
    if (!id) model->refuse("byte_fallback", "is true, but the vocabulary has no token " + byte_fallback_spelling(byte));
    tokens[static_cast<std::size_t>(byte)] = *id;
  }
  return tokens;
}

// An unknown token must be in model.vocab. The library accepts any name and fails at the first text that needs it. Old
// files of GPT-2 write "" for none.
inline void check_unknown(const JsonNode& model, const Spellings& spellings) {
  const std::string unknown = model->string("unk_token", "");
  if (!unknown.empty() && !spellings.find(unknown) && !spellings.left_out(unknown))
    model->refuse("unk_token",
                  "names the token \"" + printable(unknown, 60) + "\", which the vocabulary does not have");
}

inline Characters read_characters(const JsonNode& model, const Spellings& spellings) {
  const auto bytes = byte_fallback_tokens(model, spellings);
  const bool named = model->has("unk_token");
  const std::string unknown = model->string("unk_token", "");
  if (!bytes && !named)
    model.unsupported("unk_token", "none is not supported without byte_fallback: unknown characters would vanish");
  if (!bytes) check_unknown(model, spellings);
  return {spellings, bytes, named ? std::optional(unknown) : std::nullopt, model->boolean("fuse_unk", false)};
}

// Bytes without a token become the unknown token or are dropped.
inline void read_unknown_byte(const JsonNode& model, const Spellings& spellings, TokenizerTables& out) {
  if (!out.has_holes()) return;
  if (model->boolean("byte_fallback", false))
    model.unsupported("byte_fallback", "true is not supported where the vocabulary lacks a byte");
  out.fuses_unknown = model->boolean("fuse_unk", false);
  if (model->string("unk_token", "").empty()) return;
  check_unknown(model, spellings);
  out.unknown_byte = spellings.find(model->string("unk_token"));
}

inline void read_whole_pieces(const Spellings& spellings, TokenizerTables& out) {
  const bool byte_level = out.pipeline.family == TokenizerFamily::byte_level;
  for (const std::string* spelling : spellings.by_id()) {
    if (spelling == nullptr) continue;
    const auto piece = byte_level ? spelled_bytes(*spelling) : std::optional(*spelling);
    if (!piece) continue;
    out.longest_whole = std::max(out.longest_whole, piece->size());
    out.whole.emplace(*piece, *spellings.find(*spelling));
  }
}

// Reads the pieces of a unigram model: ["piece", score], in the order of their ids.
inline std::vector<ScoredPiece> read_unigram_pieces(const JsonNode& model, Spellings& spellings) {
  const Json& list = model->value("vocab");
  if (!list.is_array() || list.empty()) model->refuse("vocab", "must be a list of pieces with scores");
  std::vector<ScoredPiece> pieces;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& each = list[i];
    const std::string key = "vocab[" + std::to_string(i) + "]";
    if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_number())
      model->refuse(key, "must be [\"piece\", score], is " + Fields::describe(each));
    if (i >= static_cast<std::size_t>(spellings.limit()))
      model->refuse(key, "has an id of at least " + std::to_string(spellings.limit()) + ", the size of the vocabulary");
    const auto id = static_cast<TokenId>(i);
    pieces.push_back({each[0].get<std::string>(), id, each[1].get<double>()});
    spellings.add(model.fields(), key, pieces.back().text, id);
  }
  return pieces;
}

// Makes the unigram model. Special tokens are no pieces: their spelling in a text is ordinary characters. One that
// could be a part of ordinary text is refused, because in tokenizers it is a piece, too.
inline void finish_unigram(const JsonNode& model, const Spellings& spellings, std::vector<ScoredPiece> pieces,
                           TokenizerTables& out) {
  const int unknown = model->integer("unk_id", 0, static_cast<int>(pieces.size()) - 1);
  std::optional<std::vector<TokenId>> bytes;
  if (const auto tokens = byte_fallback_tokens(model, spellings)) bytes.emplace(tokens->begin(), tokens->end());
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string& text = pieces[i].text;
    least = std::min(least, pieces[i].score);
    const bool control = text.size() > 2 && (text.front() == '<' || text.front() == '[');
    if (!control && is_special(out.special, pieces[i].id))
      model.unsupported("vocab[" + std::to_string(i) + "]",
                        "\"" + printable(text, 60) + "\" is a piece of ordinary text and a special token, too");
  }
  std::erase_if(pieces, [&](const ScoredPiece& piece) { return is_special(out.special, piece.id); });
  out.unigram = std::make_shared<const Unigram>(PieceTable(std::move(pieces)), UnknownText(unknown, std::move(bytes)),
                                                least, Unigram::Reference::tokenizers);
}

// Reads vocabulary and rules for the family in out.pipeline.
inline void read_model(const JsonNode& model, Spellings& spellings, TokenizerTables& out) {
  spellings.add_all(model.object("vocab").fields());
  out.merges.order = MergeOrder::one_by_one;
  for (const char* key : {"byte_fallback", "fuse_unk", "ignore_merges"}) model->boolean(key, false);
  if (out.pipeline.family == TokenizerFamily::byte_level) {
    find_byte_tokens(spellings, out);
    read_unknown_byte(model, spellings, out);
    read_merge_list(model, spellings, out.merges, [](const std::string&, const std::string&) {});
  } else {
    out.characters = read_characters(model, spellings);
    read_merge_list(model, spellings, out.merges,
                    [&](const std::string& left, const std::string& right) { out.characters.add_rule(left, right); });
  }
  if (model->boolean("ignore_merges", false)) read_whole_pieces(spellings, out);
}

// The byte of a spelling for the decoder ByteFallback: six characters, with digits as Rust parses them.
inline std::optional<char> byte_of_fallback(std::string_view spelling) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return std::nullopt;
  const int high = spelling[3] == '+' ? 0 : digit(spelling[3]), low = digit(spelling[4]);
  return high < 0 || low < 0 ? std::nullopt : std::optional(static_cast<char>(high * 16 + low));
}

inline std::string token_bytes(TokenDecoder decoder, const std::string& spelling) {
  if (decoder == TokenDecoder::byte_level) return unspell(spelling);
  if (decoder == TokenDecoder::metaspace && spelling.find(' ') != spelling.npos)
    throw Error(Error::Kind::unsupported, "tokenizer.json: decoder",
                "Metaspace is not supported with a token that holds a space: \"" + printable(spelling, 60) + "\"");
  if (decoder == TokenDecoder::byte_fallback)
    if (const auto byte = byte_of_fallback(spelling)) return std::string(1, *byte);
  return unspell_spaces(spelling);
}

// Truncation and padding are options of a call in transformers. Without such a call, `padding` gives the pad token, and
// nothing else counts.
inline void check_top(const JsonNode& top) {
  top.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
            "decoder", "model"});
  top->choice("version", {"1.0"});
  for (const char* key : {"truncation", "padding"})
    if (top->has(key)) top.object(key);
}

inline void read_added_tokens(const JsonNode& top, AddedTokenList& list) {
  if (!top->has("added_tokens")) return;
  for (const JsonNode& node : top.objects("added_tokens")) {
    node.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"}) node->boolean(key);
    list.add(list.read(node.fields(), node->integer("id", 0, std::numeric_limits<int>::max())), node.fields(), "id");
  }
}

// Makes the tables from the members of tokenizer.json and of tokenizer_config.json. `names`: the tokenizer's class.
inline TokenizerTables read_tokenizer(const JsonNode& top, const Fields& config, const TokenizerClass& names,
                                      std::optional<int> vocab_size) {
  check_top(top);
  const JsonNode model = top.object("model");
  check_model(model);

  TokenizerTables out;
  out.pipeline.normalizer = read_normalizer(top);
  read_pieces(top, out.pipeline);
  const TokenDecoder decoder = read_decoder(top, out.pipeline);
  Spellings spellings(vocab_size.value_or(kMaxVocabulary));
  std::vector<ScoredPiece> pieces;
  if (is_unigram(model)) {
    if (out.pipeline.family != TokenizerFamily::sentencepiece)
      top.unsupported("pre_tokenizer", "ByteLevel is not supported with a Unigram model");
    pieces = read_unigram_pieces(model, spellings);
  } else {
    read_model(model, spellings, out);
  }
  AddedTokenList added(spellings, out.pipeline.normalizer, AddedTokenList::Ids::counted);
  read_added_tokens(top, added);
  if (!is_unigram(model)) check_unknown(model, spellings);
  read_post_processor(top, spellings, out.pipeline);

  TokenizerClass which = names;
  const std::string pad = top->has("padding") ? top.object("padding")->string("pad_token", "") : "";
  if (which.pad.empty()) which.pad = pad;
  read_config_beside_tokenizer_json(config, which, added, spellings, out);
  added.add_roles(out.special);
  added.list_special(out);
  const auto bytes = [&](TokenId, const std::string& spelling) { return token_bytes(decoder, spelling); };
  finish_vocabulary(spellings, vocab_size, bytes, out);
  added.finish(out);
  if (is_unigram(model)) finish_unigram(model, spellings, std::move(pieces), out);
  return out;
}

// Reads the folder's tokenizer.json and tokenizer_config.json. Errors name file and field.
inline TokenizerTables read_tokenizer_json(const std::filesystem::path& folder, std::optional<int> vocab_size) {
  const Json json = read_json_file(folder / "tokenizer.json", kMaxTokenizerFile);
  const TokenizerConfig read = read_tokenizer_config(folder);
  FieldLog log;
  const Fields config(read.members, read.file, {}, Error::Kind::invalid_file, &log);
  TokenizerTables out =
      read_tokenizer(JsonNode(json, "tokenizer.json", {}), config, tokenizer_class(config, folder), vocab_size);
  out.ignored = log.unread(read.members);
  return out;
}

}  // namespace tenon::detail
