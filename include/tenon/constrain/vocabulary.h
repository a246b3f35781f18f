// What masks need to know of a vocabulary.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
inline void allow(std::span<MaskWord> row, TokenId id) {
  row[static_cast<std::size_t>(id) / 32] |= MaskWord{1} << (static_cast<std::uint32_t>(id) % 32);
}
inline void forbid(std::span<MaskWord> row, TokenId id) {
  row[static_cast<std::size_t>(id) / 32] &= ~(MaskWord{1} << (static_cast<std::uint32_t>(id) % 32));
}
inline bool allows(std::span<const MaskWord> row, TokenId id) {
  return row[static_cast<std::size_t>(id) / 32] >> (static_cast<std::uint32_t>(id) % 32) & 1;
}

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
  explicit TokenTrie(std::vector<Token> tokens) {
    std::erase_if(tokens, [](const Token& token) { return token.bytes.empty(); });
    std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) {
      const int order = a.bytes.compare(b.bytes);
      return order != 0 ? order < 0 : a.id < b.id;
    });
    std::vector<std::uint32_t> open;  // the nodes above what comes next
    std::string_view last;
    for (const Token& token : tokens) {
      const auto differ = std::mismatch(last.begin(), last.end(), token.bytes.begin(), token.bytes.end());
      close(open, static_cast<std::size_t>(differ.first - last.begin()));
      while (open.size() < token.bytes.size()) {
        const auto byte = static_cast<std::uint8_t>(token.bytes[open.size()]);
        open.push_back(static_cast<std::uint32_t>(nodes_.size()));
        nodes_.push_back(
            {0, static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint16_t>(open.size()), byte, 0});
      }
      ids_.push_back(token.id);
      last = token.bytes;
    }
    close(open, 0);
    nodes_.push_back({static_cast<std::uint32_t>(nodes_.size()), static_cast<std::uint32_t>(ids_.size()), 0, 0, 0});
    look_inside(tokens);
  }

  std::size_t size() const noexcept { return nodes_.size() - 1; }
  // i <= size(); node(size()) has no byte, its `first` is the end of all tokens.
  const Node& node(std::size_t i) const { return nodes_[i]; }
  // Those that end here; i < size().
  std::span<const TokenId> tokens(std::size_t i) const { return between(nodes_[i].first, nodes_[i + 1].first); }
  // Those that begin with the bytes that lead here; i < size().
  std::span<const TokenId> subtree(std::size_t i) const {
    return between(nodes_[i].first, nodes_[nodes_[i].end].first);
  }
  // nullptr where they are few, far from the root, or hold parts of characters.
  const Inside* inside(std::size_t i) const { return nodes_[i].inside == 0 ? nullptr : &insides_[nodes_[i].inside]; }
  // Of the whole trie, in the order of their bytes.
  std::span<const TokenId> tokens() const { return ids_; }

 private:
  static constexpr int kBroken = 0x81;     // beside kBeyondAscii: bytes that are no whole character
  static constexpr std::size_t kMany = 8;  // tokens of a subtree: fewer are walked in less time
  static constexpr int kDeepest = 32;      // of such subtrees: bounds the work for long tokens

  // tokens: as ids_
  void look_inside(std::span<const Token> tokens) {
    for (std::size_t i = 0; i < size(); ++i) {
      const std::size_t count = subtree(i).size();
      if (count < kMany || nodes_[i].depth > kDeepest) continue;
      Inside inside;
      for (const Token& token : tokens.subspan(nodes_[i].first, count)) {
        add_to(inside, token.bytes.substr(nodes_[i].depth));
      }
      if (inside.characters.has(kBroken)) continue;
      nodes_[i].inside = static_cast<std::uint32_t>(insides_.size());
      insides_.push_back(inside);
    }
  }
  static void add_to(Inside& inside, std::string_view bytes) {
    int count = 0;
    for (std::size_t at = 0; at < bytes.size(); ++count) {
      const CodePoint point = decode_utf8(bytes, at);
      const int value = point.value < 0x80 ? static_cast<int>(point.value) : kBeyondAscii;
      inside.characters.add(point.status == Utf8Status::valid ? value : kBroken);
      at += static_cast<std::size_t>(point.length);
    }
    inside.longest = std::max(inside.longest, count);
  }

  void close(std::vector<std::uint32_t>& open, std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) nodes_[open.back()].end = static_cast<std::uint32_t>(nodes_.size());
  }
  std::span<const TokenId> between(std::uint32_t begin, std::uint32_t end) const {
    return std::span<const TokenId>(ids_).subspan(begin, end - begin);
  }

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
  Vocabulary(std::vector<std::string> tokens, int width, std::vector<TokenId> ends)
      : width_(width), ends_(std::move(ends)) {
    if (width < 0 || tokens.size() > static_cast<std::size_t>(width)) {
      throw Error(Error::Kind::invalid_request, "vocabulary",
                  std::to_string(tokens.size()) + " tokens, but " + std::to_string(width) + " logits");
    }
    std::erase_if(ends_, [&](TokenId id) { return id < 0 || id >= width; });
    std::sort(ends_.begin(), ends_.end());
    ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
    for (const TokenId id : ends_) {
      if (static_cast<std::size_t>(id) < tokens.size()) tokens[static_cast<std::size_t>(id)].clear();
    }
    keep(tokens);
    build_tries();
    build_rows();
  }

  // width: at least the tokenizer's vocabulary, or what is behind it is never allowed.
  static Vocabulary from(const Tokenizer& tokenizer, int width, std::vector<TokenId> ends) {
    std::vector<std::string> tokens(
        static_cast<std::size_t>(std::clamp(tokenizer.vocab_size(), 0, std::max(width, 0))));
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      const auto token = static_cast<TokenId>(id);
      if (!tokenizer.is_special(token)) tokens[id] = tokenizer.bytes(token);
    }
    return Vocabulary(std::move(tokens), width, std::move(ends));
  }

  // Of the tokenizer alone, ended by its end of text, where it has one.
  static Vocabulary from(const Tokenizer& tokenizer) {
    std::vector<TokenId> ends;
    if (const auto end = tokenizer.end_of_text()) ends.push_back(*end);
    return from(tokenizer, tokenizer.vocab_size(), std::move(ends));
  }

  // A token for each byte, its id the byte, and 256 to end with.
  static Vocabulary bytes() {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    return Vocabulary(std::move(tokens), 257, {256});
  }

  int width() const noexcept { return width_; }
  std::size_t words() const noexcept { return (static_cast<std::size_t>(width_) + 31) / 32; }  // of a mask
  std::span<const TokenId> ends() const noexcept { return ends_; }                             // ascending
  // Of one token; none where it is no text. Any id.
  std::string_view bytes(TokenId id) const {
    const auto at = static_cast<std::size_t>(id);
    if (id < 0 || at + 1 >= begins_.size()) return {};
    return std::string_view(text_).substr(begins_[at], begins_[at + 1] - begins_[at]);
  }
  std::size_t longest() const noexcept { return longest_; }  // bytes of a token

  const TokenTrie& trie() const noexcept { return trie_; }               // of all tokens
  const TokenTrie& remainder() const noexcept { return remainder_; }     // of those that are not plain
  int longest_remainder() const noexcept { return longest_remainder_; }  // bytes of one of them

  // How many characters a plain token has; 0 where it is not plain.
  int characters(TokenId id) const {
    return id < 0 || static_cast<std::size_t>(id) >= characters_.size() ? 0 : characters_[static_cast<std::size_t>(id)];
  }
  // The most that a plain token of at most so many has; 0 where none is so short.
  int most_characters(int most) const {
    const auto behind = std::upper_bound(counts_.begin(), counts_.end(), most);
    return behind == counts_.begin() ? 0 : *std::prev(behind);
  }
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
  void keep(const std::vector<std::string>& tokens) {
    hash_ = hash64(std::as_bytes(std::span(ends_)), static_cast<std::uint64_t>(width_));
    begins_.push_back(0);
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      const std::string& bytes = tokens[id];
      if (bytes.size() > TokenTrie::kLongest) {
        throw Error(Error::Kind::unsupported, "token " + std::to_string(id),
                    "has " + std::to_string(bytes.size()) + " bytes, at most " + std::to_string(TokenTrie::kLongest) +
                        " can be constrained");
      }
      text_ += bytes;
      begins_.push_back(text_.size());
      longest_ = std::max(longest_, bytes.size());
      characters_.push_back(plain_characters(bytes));
      hash_ = hash64(bytes, hash_);
    }
  }

  static std::uint16_t plain_characters(std::string_view bytes) {
    int count = 0;
    for (std::size_t at = 0; at < bytes.size(); ++count) {
      const CodePoint point = decode_utf8(bytes, at);
      const bool escaped = point.value < 0x20 || point.value == U'"' || point.value == U'\\';
      if (point.status != Utf8Status::valid || escaped) return 0;
      at += static_cast<std::size_t>(point.length);
    }
    return static_cast<std::uint16_t>(count);
  }

  void build_tries() {
    std::vector<TokenTrie::Token> all, others;
    std::array<bool, 256> seen{};
    for (std::size_t at = 0; at < characters_.size(); ++at) {
      const auto id = static_cast<TokenId>(at);
      all.push_back({bytes(id), id});
      if (characters_[at] == 0) others.push_back(all.back());
      if (all.back().bytes.size() == 1) seen[static_cast<unsigned char>(all.back().bytes.front())] = true;
    }
    trie_ = TokenTrie(std::move(all));
    for (const TokenTrie::Token& token : others)
      longest_remainder_ = std::max(longest_remainder_, static_cast<int>(token.bytes.size()));
    remainder_ = TokenTrie(std::move(others));
    has_all_bytes_ = std::all_of(seen.begin(), seen.end(), [](bool is) { return is; });
  }

  void build_rows() {
    rows_.resize((kRows + 2) * words());
    const auto made = [&](int k) { return std::span(rows_).subspan(static_cast<std::size_t>(k) * words(), words()); };
    for (std::size_t at = 0; at < characters_.size(); ++at) {
      if (characters_[at] == 0) continue;
      const auto id = static_cast<TokenId>(at);
      for (int k = characters_[at]; k <= kRows; ++k) allow(made(k), id);
      allow(made(kRows + 1), id);
      if (characters_[at] > kRows) long_plain_.push_back(id);
    }
    counts_.assign(characters_.begin(), characters_.end());
    std::sort(counts_.begin(), counts_.end());
    counts_.erase(std::unique(counts_.begin(), counts_.end()), counts_.end());
    std::stable_sort(long_plain_.begin(), long_plain_.end(),
                     [&](TokenId a, TokenId b) { return characters(a) < characters(b); });
  }

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
