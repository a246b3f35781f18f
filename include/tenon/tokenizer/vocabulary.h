// What a tokenizer knows once its files have been read.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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
#include "tenon/tokenizer/special_token.h"
#include "tenon/tokenizer/spellings.h"

namespace tenon::detail {

// What becomes of text on its way to pieces, and of tokens on their way to text.
struct Pipeline {
  TokenizerFamily family = TokenizerFamily::byte_level;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool lone_byte_level = false;         // the pre-tokenizer is ByteLevel alone
  AddedTokens added, added_normalized;  // cut out of text before, and after, it is normalized
  std::vector<TokenId> before, after;   // what encode_prompt puts around a text
  enum class Start : std::uint8_t { keep, drop_space, drop_spaces_of_token } start = Start::keep;  // of a decoded text
};

struct TokenizerTables {
  int size = 0;                           // ids are in [0, size); not each needs a token
  std::string text;                       // the bytes of all tokens, in the order of their ids
  std::vector<std::uint32_t> begin;       // [size + 1] in text
  std::size_t longest_token = 0;          // bytes
  std::array<TokenId, 256> byte_token{};  // [byte], of byte_level; -1: it has none
  std::optional<TokenId> unknown_byte;    // for a byte without a token; none: the byte is dropped
  bool fuses_unknown = false;             // one for a run of such bytes
  Characters characters;                  // of sentencepiece
  MergeRules merges;
  std::unordered_map<std::string, TokenId> whole;  // pieces that are tokens, and are not merged (ignore_merges)
  std::size_t longest_whole = 0;                   // bytes
  Pipeline pipeline;
  std::vector<SpecialToken> special;  // by id
  std::optional<TokenId> bos, eos, pad;

  // Whether a byte of UTF-8 has no token.
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

// Sorts the special tokens, each once.
inline void sort_special_tokens(TokenizerTables& out) {
  std::sort(out.special.begin(), out.special.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const auto same = [](const SpecialToken& a, const SpecialToken& b) { return a.id == b.id; };
  out.special.erase(std::unique(out.special.begin(), out.special.end(), same), out.special.end());
}

// special: sorted.
inline bool is_special(const std::vector<SpecialToken>& special, TokenId id) noexcept {
  const auto found =
      std::lower_bound(special.begin(), special.end(), id, [](const SpecialToken& a, TokenId b) { return a.id < b; });
  return found != special.end() && found->id == id;
}

// Lays the bytes of all tokens side by side: bytes(id, spelling) of each.
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
