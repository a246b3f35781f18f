// What vocab.json, merges.txt and tokenizer_config.json say, checked as files that a stranger wrote.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/fields.h"
#include "tenon/core/file.h"
#include "tenon/core/json.h"
#include "tenon/core/views.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon {

// A token that enters by its id alone: written in a text, it is ordinary characters.
struct SpecialToken {
  TokenId id;
  std::string text;
};

namespace detail {

inline constexpr std::uint64_t kMaxTokenizerFile = 256u << 20;  // bytes
// Tables are as long as the highest id: the bound keeps one entry of a small file from asking for gigabytes.
inline constexpr int kMaxVocabulary = 1 << 22;
inline constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

struct Vocabulary {
  int size = 0;                                           // ids are in [0, size); not each needs a token
  std::string text;                                       // the bytes of all tokens, in the order of their ids
  std::vector<std::uint32_t> begin;                       // [size + 1] in text
  std::array<TokenId, 256> byte_token{};                  // [byte]
  std::unordered_map<std::uint64_t, std::uint32_t> rank;  // of a pair of tokens (pair_key); lower merges first
  std::vector<TokenId> merged;                            // [rank]
  std::vector<SpecialToken> special;                      // by id
  std::optional<TokenId> bos, eos, pad;

  static std::uint64_t pair_key(TokenId left, TokenId right) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::uint32_t rank_of(TokenId left, TokenId right) const {
    const auto found = rank.find(pair_key(left, right));
    return found == rank.end() ? kNoRank : found->second;
  }
};

// GPT-2 spells each byte as one printable character: bytes that are printable in Latin-1 as themselves, the other 68 as
// U+0100 and on, in ascending order (openai/gpt-2, encoder.py, bytes_to_unicode). So 0x20 is U+0120.
inline constexpr int kSpellings = 256 + 68;
struct ByteSpelling {
  std::array<char16_t, 256> of_byte{};
  std::array<std::int16_t, kSpellings> to_byte{};  // -1: spells no byte
};
inline constexpr ByteSpelling kByteSpelling = [] {
  ByteSpelling table;
  table.to_byte.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    const int spelling = printable ? byte : next++;
    table.of_byte[static_cast<std::size_t>(byte)] = static_cast<char16_t>(spelling);
    table.to_byte[static_cast<std::size_t>(spelling)] = static_cast<std::int16_t>(byte);
  }
  return table;
}();

// The spelling of one byte, as UTF-8.
inline std::string spell_byte(unsigned char byte) {
  const char16_t c = kByteSpelling.of_byte[byte];
  if (c < 0x80) return {static_cast<char>(c)};
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

// The bytes of a token. One with a character that spells no byte stands for itself, as in Hugging Face's decoder.
inline std::string unspell(const std::string& spelling) {
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const CodePoint point = decode_utf8(spelling, at);
    if (point.value >= kSpellings || kByteSpelling.to_byte[point.value] < 0) return spelling;
    bytes += static_cast<char>(kByteSpelling.to_byte[point.value]);
    at += static_cast<std::size_t>(point.length);
  }
  return bytes;
}

// Tokens by spelling and by id, while the files are read.
class Spellings {
 public:
  // ids are refused outside [0, limit)
  explicit Spellings(int limit) : limit_(std::min(limit, kMaxVocabulary)) {}

  // `fields` and `value`: where the id was read, and what was.
  void add(const Fields& fields, const std::string& spelling, const Json& value) {
    add(fields, spelling, spelling, fields.check_integer(spelling, value, 0, limit_ - 1));
  }
  // `key`: the member of `fields` to name in errors.
  void add(const Fields& fields, const std::string& key, const std::string& spelling, int id) {
    if (spelling.empty()) fields.refuse(key, "a token is empty (\"\")");
    if (by_id_.size() <= static_cast<std::size_t>(id)) by_id_.resize(static_cast<std::size_t>(id) + 1);
    if (const std::string* other = by_id_[static_cast<std::size_t>(id)])
      fields.refuse(key, "has the same id as \"" + printable(*other, 60) + "\": duplicate id " + std::to_string(id));
    const auto [place, fresh] = ids_.emplace(spelling, id);
    if (!fresh) fields.refuse(key, "is in the vocabulary already, with id " + std::to_string(place->second));
    by_id_[static_cast<std::size_t>(id)] = &place->first;
  }

  std::optional<TokenId> find(const std::string& spelling) const {
    const auto found = ids_.find(spelling);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  // [highest id + 1]; nullptr: no token has this id
  const std::vector<const std::string*>& by_id() const { return by_id_; }
  int limit() const { return limit_; }

 private:
  int limit_;
  std::unordered_map<std::string, TokenId> ids_;
  std::vector<const std::string*> by_id_;
};

inline void read_vocabulary(const std::filesystem::path& path, Spellings& spellings) {
  const Json json = read_json_file(path, kMaxTokenizerFile);
  const Fields fields(json, file_name_of(path));
  for (const auto& [spelling, id] : json.items()) spellings.add(fields, spelling, id);
}

// One rule of merges.txt: two spellings with one space between.
inline void add_merge(std::string_view rule, const Spellings& spellings, const std::string& where, Vocabulary& out) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Error::Kind::invalid_file, where, "the merge rule \"" + printable(rule) + "\" " + what);
  };
  const auto id_of = [&](const std::string& spelling) {
    const auto id = spellings.find(spelling);
    if (!id) refuse("needs the token \"" + printable(spelling) + "\", which vocab.json does not have");
    return *id;
  };
  const std::size_t space = rule.find(' ');
  if (space == rule.npos || space == 0 || space + 1 == rule.size() || rule.find(' ', space + 1) != rule.npos)
    refuse("must be two parts with one space between");
  const std::string left(rule.substr(0, space)), right(rule.substr(space + 1));
  const auto rank = static_cast<std::uint32_t>(out.merged.size());
  // Training merges a pair once; a second time would leave two ranks to choose from.
  if (!out.rank.emplace(Vocabulary::pair_key(id_of(left), id_of(right)), rank).second) refuse("stands there twice");
  out.merged.push_back(id_of(left + right));
}

inline void read_merges(const std::filesystem::path& path, const Spellings& spellings, Vocabulary& out) {
  const std::string text = read_text_file(path, kMaxTokenizerFile);
  const std::string file = file_name_of(path);
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, newline - at);
    at = newline + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);  // 0x0D itself is spelled otherwise, so this is a Windows line end
    if (++number == 1 && line.starts_with("#version")) continue;
    add_merge(line, spellings, file + ": line " + std::to_string(number), out);
  }
}

// A member of tokenizer_config.json that names a token: a string, or an object with "content"; absent and null: none.
inline std::optional<std::string> token_name(const Fields& config, const std::string& key) {
  if (!config.has(key)) return std::nullopt;
  return config.value(key).is_object() ? config.object(key).string("content") : config.string(key);
}

// Tokens that vocab.json lacks and transformers keeps in "added_tokens_decoder": {"50257": {"content": "<pad>", ...}}.
inline void read_added_tokens(const Fields& config, Spellings& spellings, std::vector<SpecialToken>& special) {
  if (!config.has("added_tokens_decoder")) return;
  const Fields added = config.object("added_tokens_decoder");
  for (const auto& [key, value] : added.json().items()) {
    const Fields token = added.object(key);
    const std::string text = token.string("content");
    const bool digits =
        key.size() <= 9 && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    const int id = digits && !key.empty() ? std::stoi(key) : -1;
    if (id < 0 || id >= spellings.limit() || std::to_string(id) != key)
      added.refuse(key, "must be an id from 0 to " + std::to_string(spellings.limit() - 1));
    const auto known = spellings.find(text);
    if (known && *known != id)
      added.refuse(key, "\"" + printable(text, 60) + "\" has the id " + std::to_string(*known) + " in vocab.json");
    if (!known && !token.boolean("special", false))
      throw Error(Error::Kind::unsupported, added.where(key),
                  "\"" + printable(text, 60) +
                      "\" would be cut out of text before byte pairs are merged; only special "
                      "tokens may be added to a byte-level vocabulary");
    if (!known) spellings.add(added, key, text, id);
    if (token.boolean("special", false)) special.push_back({id, text});
  }
}

// What would change the ids of a text must be known or refused, never ignored.
inline void refuse_other_tokenizers(const Fields& config) {
  config.choice("tokenizer_class",
                {"GPT2Tokenizer", "GPT2TokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"},
                "GPT2Tokenizer");
  for (const char* key : {"add_prefix_space", "add_bos_token", "add_eos_token"})
    if (config.boolean(key, false))
      throw Error(Error::Kind::unsupported, config.where(key), "true is not supported: text is encoded as it stands");
}

inline void read_tokenizer_config(const Fields& config, Spellings& spellings, Vocabulary& out) {
  refuse_other_tokenizers(config);
  read_added_tokens(config, spellings, out.special);
  const auto special = [&](const std::string& key, const std::string& text) {
    const auto id = spellings.find(text);
    if (!id) config.refuse(key, "names the token \"" + printable(text, 60) + "\", which the vocabulary does not have");
    out.special.push_back({*id, text});
    return *id;
  };
  const auto role = [&](const std::string& key) {
    const auto text = token_name(config, key);
    return text ? std::optional(special(key, *text)) : std::nullopt;
  };
  out.bos = role("bos_token");
  out.eos = role("eos_token");
  out.pad = role("pad_token");
  role("unk_token");
  if (!config.has("additional_special_tokens")) return;
  const Json& more = config.value("additional_special_tokens");
  if (!more.is_array()) config.refuse("additional_special_tokens", "must be a list, is " + Fields::describe(more));
  for (std::size_t i = 0; i < more.size(); ++i) {
    const std::string key = "additional_special_tokens[" + std::to_string(i) + "]";
    if (more[i].is_string())
      special(key, more[i].get<std::string>());
    else
      special(key, Fields(more[i], config.file(), key).string("content"));
  }
}

// The token that GPT-2's own files name in no config, only in the code beside them.
inline void default_end_of_text(const Spellings& spellings, Vocabulary& out) {
  const auto id = spellings.find("<|endoftext|>");
  if (out.eos || !id) return;
  out.eos = id;
  out.special.push_back({*id, "<|endoftext|>"});
}

// Lays the bytes of all tokens side by side.
inline void lay_out_tokens(const Spellings& spellings, Vocabulary& out) {
  std::sort(out.special.begin(), out.special.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const auto same = [](const SpecialToken& a, const SpecialToken& b) { return a.id == b.id; };
  out.special.erase(std::unique(out.special.begin(), out.special.end(), same), out.special.end());

  const auto& by_id = spellings.by_id();
  out.begin.reserve(static_cast<std::size_t>(out.size) + 1);
  auto special = out.special.begin();
  for (std::size_t id = 0; id < static_cast<std::size_t>(out.size); ++id) {
    out.begin.push_back(static_cast<std::uint32_t>(out.text.size()));
    if (id >= by_id.size() || by_id[id] == nullptr) continue;
    const bool verbatim = special != out.special.end() && static_cast<std::size_t>(special->id) == id;
    out.text += verbatim ? (special++)->text : unspell(*by_id[id]);
  }
  out.begin.push_back(static_cast<std::uint32_t>(out.text.size()));
}

inline void find_byte_tokens(const Spellings& spellings, const std::string& file, Vocabulary& out) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string spelling = spell_byte(static_cast<unsigned char>(byte));
    const auto id = spellings.find(spelling);
    if (!id)
      throw Error(Error::Kind::invalid_file, file,
                  "has no token for the byte " + std::to_string(byte) + " (spelled \"" + printable(spelling) +
                      "\"): a byte-level vocabulary needs all 256");
    out.byte_token[static_cast<std::size_t>(byte)] = *id;
  }
}

// vocab.json and merges.txt in `folder`, or an Error that says which of them is missing.
inline void need_tokenizer_files(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) {
    std::error_code ignored;  // of a folder that cannot be searched: opening the file will say why
    return std::filesystem::exists(folder / name, ignored);
  };
  const bool vocabulary = has("vocab.json"), merges = has("merges.txt");
  if (vocabulary && merges) return;
  if (vocabulary) throw Error(Error::Kind::io, "merges.txt", "is missing beside vocab.json; a tokenizer needs both");
  if (merges) throw Error(Error::Kind::io, "vocab.json", "is missing beside merges.txt; a tokenizer needs both");
  if (has("tokenizer.json"))
    throw Error(Error::Kind::unsupported, "tokenizer.json",
                "is not read on its own by this build, whatever model it holds; vocab.json and merges.txt are needed");
  throw Error(
      Error::Kind::io, "tokenizer",
      "the folder \"" + file_name_of(folder) + "\" has none: neither vocab.json with merges.txt nor tokenizer.json");
}

inline Vocabulary load_vocabulary(const std::filesystem::path& folder, std::optional<int> vocab_size) {
  need_tokenizer_files(folder);
  if (vocab_size && (*vocab_size < 1 || *vocab_size > kMaxVocabulary))
    throw Error(Error::Kind::unsupported, "vocab_size",
                "must be from 1 to " + std::to_string(kMaxVocabulary) + ", is " + std::to_string(*vocab_size));
  Vocabulary out;
  Spellings spellings(vocab_size.value_or(kMaxVocabulary));
  read_vocabulary(folder / "vocab.json", spellings);
  find_byte_tokens(spellings, "vocab.json", out);
  read_merges(folder / "merges.txt", spellings, out);
  const auto config = folder / "tokenizer_config.json";
  if (std::error_code ignored; std::filesystem::exists(config, ignored)) {
    const Json json = read_json_file(config, kMaxTokenizerFile);
    read_tokenizer_config(Fields(json, file_name_of(config)), spellings, out);
  }
  default_end_of_text(spellings, out);
  out.size = vocab_size.value_or(static_cast<int>(spellings.by_id().size()));
  lay_out_tokens(spellings, out);
  return out;
}

}  // namespace detail
}  // namespace tenon
