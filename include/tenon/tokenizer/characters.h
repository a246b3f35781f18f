// Initial symbols of SentencePiece's byte-pair merging: the token of each character, the tokens of its bytes, or the
// unknown token.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "tenon/core/views.h"
#include "tenon/tokenizer/merges.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// Spelling of the token for one byte: <0x00> to <0xFF>.
inline std::string byte_fallback_spelling(int byte) {
  constexpr char hex[] = "0123456789ABCDEF";
  return std::string("<0x") + hex[byte >> 4] + hex[byte & 15] + ">";
}

// The byte that byte_fallback_spelling() spells so; empty for other texts.
inline std::optional<int> byte_of_fallback_spelling(std::string_view spelling) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') return std::nullopt;
  const std::size_t high = hex.find(spelling[3]), low = hex.find(spelling[4]);
  if (high == hex.npos || low == hex.npos) return std::nullopt;
  return static_cast<int>(high * 16 + low);
}

// Maps characters to initial symbols, and cuts a text into words that can be merged one by one.
class Characters {
 public:
  Characters() = default;

  // `spellings`: the tokens of the model. A character without a token becomes the tokens of its bytes. Where `bytes`
  // is empty it becomes `unknown`, which is then required; with `fuse`, a run of such characters becomes one unknown
  // token.
  Characters(const Spellings& spellings, std::optional<std::array<TokenId, 256>> bytes,
             const std::optional<std::string>& unknown, bool fuse)
      : bytes_(bytes), fuse_(fuse) {
    for (const std::string* spelling : spellings.by_id()) {
      if (spelling == nullptr) continue;
      const CodePoint point = decode_utf8(*spelling, 0);
      if (static_cast<std::size_t>(point.length) == spelling->size())
        tokens_.emplace(point.value, *spellings.find(*spelling));
    }
    if (bytes) {
      other_ = {'<', '>'};
    } else if (unknown) {
      unknown_ = spellings.find(*unknown).value_or(-1);
      other_ = {first_of(*unknown), last_of(*unknown)};
    }
  }

  // Registers a merge rule of `left` and `right`.
  void add_rule(std::string_view left, std::string_view right) {
    joint_pairs_.insert(key(last_of(left), first_of(right)));
  }

  // End of the word that starts at text[begin], begin < text.size(). No rule merges across the end. A rule would need a
  // left part with the last character before it, and a right part with the first character after it. A text without
  // pieces can therefore be merged word by word, in the memory of one word.
  std::size_t word_end(std::string_view text, std::size_t begin) const {
    CodePoint left = decode_utf8(text, begin);
    bool left_known = tokens_.contains(left.value);
    std::size_t at = begin + static_cast<std::size_t>(left.length);
    while (at < text.size()) {
      const CodePoint right = decode_utf8(text, at);
      const bool right_known = tokens_.contains(right.value);
      const bool fused = fuse_ && !bytes_ && !left_known && !right_known;
      const char32_t last = left_known ? left.value : other_.last, first = right_known ? right.value : other_.first;
      if (!fused && !joint_pairs_.contains(key(last, first))) break;
      left = right;
      left_known = right_known;
      at += static_cast<std::size_t>(right.length);
    }
    return at;
  }

  // Adds the initial symbols of a word.
  void add_symbols(std::string_view word, PieceMerger& merger) const {
    bool unknown_before = false;
    for (std::size_t at = 0; at < word.size();) {
      const CodePoint point = decode_utf8(word, at);
      const auto found = tokens_.find(point.value);
      const bool unknown = found == tokens_.end();
      if (!unknown) merger.add(found->second);
      if (unknown && bytes_)
        for (int k = 0; k < point.length; ++k)
          merger.add((*bytes_)[static_cast<unsigned char>(word[at + static_cast<std::size_t>(k)])]);
      if (unknown && !bytes_ && !(fuse_ && unknown_before)) merger.add(unknown_);
      unknown_before = unknown;
      at += static_cast<std::size_t>(point.length);
    }
  }

 private:
  struct Ends {
    char32_t first = 0, last = 0;
  };

  static std::uint64_t key(char32_t last, char32_t first) { return static_cast<std::uint64_t>(last) << 32 | first; }
  static char32_t first_of(std::string_view spelling) { return decode_utf8(spelling, 0).value; }
  static char32_t last_of(std::string_view spelling) {
    return decode_utf8(spelling, previous_start(spelling, spelling.size())).value;
  }

  std::unordered_map<char32_t, TokenId> tokens_;
  std::optional<std::array<TokenId, 256>> bytes_;
  TokenId unknown_ = -1;
  bool fuse_ = false;
  Ends other_;  // ends of the spelling of a symbol that is not a character
  // key(last character of a left part, first character of its right part).
  std::unordered_set<std::uint64_t, PairHash> joint_pairs_;
};

}  // namespace tenon::detail
