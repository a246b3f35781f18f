// The tables of a tokenizer after its files have been read.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/tokenizer/added_tokens.h"
#include "tenon/tokenizer/byte_level.h"
#include "tenon/tokenizer/characters.h"
#include "tenon/tokenizer/merges.h"
#include "tenon/tokenizer/metaspace.h"
#include "tenon/tokenizer/normalizer.h"
#include "tenon/tokenizer/pre_tokenizer.h"
#include "tenon/tokenizer/sentencepiece_model.h"
#include "tenon/tokenizer/special_token.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/unigram.h"

namespace tenon::detail {

// The steps from text to pieces, and from tokens to text.
struct Pipeline {
  TokenizerFamily family = TokenizerFamily::byte_level;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool lone_byte_level = false;         // the pre-tokenizer is ByteLevel alone
  AddedTokens added, added_normalized;  // cut out before normalization, and after it
  std::vector<TokenId> before, after;   // the tokens that encode_prompt puts around a text
  // How a decoded text starts.
  enum class Start : std::uint8_t { keep, drop_space, drop_spaces_of_token } start = Start::keep;
};

// All tables of a tokenizer.
struct TokenizerTables {
  int size = 0;                           // ids are in [0, size); some may have no token
  std::string text;                       // bytes of all tokens, in the order of their ids
  std::vector<std::uint32_t> begin;       // [size + 1]; offsets in `text`
  std::size_t longest_token = 0;          // bytes
  std::array<TokenId, 256> byte_token{};  // byte-level: [byte]; -1: no token
  std::optional<TokenId> unknown_byte;    // for a byte without a token; empty: the byte is dropped
  bool fuses_unknown = false;             // one unknown token for a run of such bytes
  Characters characters;                  // SentencePiece
  MergeRules merges;
  std::unordered_map<std::string, TokenId> whole;           // pieces that are tokens without merging (ignore_merges)
  std::size_t longest_whole = 0;                            // bytes
  std::shared_ptr<const Unigram> unigram;                   // cuts pieces in place of merges; null: merges do
  std::shared_ptr<const SentencePieceModel> sentencepiece;  // read from tokenizer.model; replaces all other steps
  Pipeline pipeline;
  std::vector<SpecialToken> special;  // sorted by id
  std::optional<TokenId> bos, eos, pad;
  std::vector<std::string> ignored;  // fields of tokenizer_config.json that have no effect

  // Whether a byte that occurs in UTF-8 has no token.
  bool has_holes() const noexcept {
    for (int byte = 0; byte < 256; ++byte)
      if (byte_token[static_cast<std::size_t>(byte)] < 0 && occurs_in_utf8(byte)) return true;
    return false;
  }
};

inline void find_byte_tokens(const Spellings& spellings, TokenizerTables& out) {
  for (int byte = 0; byte < 256; ++byte)
    out.byte_token[static_cast<std::size_t>(byte)] =
        spellings.find(spell_byte(static_cast<unsigned char>(byte))).value_or(-1);
}

// Sorts the special tokens by id and removes duplicates.
inline void sort_special_tokens(TokenizerTables& out) {
  std::sort(out.special.begin(), out.special.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const auto same = [](const SpecialToken& a, const SpecialToken& b) { return a.id == b.id; };
  out.special.erase(std::unique(out.special.begin(), out.special.end(), same), out.special.end());
}

// `special`: sorted by id.
inline bool is_special(const std::vector<SpecialToken>& special, TokenId id) noexcept {
  const auto found =
      std::lower_bound(special.begin(), special.end(), id, [](const SpecialToken& a, TokenId b) { return a.id < b; });
  return found != special.end() && found->id == id;
}

// Concatenates the bytes of all tokens. bytes(id, spelling) gives those of one token.
template <class Bytes>
void lay_out_tokens(const Spellings& spellings, Bytes&& bytes, TokenizerTables& out) {
  const auto& by_id = spellings.by_id();
  out.begin.reserve(static_cast<std::size_t>(out.size) + 1);
  for (std::size_t id = 0; id < static_cast<std::size_t>(out.size); ++id) {
    out.begin.push_back(static_cast<std::uint32_t>(out.text.size()));
    if (id < by_id.size() && by_id[id] != nullptr) out.text += bytes(static_cast<TokenId>(id), *by_id[id]);
    out.longest_token = std::max(out.longest_token, out.text.size() - out.begin.back());
  }
  out.begin.push_back(static_cast<std::uint32_t>(out.text.size()));
}

}  // namespace tenon::detail
