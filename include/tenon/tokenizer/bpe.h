// Byte-level byte-pair encoding exactly as GPT-2's (Radford et al., 2019; openai/gpt-2, encoder.py), and back to text.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/views.h"
#include "tenon/tokenizer/pretokenize.h"
#include "tenon/tokenizer/unicode.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon {
namespace detail {

// Merges the bytes of one piece, in O(n log n) for n bytes: symbols in a linked list, ranks of adjacent pairs in a
// heap. As encoder.py does, a round takes the lowest rank and merges all its pairs from left to right, before any pair
// that this makes is looked at: one merge at a time differs where a rule stands before the rules that make its parts.
class PieceMerger {
 public:
  explicit PieceMerger(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // Appends the tokens of `piece`, which is not empty and shorter than 2^31 bytes.
  void append(std::string_view piece, std::vector<TokenId>& out) {
    place(piece);
    while (!heap_.empty()) merge_lowest_rank();
    for (std::uint32_t at = 0; at != kEnd; at = symbols_[at].next) out.push_back(symbols_[at].id);
  }

 private:
  static constexpr std::uint32_t kEnd = 0xFFFFFFFF;
  struct Symbol {
    TokenId id;
    std::uint32_t previous, next;  // kEnd past either end
    std::uint32_t rank;            // of the pair with the next symbol
  };

  void place(std::string_view piece) {
    const auto size = static_cast<std::uint32_t>(piece.size());
    symbols_.resize(size);
    for (std::uint32_t at = 0; at < size; ++at) {
      const TokenId id = vocabulary_.byte_token[static_cast<unsigned char>(piece[at])];
      symbols_[at] = {id, at == 0 ? kEnd : at - 1, at + 1 == size ? kEnd : at + 1, kNoRank};
    }
    fresh_.clear();
    for (std::uint32_t at = 0; at < size; ++at) rank_pair(at);
    heap_.swap(fresh_);
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void merge_lowest_rank() {
    const auto rank = static_cast<std::uint32_t>(heap_.front() >> 32);
    fresh_.clear();
    while (!heap_.empty() && heap_.front() >> 32 == rank) {
      const auto at = static_cast<std::uint32_t>(heap_.front());
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      if (symbols_[at].rank == rank) merge_at(at);  // else the pair went when a neighbour was merged
    }
    for (const std::uint64_t entry : fresh_) {
      heap_.push_back(entry);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }

  void merge_at(std::uint32_t at) {
    Symbol& symbol = symbols_[at];
    Symbol& gone = symbols_[symbol.next];
    symbol.id = vocabulary_.merged[symbol.rank];
    symbol.next = gone.next;
    gone.rank = kNoRank;
    if (symbol.next != kEnd) symbols_[symbol.next].previous = at;
    rank_pair(at);
    if (symbol.previous != kEnd) rank_pair(symbol.previous);
  }

  void rank_pair(std::uint32_t at) {
    Symbol& symbol = symbols_[at];
    symbol.rank = symbol.next == kEnd ? kNoRank : vocabulary_.rank_of(symbol.id, symbols_[symbol.next].id);
    if (symbol.rank != kNoRank) fresh_.push_back(static_cast<std::uint64_t>(symbol.rank) << 32 | at);
  }

  const Vocabulary& vocabulary_;
  std::vector<Symbol> symbols_;       // [bytes of the piece]
  std::vector<std::uint64_t> heap_;   // rank << 32 | position: lowest rank first, then leftmost
  std::vector<std::uint64_t> fresh_;  // entries for the heap, after this round
};

}  // namespace detail

// Movable; const use is safe from many threads. What it returns views of lives as long as it does.
class Tokenizer {
 public:
  // Reads vocab.json, merges.txt and, where there is one, tokenizer_config.json.
  // vocab_size: rows of the model's embedding; without it, the highest id + 1.
  // Errors name file and field: io where a file is missing, invalid_file, unsupported (as is tokenizer.json alone).
  static Tokenizer load(const std::filesystem::path& folder, std::optional<int> vocab_size = {}) {
    return Tokenizer(detail::load_vocabulary(folder, vocab_size));
  }

  Tokenizer(Tokenizer&&) noexcept = default;
  Tokenizer& operator=(Tokenizer&&) noexcept = default;

  // Special tokens written in the text are ordinary characters. decode(encode(text)) == text.
  // Errors: invalid_request where text is not UTF-8, capacity from 2^31 bytes on.
  std::vector<TokenId> encode(std::string_view text) const {
    check_text(text);
    std::vector<TokenId> ids;
    detail::PieceMerger merger(vocabulary_);
    // Prose repeats its words: the tokens of a word stand in `ids` already, where it was first seen.
    struct Seen {
      std::size_t begin, count;
    };
    std::unordered_map<std::string_view, Seen> seen;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = piece_end(text, at);
      const std::string_view piece = text.substr(at, end - at);
      at = end;
      if (piece.size() == 1) {
        ids.push_back(vocabulary_.byte_token[static_cast<unsigned char>(piece[0])]);
        continue;
      }
      if (const auto found = seen.find(piece); found != seen.end()) {
        for (std::size_t k = 0; k < found->second.count; ++k) ids.push_back(ids[found->second.begin + k]);
        continue;
      }
      const std::size_t begin = ids.size();
      merger.append(piece, ids);
      if (piece.size() <= kMaxSeenBytes && seen.size() < kMaxSeen) seen.emplace(piece, Seen{begin, ids.size() - begin});
    }
    return ids;
  }

  // The bytes of all tokens, special ones as their text. They need not be UTF-8 (see sanitize_utf8). Errors as bytes().
  std::string decode(std::span<const TokenId> ids) const {
    std::string out;
    for (const TokenId id : ids) out += bytes(id);
    return out;
  }

  // The bytes of one token; none for an id that the vocabulary leaves out (rows that pad an embedding).
  // Error invalid_request where id is not in [0, vocab_size()).
  std::string_view bytes(TokenId id) const {
    if (id < 0 || id >= vocabulary_.size)
      throw Error(Error::Kind::invalid_request, "token id",
                  std::to_string(id) + " is not in [0, " + std::to_string(vocabulary_.size) + ")");
    const std::uint32_t* begin = &vocabulary_.begin[static_cast<std::size_t>(id)];
    return std::string_view(vocabulary_.text).substr(begin[0], begin[1] - begin[0]);
  }

  int vocab_size() const noexcept { return vocabulary_.size; }

  // eos_token of tokenizer_config.json; where that names none, <|endoftext|> if the vocabulary has it.
  std::optional<TokenId> end_of_text() const noexcept { return vocabulary_.eos; }
  std::optional<TokenId> begin_of_text() const noexcept { return vocabulary_.bos; }
  std::optional<TokenId> pad() const noexcept { return vocabulary_.pad; }

  // By id, each once.
  std::span<const SpecialToken> special_tokens() const noexcept { return vocabulary_.special; }
  bool is_special(TokenId id) const noexcept {
    const auto& special = vocabulary_.special;
    const auto found =
        std::lower_bound(special.begin(), special.end(), id, [](const auto& a, TokenId b) { return a.id < b; });
    return found != special.end() && found->id == id;
  }
  // The id of a special token by its text, for chat templates.
  std::optional<TokenId> special(std::string_view text) const noexcept {
    for (const SpecialToken& token : vocabulary_.special)
      if (token.text == text) return token.id;
    return std::nullopt;
  }

 private:
  // Bounds of the memory of words in one call: 2^16 words, none longer than a word is.
  static constexpr std::size_t kMaxSeen = 1 << 16, kMaxSeenBytes = 64;

  explicit Tokenizer(detail::Vocabulary&& vocabulary) : vocabulary_(std::move(vocabulary)) {}

  static void check_text(std::string_view text) {
    if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
      throw Error(Error::Kind::capacity, "text",
                  "has " + std::to_string(text.size()) + " bytes, 2^31 - 1 can be encoded");
    if (const std::size_t at = find_invalid_utf8(text); at != text.npos)
      throw Error(Error::Kind::invalid_request, "text", "is not valid UTF-8 at byte " + std::to_string(at));
  }

  detail::Vocabulary vocabulary_;
};

}  // namespace tenon
