// Byte-pair merges in the order of scores, as sentencepiece does them (bpe_model.cc, version 0.2.3).
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/tokenizer/piece_table.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// Merges the two neighbours whose joint piece has the highest score, the leftmost of several, until no neighbours make
// a piece. Takes O(n log n) for n characters. A pair is known by the spelling of its result. Merge rules of Hugging
// Face's tokenizers know a pair by its parts instead, and can differ where scores are equal.
class ScoreMerger {
 public:
  // Pieces that are user_defined are never merged.
  ScoreMerger(PieceTable pieces, PieceTable user_defined, UnknownText unknown)
      : pieces_(std::move(pieces)), user_defined_(std::move(user_defined)), unknown_(std::move(unknown)) {}

  // Appends the tokens of `text`, which is normalized, valid UTF-8, and shorter than 2^31 bytes.
  void encode(std::string_view text, std::vector<TokenId>& out) const {
    if (text.empty()) return;
    Search search{*this, text, {}, {}, {}};
    search.cut();
    search.merge();
    search.append(out);
  }

 private:
  static constexpr std::uint32_t kEnd = 0xFFFFFFFF;
  static constexpr int kDeepest = 100;  // sentencepiece cuts unused pieces to this depth

  struct Symbol {
    std::size_t begin, size;       // in the text; size 0: merged into the symbol before it
    std::uint32_t previous, next;  // kEnd at the ends
    bool fixed;                    // never merged
  };
  struct Pair {
    std::int32_t score;  // orders as the score does
    std::uint32_t left, right;
    std::size_t size;

    // Lowest priority first, for a heap.
    bool operator<(const Pair& other) const { return std::tie(score, other.left) < std::tie(other.score, left); }
  };

  // An integer that orders as a float does, with -0 below 0.
  static std::int32_t order_of(double score) {
    const auto bits = std::bit_cast<std::int32_t>(static_cast<float>(score));
    return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
  }

  struct Search {
    const ScoreMerger& model;
    std::string_view text;
    std::vector<Symbol> symbols;
    std::vector<Pair> heap;
    std::unordered_map<std::string_view, std::size_t> parts;  // of an unused piece: size of its left part

    void cut() {
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t fixed = model.user_defined_.longest_prefix(text.substr(at));
        const std::size_t size = fixed > 0 ? fixed : static_cast<std::size_t>(decode_utf8(text, at).length);
        const auto number = static_cast<std::uint32_t>(symbols.size());
        if (number > 0) symbols.back().next = number;
        symbols.push_back({at, size, number == 0 ? kEnd : number - 1, kEnd, fixed > 0});
        at += size;
      }
    }

    void merge() {
      for (std::uint32_t left = 0; left + 1 < symbols.size(); ++left) offer(left, left + 1);
      while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end());
        const Pair pair = heap.back();
        heap.pop_back();
        Symbol &left = symbols[pair.left], &right = symbols[pair.right];
        // One of the two was merged with another symbol since.
        if (left.size == 0 || right.size == 0 || left.size + right.size != pair.size) continue;
        left.size = pair.size;
        right.size = 0;
        left.next = right.next;
        if (right.next != kEnd) symbols[right.next].previous = pair.left;
        offer(left.previous, pair.left);
        offer(pair.left, left.next);
      }
    }

    void offer(std::uint32_t left, std::uint32_t right) {
      if (left == kEnd || right == kEnd || symbols[left].fixed || symbols[right].fixed) return;
      const std::size_t size = symbols[left].size + symbols[right].size;
      const std::string_view spelling = text.substr(symbols[left].begin, size);
      const ScoredPiece* const piece = model.pieces_.find(spelling);
      if (piece == nullptr) return;
      if (piece->unused) parts[spelling] = symbols[left].size;
      heap.push_back({order_of(piece->score), left, right, size});
      std::push_heap(heap.begin(), heap.end());
    }

    void append(std::vector<TokenId>& out) {
      std::size_t run = 0;  // begin of a run of unknown symbols
      for (std::uint32_t at = 0; at != kEnd; at = symbols[at].next)
        append_piece(symbols[at].begin, symbols[at].size, 0, run, out);
      model.unknown_.append(text.substr(run), out);
    }

    void append_piece(std::size_t begin, std::size_t size, int depth, std::size_t& run, std::vector<TokenId>& out) {
      const std::string_view spelling = text.substr(begin, size);
      const ScoredPiece* const piece = model.pieces_.find(spelling);
      if (piece != nullptr && piece->unused && depth <= kDeepest) {
        const auto left = parts.find(spelling);
        if (left == parts.end()) return;
        append_piece(begin, left->second, depth + 1, run, out);
        append_piece(begin + left->second, size - left->second, depth + 1, run, out);
        return;
      }
      if (piece == nullptr) return;
      model.unknown_.append(text.substr(run, begin - run), out);
      out.push_back(piece->id);
      run = begin + size;
    }
  };

  PieceTable pieces_, user_defined_;
  UnknownText unknown_;
};

}  // namespace tenon::detail
