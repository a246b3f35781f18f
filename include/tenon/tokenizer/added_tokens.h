// Tokens that are cut out of a text before its pieces are merged.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/views.h"

namespace tenon::detail {

// The longest of them that begins at the leftmost place is cut, and so on behind it (tokenizers, added_vocabulary.rs).
// Special ones are ordinary text; they take part because a token inside the text of one is not cut either.
class AddedTokens {
 public:
  // Looking for a token costs its length at each place of a text; the longest that is known has 31 bytes.
  static constexpr std::size_t kMaxBytes = 256;

  struct Token {
    std::string text;  // not empty, at most kMaxBytes
    TokenId id;
    bool special;
  };

  AddedTokens() = default;
  // No two of the same text.
  explicit AddedTokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) { return a.text < b.text; });
    for (const Token& token : tokens_) {
      cuts_ = cuts_ || !token.special;
      begins_[static_cast<unsigned char>(token.text.front())] = true;
    }
  }

  // part(std::string_view, std::optional<TokenId>) for each token that is cut out, with its id, and for what stands
  // between them; never for an empty text.
  template <class Part>
  void for_each_part(std::string_view text, Part&& part) const {
    std::size_t begin = 0, at = 0;
    while (cuts_ && at < text.size()) {
      const Token* const found = begins_[static_cast<unsigned char>(text[at])] ? longest_at(text.substr(at)) : nullptr;
      const std::size_t length = found ? found->text.size() : 1;
      if (found && !found->special) {
        if (begin < at) part(text.substr(begin, at - begin), std::optional<TokenId>{});
        part(text.substr(at, length), std::optional<TokenId>{found->id});
        begin = at + length;
      }
      at += length;
    }
    if (begin < text.size()) part(text.substr(begin), std::optional<TokenId>{});
  }

 private:
  // Narrows the tokens to those that begin as the text does, a byte at a time.
  const Token* longest_at(std::string_view text) const {
    const Token* found = nullptr;
    auto low = tokens_.begin(), high = tokens_.end();
    for (std::size_t depth = 0; low != high; ++depth) {
      if (low->text.size() == depth) found = &*low++;  // it is a prefix of the others
      if (depth == text.size()) break;
      const auto c = static_cast<unsigned char>(text[depth]);
      const auto byte = [depth](const Token& token) { return static_cast<unsigned char>(token.text[depth]); };
      low = std::partition_point(low, high, [&](const Token& token) { return byte(token) < c; });
      high = std::partition_point(low, high, [&](const Token& token) { return byte(token) == c; });
    }
    return found;
  }

  std::vector<Token> tokens_;       // by text
  std::array<bool, 256> begins_{};  // whether a token begins with the byte
  bool cuts_ = false;               // whether one of them is not special
};

}  // namespace tenon::detail
