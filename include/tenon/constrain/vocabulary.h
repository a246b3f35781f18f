// A vocabulary prepared for masks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
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

/// A mask is a row of bits, 32 per word, token 0 in the lowest bit. 1: allowed.
using MaskWord = std::uint32_t;
/// Set, clear and test the bit of a token.
void allow(std::span<MaskWord> row, TokenId id);
void forbid(std::span<MaskWord> row, TokenId id);
bool allows(std::span<const MaskWord> row, TokenId id);

/// A trie of tokens by their bytes. Nodes are in depth-first order, with bytes ascending and without a root. A walk
/// starts at node 0 and ends at size(). It enters the children of a node with ++i and skips its subtree with
/// i = node(i).end.
class TokenTrie {
 public:
  /// One byte of a token.
  struct Node {
    std::uint32_t end;     ///< the first node after the subtree
    std::uint32_t first;   ///< first token of the subtree; the node's own tokens come first
    std::uint16_t depth;   ///< from 1
    std::uint8_t byte;     ///< the last byte of the path
    std::uint32_t inside;  ///< index into insides_ for a subtree of many tokens, otherwise 0
  };
  /// The characters after the node's own bytes in all tokens of its subtree, if these are whole characters.
  struct Inside {
    ByteSet characters;  ///< as in characters.h
    int longest = 0;     ///< in characters
  };
  /// A token to insert.
  struct Token {
    std::string_view bytes;  ///< at most kLongest
    TokenId id;
  };
  static constexpr std::size_t kLongest = std::numeric_limits<std::uint16_t>::max();  ///< bytes of a token

  TokenTrie() : TokenTrie(std::vector<Token>{}) {}
  /// Tokens without bytes are dropped. Tokens with equal bytes are at the same node, sorted by id.
  explicit TokenTrie(std::vector<Token> tokens);

  /// Number of nodes.
  std::size_t size() const noexcept { return nodes_.size() - 1; }
  /// i <= size(). node(size()) has no byte, and its `first` is the number of tokens.
  const Node& node(std::size_t i) const { return nodes_[i]; }
  /// The tokens that end at node i; i < size().
  std::span<const TokenId> tokens(std::size_t i) const { return between(nodes_[i].first, nodes_[i + 1].first); }
  /// The tokens that start with the bytes of node i; i < size().
  std::span<const TokenId> subtree(std::size_t i) const;
  /// Null where the subtree is small, deep, or contains parts of characters.
  const Inside* inside(std::size_t i) const { return nodes_[i].inside == 0 ? nullptr : &insides_[nodes_[i].inside]; }
  /// A token that a text begins with.
  struct Match {
    TokenId id = -1;
    std::size_t bytes = 0;  ///< 0: there is none
  };
  /// The longest token that the text begins with; of several, the one with the lowest id.
  Match longest(std::string_view text) const;
  /// All tokens, sorted by their bytes.
  std::span<const TokenId> tokens() const { return ids_; }

 private:
  static constexpr int kBroken = 0x81;     // beside kBeyondAscii: bytes that are not a whole character
  static constexpr std::size_t kMany = 8;  // tokens of a subtree; walking fewer is faster
  static constexpr int kDeepest = 32;      // depth of such subtrees: bounds the work for long tokens

  // `tokens`: in the order of ids_.
  void look_inside(std::span<const Token> tokens);
  static void add_to(Inside& inside, std::string_view bytes);

  void close(std::vector<std::uint32_t>& open, std::size_t depth);
  std::span<const TokenId> between(std::uint32_t begin, std::uint32_t end) const;

  std::vector<Node> nodes_;  // and one after the last
  std::vector<Inside> insides_{1};
  std::vector<TokenId> ids_;
};

/// The tokens of a model, prepared for masks. Immutable; thread-safe.
///
/// Plain tokens consist of whole characters that a JSON string does not escape (all but ", \ and those below U+0020).
/// Inside a string, only their number of characters decides whether they are allowed. 99 % of GPT-2's tokens are plain.
class Vocabulary {
 public:
  /// Numbers of characters for which plain_up_to() has a row.
  static constexpr int kRows = 32;

  /// tokens[id]: its bytes; empty for special tokens and ids without bytes. Tokens without bytes, those in `ends`
  /// and ids from tokens.size() on are never allowed as text. width: number of logits. ends: tokens that end a text;
  /// ids from `width` on are dropped. Errors: invalid_request if there are more tokens than logits; unsupported for
  /// tokens longer than TokenTrie::kLongest.
  Vocabulary(std::vector<std::string> tokens, int width, std::vector<TokenId> ends);

  /// The tokens of a tokenizer. `width`: number of logits; tokens beyond it are never allowed. `spelled`: special
  /// tokens that count as the text of their spelling; the others have no text. Keeps a copy of the tokenizer, which
  /// shares its tables.
  static Vocabulary from(const Tokenizer& tokenizer, int width, std::vector<TokenId> ends,
                         std::span<const TokenId> spelled = {});

  /// The tokens of a tokenizer, with its end of text, if any, and as many logits as tokens.
  static Vocabulary from(const Tokenizer& tokenizer);

  /// One token for each byte, whose id is the byte, and 256 as the end.
  static Vocabulary bytes();

  /// Number of logits.
  int width() const noexcept { return width_; }
  std::size_t words() const noexcept { return (static_cast<std::size_t>(width_) + 31) / 32; }  ///< words of a mask
  std::span<const TokenId> ends() const noexcept { return ends_; }                             ///< ascending
  /// The bytes of a token, for any id; empty where it is not text.
  std::string_view bytes(TokenId id) const;
  std::size_t longest() const noexcept { return longest_; }  ///< bytes of the longest token
  /// Tokens that write a text as the tokenizer does. Where there is no tokenizer, or it would write other bytes, and
  /// from bytes on that are no characters: the longest tokens first, up to a byte that no token begins with.
  std::vector<TokenId> split(std::string_view text) const;

  const TokenTrie& trie() const noexcept { return trie_; }               ///< all tokens
  const TokenTrie& remainder() const noexcept { return remainder_; }     ///< tokens that are not plain
  int longest_remainder() const noexcept { return longest_remainder_; }  ///< bytes of the longest of them

  /// Number of characters of a plain token; 0 where it is not plain.
  int characters(TokenId id) const;
  /// Most characters of a plain token with at most `most` characters; 0 where there is none.
  int most_characters(int most) const;
  /// Plain tokens of at most k characters, 0 <= k <= kRows. [words()].
  std::span<const MaskWord> plain_up_to(int k) const { return row(static_cast<std::size_t>(k)); }
  /// All plain tokens. [words()].
  std::span<const MaskWord> plain() const { return row(kRows + 1); }
  /// Plain tokens of more than kRows characters, shortest first.
  std::span<const TokenId> long_plain() const noexcept { return long_plain_; }

  /// Whether each byte is a token. If so, some token is allowed wherever a text can continue. A constraint whose
  /// states all lead to an end then cannot reach a dead end.
  bool has_all_bytes() const noexcept { return has_all_bytes_; }

  /// Hash of all arguments of the constructor. Vocabularies with equal hashes have the same masks.
  std::uint64_t hash() const noexcept { return hash_; }

 private:
  void keep(const std::vector<std::string>& tokens);

  // The tokenizer's tokens for a text; empty where there is none, or where they have other bytes.
  std::vector<TokenId> encoded(std::string_view text) const;

  static std::uint16_t plain_characters(std::string_view bytes);

  void build_tries();

  void build_rows();

  std::span<const MaskWord> row(std::size_t k) const { return std::span(rows_).subspan(k * words(), words()); }

  int width_;
  std::vector<TokenId> ends_;
  std::string text_;                       // bytes of all tokens
  std::vector<std::size_t> begins_;        // [tokens + 1], offsets in text_
  std::vector<std::uint16_t> characters_;  // [tokens]; 0: not plain
  std::vector<int> counts_;                // the different values in characters_, ascending
  std::vector<MaskWord> rows_;             // [kRows + 2, words()]
  std::vector<TokenId> long_plain_;
  std::size_t longest_ = 0;
  int longest_remainder_ = 0;
  std::uint64_t hash_ = 0;
  std::optional<Tokenizer> tokenizer_;
  bool has_spelled_ = false;  // some special token counts as its spelling
  bool has_all_bytes_ = false;
  TokenTrie trie_, remainder_;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/vocabulary-inl.h"
#endif
