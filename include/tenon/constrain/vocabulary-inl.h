#pragma once
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "tenon/constrain/vocabulary.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE void allow(std::span<MaskWord> row, TokenId id) {
  row[static_cast<std::size_t>(id) / 32] |= MaskWord{1} << (static_cast<std::uint32_t>(id) % 32);
}

TENON_INLINE void forbid(std::span<MaskWord> row, TokenId id) {
  row[static_cast<std::size_t>(id) / 32] &= ~(MaskWord{1} << (static_cast<std::uint32_t>(id) % 32));
}

TENON_INLINE bool allows(std::span<const MaskWord> row, TokenId id) {
  return row[static_cast<std::size_t>(id) / 32] >> (static_cast<std::uint32_t>(id) % 32) & 1;
}

TENON_INLINE TokenTrie::TokenTrie(std::vector<Token> tokens) {
  std::erase_if(tokens, [](const Token& token) { return token.bytes.empty(); });
  std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) {
    const int order = a.bytes.compare(b.bytes);
    return order != 0 ? order < 0 : a.id < b.id;
  });
  std::vector<std::uint32_t> open;  // the path of nodes to the current position
  std::string_view last;
  for (const Token& token : tokens) {
    const auto differ = std::mismatch(last.begin(), last.end(), token.bytes.begin(), token.bytes.end());
    close(open, static_cast<std::size_t>(differ.first - last.begin()));
    while (open.size() < token.bytes.size()) {
      const auto byte = static_cast<std::uint8_t>(token.bytes[open.size()]);
      open.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint16_t>(open.size()), byte, 0});
    }
    ids_.push_back(token.id);
    last = token.bytes;
  }
  close(open, 0);
  nodes_.push_back({static_cast<std::uint32_t>(nodes_.size()), static_cast<std::uint32_t>(ids_.size()), 0, 0, 0});
  look_inside(tokens);
}

TENON_INLINE std::span<const TokenId> TokenTrie::subtree(std::size_t i) const {
  return between(nodes_[i].first, nodes_[nodes_[i].end].first);
}

TENON_INLINE TokenTrie::Match TokenTrie::longest(std::string_view text) const {
  Match best;
  std::size_t at = 0, end = size();
  for (std::size_t depth = 0; depth < text.size(); ++depth) {
    while (at < end && node(at).byte != static_cast<std::uint8_t>(text[depth])) at = node(at).end;
    if (at == end) break;
    if (!tokens(at).empty()) best = {tokens(at).front(), depth + 1};
    end = node(at++).end;
  }
  return best;
}

TENON_INLINE void TokenTrie::look_inside(std::span<const Token> tokens) {
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

TENON_INLINE void TokenTrie::add_to(Inside& inside, std::string_view bytes) {
  int count = 0;
  for (std::size_t at = 0; at < bytes.size(); ++count) {
    const CodePoint point = decode_utf8(bytes, at);
    const int value = point.value < 0x80 ? static_cast<int>(point.value) : kBeyondAscii;
    inside.characters.add(point.status == Utf8Status::valid ? value : kBroken);
    at += static_cast<std::size_t>(point.length);
  }
  inside.longest = std::max(inside.longest, count);
}

TENON_INLINE void TokenTrie::close(std::vector<std::uint32_t>& open, std::size_t depth) {
  for (; open.size() > depth; open.pop_back()) nodes_[open.back()].end = static_cast<std::uint32_t>(nodes_.size());
}

TENON_INLINE std::span<const TokenId> TokenTrie::between(std::uint32_t begin, std::uint32_t end) const {
  return std::span<const TokenId>(ids_).subspan(begin, end - begin);
}

TENON_INLINE Vocabulary::Vocabulary(std::vector<std::string> tokens, int width, std::vector<TokenId> ends)
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

TENON_INLINE Vocabulary Vocabulary::from(const Tokenizer& tokenizer, int width, std::vector<TokenId> ends,
                                         std::span<const TokenId> spelled) {
  std::vector<std::string> tokens(static_cast<std::size_t>(std::clamp(tokenizer.vocab_size(), 0, std::max(width, 0))));
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    const bool counts =
        !tokenizer.is_special(token) || std::find(spelled.begin(), spelled.end(), token) != spelled.end();
    if (counts) tokens[id] = tokenizer.bytes(token);
  }
  Vocabulary made(std::move(tokens), width, std::move(ends));
  made.tokenizer_ = tokenizer;
  made.has_spelled_ = !spelled.empty();
  return made;
}

TENON_INLINE Vocabulary Vocabulary::from(const Tokenizer& tokenizer) {
  std::vector<TokenId> ends;
  if (const auto end = tokenizer.end_of_text()) ends.push_back(*end);
  return from(tokenizer, tokenizer.vocab_size(), std::move(ends));
}

TENON_INLINE Vocabulary Vocabulary::bytes() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return Vocabulary(std::move(tokens), 257, {256});
}

TENON_INLINE std::string_view Vocabulary::bytes(TokenId id) const {
  const auto at = static_cast<std::size_t>(id);
  if (id < 0 || at + 1 >= begins_.size()) return {};
  return std::string_view(text_).substr(begins_[at], begins_[at + 1] - begins_[at]);
}

TENON_INLINE std::vector<TokenId> Vocabulary::split(std::string_view text) const {
  std::vector<TokenId> ids = encoded(text.substr(0, find_invalid_utf8(text)));
  for (const TokenId id : ids) text.remove_prefix(bytes(id).size());
  while (!text.empty()) {
    const TokenTrie::Match match = trie_.longest(text);
    if (match.bytes == 0) break;
    ids.push_back(match.id);
    text.remove_prefix(match.bytes);
  }
  return ids;
}

TENON_INLINE std::vector<TokenId> Vocabulary::encoded(std::string_view text) const {
  if (!tokenizer_ || text.empty()) return {};
  // SentencePiece puts a space in front of what it encodes. If that changes the text, the second try has a line break
  // in front, which takes the space.
  for (const char* before : {"", "\n"}) {
    std::vector<TokenId> ids;
    try {
      ids = tokenizer_->encode(before + std::string(text), has_spelled_);
    } catch (const Error&) {  // an expression of the tokenizer takes too many steps
      return {};
    }
    std::string written;
    for (const TokenId id : ids) written += bytes(id);
    if (!written.ends_with(text)) continue;
    std::size_t others = written.size() - text.size();  // bytes before the text
    auto first = ids.begin();
    while (first != ids.end() && bytes(*first).size() <= others) others -= bytes(*first++).size();
    if (others == 0) return {first, ids.end()};
  }
  return {};
}

TENON_INLINE int Vocabulary::characters(TokenId id) const {
  return id < 0 || static_cast<std::size_t>(id) >= characters_.size() ? 0 : characters_[static_cast<std::size_t>(id)];
}

TENON_INLINE int Vocabulary::most_characters(int most) const {
  const auto above = std::upper_bound(counts_.begin(), counts_.end(), most);
  return above == counts_.begin() ? 0 : *std::prev(above);
}

TENON_INLINE void Vocabulary::keep(const std::vector<std::string>& tokens) {
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

TENON_INLINE std::uint16_t Vocabulary::plain_characters(std::string_view bytes) {
  int count = 0;
  for (std::size_t at = 0; at < bytes.size(); ++count) {
    const CodePoint point = decode_utf8(bytes, at);
    const bool escaped = point.value < 0x20 || point.value == U'"' || point.value == U'\\';
    if (point.status != Utf8Status::valid || escaped) return 0;
    at += static_cast<std::size_t>(point.length);
  }
  return static_cast<std::uint16_t>(count);
}

TENON_INLINE void Vocabulary::build_tries() {
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

TENON_INLINE void Vocabulary::build_rows() {
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

}  // namespace tenon::constrain
