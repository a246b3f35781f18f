// What masks need to know of a vocabulary.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/constrain/byte_set.h"
#include "tenon/constrain/characters.h"
#include "tenon/core/error.h"
#include "tenon/core/hash.h"
#include "tenon/core/views.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::constrain {

// A mask is a row of bits, 32 a word, that of token 0 lowest; 1: allowed.
using MaskWord = std::uint32_t;
void allow(std::span<MaskWord> row, TokenId id);
void forbid(std::span<MaskWord> row, TokenId id);
bool allows(std::span<const MaskWord> row, TokenId id);

// Tokens by their bytes. Nodes are in depth-first order, bytes ascending, with no root: a walk begins with node 0, ends
// at size(), enters a node's children with ++i and passes its subtree by with i = node(i).end.
class TokenTrie {
 public:
  struct Node {
    std::uint32_t end;    // the first node behind the subtree
    std::uint32_t first;  // where the subtree's tokens begin, those of the node itself in front
    std::uint16_t depth;  // from 1
    std::uint8_t byte;
    std::uint32_t inside;  // of insides_, of a subtree of many tokens; else 0
  };
  // What a subtree's tokens hold behind the bytes that lead there, where these are whole characters.
  struct Inside {
    ByteSet characters;
    int longest = 0;  // in characters
  };
  struct Token {
    std::string_view bytes;  // at most kLongest
    TokenId id;
  };
  static constexpr std::size_t kLongest = std::numeric_limits<std::uint16_t>::max();

  TokenTrie() : TokenTrie(std::vector<Token>{}) {}
  // Tokens of no bytes are left out. Those of the same bytes are at the same node, by id.
  explicit TokenTrie(std::vector<Token> tokens);

  std::size_t size() const noexcept { return nodes_.size() - 1; }
  // i <= size(); node(size()) has no byte, its `first` is the end of all tokens.
  const Node& node(std::size_t i) const { return nodes_[i]; }
  // Those that end here; i < size().
  std::span<const TokenId> tokens(std::size_t i) const { return between(nodes_[i].first, nodes_[i + 1].first); }
  // Those that begin with the bytes that lead here; i < size().
  std::span<const TokenId> subtree(std::size_t i) const;
  // nullptr where they are few, far from the root, or hold parts of characters.
  const Inside* inside(std::size_t i) const { return nodes_[i].inside == 0 ? nullptr : &insides_[nodes_[i].inside]; }
  // Of the whole trie, in the order of their bytes.
  std::span<const TokenId> tokens() const { return ids_; }

 private:
  static constexpr int kBroken = 0x81;     // beside kBeyondAscii: bytes that are no whole character
  static constexpr std::size_t kMany = 8;  // tokens of a subtree: fewer are walked in less time
  static constexpr int kDeepest = 32;      // of such subtrees: bounds the work for long tokens

  // tokens: as ids_
  void look_inside(std::span<const Token> tokens);
  static void add_to(Inside& inside, std::string_view bytes);

  void close(std::vector<std::uint32_t>& open, std::size_t depth);
  std::span<const TokenId> between(std::uint32_t begin, std::uint32_t end) const;

  std::vector<Node> nodes_;  // and one behind them
  std::vector<Inside> insides_{1};
  std::vector<TokenId> ids_;
};

// Made once; const use is safe from many threads.
//
// Plain tokens are whole characters, none of which a JSON string needs to escape (", \ and those below U+0020): inside
// of a string, how many characters they have is all that decides on them. They are 99 % of GPT-2's.
class Vocabulary {
 public:
  static constexpr int kRows = 32;

  // tokens[id]: its bytes, none where it is special or has none; such tokens, those of `ends` and ids from
  // tokens.size() on are no text, so never allowed as such. width: of the model's logits. ends: what ends a text; ids
  // from `width` on are left out. Errors: invalid_request where there are more tokens than logits, unsupported beyond
  // TokenTrie::kLongest.
  Vocabulary(std::vector<std::string> tokens, int width, std::vector<TokenId> ends);

  // width: at least the tokenizer's vocabulary, or what is behind it is never allowed.
  static Vocabulary from(const Tokenizer& tokenizer, int width, std::vector<TokenId> ends);

  // Of the tokenizer alone, ended by its end of text, where it has one.
  static Vocabulary from(const Tokenizer& tokenizer);

  // A token for each byte, its id the byte, and 256 to end with.
  static Vocabulary bytes();

  int width() const noexcept { return width_; }
  std::size_t words() const noexcept { return (static_cast<std::size_t>(width_) + 31) / 32; }  // of a mask
  std::span<const TokenId> ends() const noexcept { return ends_; }                             // ascending
  // Of one token; none where it is no text. Any id.
  std::string_view bytes(TokenId id) const;
  std::size_t longest() const noexcept { return longest_; }  // bytes of a token

  const TokenTrie& trie() const noexcept { return trie_; }               // of all tokens
  const TokenTrie& remainder() const noexcept { return remainder_; }     // of those that are not plain
  int longest_remainder() const noexcept { return longest_remainder_; }  // bytes of one of them

  // How many characters a plain token has; 0 where it is not plain.
  int characters(TokenId id) const;
  // The most that a plain token of at most so many has; 0 where none is so short.
  int most_characters(int most) const;
  // Plain tokens of at most k characters, 0 <= k <= kRows: words() long.
  std::span<const MaskWord> plain_up_to(int k) const { return row(static_cast<std::size_t>(k)); }
  // All of them.
  std::span<const MaskWord> plain() const { return row(kRows + 1); }
  // Those of more than kRows characters, the shorter ones in front.
  std::span<const TokenId> long_plain() const noexcept { return long_plain_; }

  // Whether each byte is a token. Then some token is allowed wherever a text can go on, so that no constraint whose
  // states all lead to an end can run into a dead end.
  bool has_all_bytes() const noexcept { return has_all_bytes_; }

  // Of all that was given: vocabularies of the same hash have the same masks.
  std::uint64_t hash() const noexcept { return hash_; }

 private:
  void keep(const std::vector<std::string>& tokens);

  static std::uint16_t plain_characters(std::string_view bytes);

  void build_tries();

  void build_rows();

  std::span<const MaskWord> row(std::size_t k) const { return std::span(rows_).subspan(k * words(), words()); }

  int width_;
  std::vector<TokenId> ends_;
  std::string text_;                       // the bytes of all tokens
  std::vector<std::size_t> begins_;        // [tokens + 1] in text_
  std::vector<std::uint16_t> characters_;  // [tokens]
  std::vector<int> counts_;                // of characters, as tokens have them, ascending; that of others is 0
  std::vector<MaskWord> rows_;             // [kRows + 2, words()]
  std::vector<TokenId> long_plain_;
  std::size_t longest_ = 0;
  int longest_remainder_ = 0;
  std::uint64_t hash_ = 0;
  bool has_all_bytes_ = false;
  TokenTrie trie_, remainder_;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/vocabulary-inl.h"
#endif
