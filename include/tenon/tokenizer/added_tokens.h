// Tokens that are cut out of a text before the rest is merged.
#pragma once
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// Decides where the spelling of a special token becomes its id. Added tokens that are not special are found
// everywhere.
class SpecialSpellings {
 public:
  enum class Found : std::uint8_t {
    token,    // the token is cut out
    text,     // ordinary characters; no other token is searched inside them
    nothing,  // no match: a shorter token may start at the first byte
  };

  static SpecialSpellings nowhere() { return SpecialSpellings(Found::text, {}); }
  static SpecialSpellings everywhere() { return SpecialSpellings(Found::token, {}); }
  // `mask`: one byte for each byte of the text. A spelling is a token where all its bytes are nonzero in the mask.
  static SpecialSpellings where(std::string_view mask) { return SpecialSpellings(Found::nothing, mask); }

  bool never() const noexcept { return whole_ == Found::text; }
  bool by_mask() const noexcept { return whole_ == Found::nothing; }
  std::string_view mask() const noexcept { return mask_; }
  // The same rule for bytes [begin, begin + size) of the text.
  SpecialSpellings of_part(std::size_t begin, std::size_t size) const {
    return SpecialSpellings(whole_, by_mask() ? mask_.substr(begin, size) : mask_);
  }

  // Classifies a special token that spells the bytes [begin, begin + size).
  Found at(std::size_t begin, std::size_t size) const {
    if (!by_mask()) return whole_;
    const std::string_view mask = mask_.substr(begin, size);
    const bool any = mask.find_first_not_of('\0') != mask.npos, all = mask.find('\0') == mask.npos;
    return all ? Found::token : any ? Found::nothing : Found::text;
  }

 private:
  SpecialSpellings(Found whole, std::string_view mask) : whole_(whole), mask_(mask) {}

  Found whole_;
  std::string_view mask_;
};

// \w of Rust's regular expressions: Alphabetic, marks, decimal digits, connectors, and the two joiners (UTS #18).
// Alphabetic consists of letters, letter numbers, marks, and the circled and squared Latin letters (PropList.txt).
inline bool is_word_character(char32_t c) noexcept {
  if (c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189))
    return true;
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_NO:
      return false;
    default:
      return char_class(c) == CharClass::letter || char_class(c) == CharClass::number;
  }
}

// Cuts the leftmost longest token, then continues after it (tokenizers 0.22, added_vocabulary.rs).
class AddedTokens {
 public:
  // A search costs the length of a token at each position of a text. The longest known token has 31 bytes.
  static constexpr std::size_t kMaxBytes = 256;

  struct Token {
    std::string text;  // not empty, at most kMaxBytes
    TokenId id = 0;    // -1: a special token without a row in the model; it stays text
    bool special = false;
    bool single_word = false;             // found only where neither neighbour is a word character
    bool lstrip = false, rstrip = false;  // also takes the white space before, after it
  };

  AddedTokens() = default;
  // The first of several tokens with the same text counts.
  explicit AddedTokens(std::vector<Token> tokens) {
    std::unordered_set<std::string> seen;
    for (Token& token : tokens)
      if (seen.insert(token.text).second) tokens_.push_back(std::move(token));
    std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) { return a.text < b.text; });
    for (const Token& token : tokens_) {
      has_plain_ = has_plain_ || !token.special;
      strips_ = strips_ || token.lstrip || token.rstrip;
      begins_[static_cast<unsigned char>(token.text.front())] = true;
    }
  }

  // Whether a token can cover any amount of white space.
  bool strips() const noexcept { return strips_; }
  const std::vector<Token>& tokens() const noexcept { return tokens_; }

  // Calls part(begin, size, std::optional<TokenId>) in order: with the id for each token that is cut out, without for
  // each nonempty stretch of text between them. Offsets are bytes of `text`.
  template <class Part>
  void for_each_part(std::string_view text, const SpecialSpellings& special, Part&& part) const {
    std::size_t done = 0, spaces_end = 0;  // spaces_end: end of the last white space that rstrip took
    const bool looks = has_plain_ || (!special.never() && !tokens_.empty());
    for (std::size_t at = 0; looks && at < text.size();) {
      const Token* const found =
          begins_[static_cast<unsigned char>(text[at])] ? longest_at(text, at, special) : nullptr;
      std::size_t begin = at, end = at + (found ? found->text.size() : 1);
      at = end;
      if (!found || (found->special && !is_token(*found, special.at(begin, end - begin)))) continue;
      if (found->single_word && !stands_alone(text, begin, end)) continue;
      if (found->lstrip) begin = std::max(space_begin(text, begin, done), done);
      // Ends of tokens only grow. An end before spaces_end is inside the same white space, so total time stays linear.
      if (found->rstrip) end = spaces_end = end <= spaces_end ? spaces_end : space_end(text, end);
      if (done < begin) part(done, begin - done, std::optional<TokenId>{});
      // The library drops a token whose text was taken by the one before it. It fails where begin > end.
      if (begin < end) part(begin, end - begin, std::optional<TokenId>{found->id});
      done = std::max(begin, end);
    }
    if (done < text.size()) part(done, text.size() - done, std::optional<TokenId>{});
  }

 private:
  static bool is_token(const Token& token, SpecialSpellings::Found found) noexcept {
    return token.id >= 0 && found == SpecialSpellings::Found::token;
  }

  // Narrows the range of tokens to those that match the text, one byte at a time.
  const Token* longest_at(std::string_view text, std::size_t at, const SpecialSpellings& special) const {
    const Token* found = nullptr;
    auto low = tokens_.begin(), high = tokens_.end();
    for (std::size_t depth = 0; low != high; ++depth) {
      if (low->text.size() == depth) {  // a prefix of the other tokens in the range
        const Token& token = *low++;
        if (!token.special || special.at(at, depth) != SpecialSpellings::Found::nothing) found = &token;
      }
      if (at + depth == text.size()) break;
      const auto c = static_cast<unsigned char>(text[at + depth]);
      const auto byte = [depth](const Token& token) { return static_cast<unsigned char>(token.text[depth]); };
      low = std::partition_point(low, high, [&](const Token& token) { return byte(token) < c; });
      high = std::partition_point(low, high, [&](const Token& token) { return byte(token) == c; });
    }
    return found;
  }

  static std::size_t character_before(std::string_view text, std::size_t at) noexcept {
    do --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    return at;
  }

  static bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) noexcept {
    const auto word_at = [&](std::size_t at) { return is_word_character(decode_utf8(text, at).value); };
    return (begin == 0 || !word_at(character_before(text, begin))) && (end == text.size() || !word_at(end));
  }

  static bool space_at(std::string_view text, std::size_t at) noexcept {
    return char_class(decode_utf8(text, at).value) == CharClass::space;
  }
  // Start of the white space before text[at], but at least `least`.
  static std::size_t space_begin(std::string_view text, std::size_t at, std::size_t least) noexcept {
    while (at > least && space_at(text, character_before(text, at))) at = character_before(text, at);
    return at;
  }
  static std::size_t space_end(std::string_view text, std::size_t at) noexcept {
    while (at < text.size() && space_at(text, at)) at += static_cast<std::size_t>(decode_utf8(text, at).length);
    return at;
  }

  std::vector<Token> tokens_;       // sorted by text
  std::array<bool, 256> begins_{};  // whether a token starts with the byte
  bool has_plain_ = false;          // whether some token is not special
  bool strips_ = false;
};

}  // namespace tenon::detail
