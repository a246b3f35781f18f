// Byte-pair merges: the rules, and their application to the symbols of one piece.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "tenon/core/hash.h"
#include "tenon/core/views.h"

namespace tenon::detail {

inline constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

// Order of merging. The two orders differ only where a rule stands before the rules that make its parts. Training never
// writes such rules.
enum class MergeOrder : std::uint8_t {
  rounds,      // all pairs of the lowest rank, left to right, then the pairs they made (openai/gpt-2, encoder.py)
  one_by_one,  // the leftmost pair of the lowest rank, then the pairs it made (Hugging Face's tokenizers, word.rs)
};

// Hash of the pairs of a table, which come from a file. std::hash is the identity in libstdc++: a hostile file could
// choose pairs that share a bucket, which makes loading quadratic. The seed is the address of this object, which
// differs from process to process and is unknown to a file. No result depends on it.
struct PairHash {
  std::uint64_t seed = mix64(reinterpret_cast<std::uintptr_t>(this));
  std::size_t operator()(std::uint64_t key) const noexcept { return static_cast<std::size_t>(mix64(key ^ seed)); }
};

struct MergeRules {
  std::unordered_map<std::uint64_t, std::uint32_t, PairHash> rank;  // pair_key to rank; the lowest rank merges first
  std::vector<TokenId> merged;                                      // [rank]
  MergeOrder order = MergeOrder::rounds;

  static std::uint64_t pair_key(TokenId left, TokenId right) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::uint32_t rank_of(TokenId left, TokenId right) const {
    const auto found = rank.find(pair_key(left, right));
    return found == rank.end() ? kNoRank : found->second;
  }
  // Returns false and adds nothing where the pair already has a rule.
  bool add(TokenId left, TokenId right, TokenId whole) {
    if (!rank.emplace(pair_key(left, right), static_cast<std::uint32_t>(merged.size())).second) return false;
    merged.push_back(whole);
    return true;
  }
};

// Merges the symbols of one piece at a time, in O(n log n) for n symbols. Uses a linked list and a heap of the ranks
// of adjacent pairs.
class PieceMerger {
 public:
  explicit PieceMerger(const MergeRules& rules) : rules_(rules) {}

  // Appends a symbol to the piece, which has fewer than 2^31 symbols.
  void add(TokenId id) {
    const auto at = static_cast<std::uint32_t>(symbols_.size());
    if (at > 0) symbols_.back().next = at;
    symbols_.push_back({id, at == 0 ? kEnd : at - 1, kEnd, kNoRank});
  }

  // Appends the tokens of the piece to `out` and clears the piece.
  void merge(std::vector<TokenId>& out) {
    fresh_.clear();
    for (std::uint32_t at = 0; at < symbols_.size(); ++at) rank_pair(at);
    heap_.swap(fresh_);
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) merge_lowest_rank();
    for (std::uint32_t at = symbols_.empty() ? kEnd : 0; at != kEnd; at = symbols_[at].next)
      out.push_back(symbols_[at].id);
    symbols_.clear();
  }

 private:
  static constexpr std::uint32_t kEnd = 0xFFFFFFFF;
  struct Symbol {
    TokenId id;
    std::uint32_t previous, next;  // kEnd at the ends
    std::uint32_t rank;            // of the pair with the next symbol
  };

  void merge_lowest_rank() {
    const auto rank = static_cast<std::uint32_t>(heap_.front() >> 32);
    fresh_.clear();
    do {
      const auto at = static_cast<std::uint32_t>(heap_.front());
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      if (symbols_[at].rank == rank) merge_at(at);  // otherwise the pair is gone, because a neighbour was merged
    } while (rules_.order == MergeOrder::rounds && !heap_.empty() && heap_.front() >> 32 == rank);
    for (const std::uint64_t entry : fresh_) {
      heap_.push_back(entry);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }

  void merge_at(std::uint32_t at) {
    Symbol& symbol = symbols_[at];
    Symbol& gone = symbols_[symbol.next];
    symbol.id = rules_.merged[symbol.rank];
    symbol.next = gone.next;
    gone.rank = kNoRank;
    if (symbol.next != kEnd) symbols_[symbol.next].previous = at;
    rank_pair(at);
    if (symbol.previous != kEnd) rank_pair(symbol.previous);
  }

  void rank_pair(std::uint32_t at) {
    Symbol& symbol = symbols_[at];
    symbol.rank = symbol.next == kEnd ? kNoRank : rules_.rank_of(symbol.id, symbols_[symbol.next].id);
    if (symbol.rank != kNoRank) fresh_.push_back(static_cast<std::uint64_t>(symbol.rank) << 32 | at);
  }

  const MergeRules& rules_;
  std::vector<Symbol> symbols_;       // the piece
  std::vector<std::uint64_t> heap_;   // rank << 32 | position: lowest rank first, then leftmost
  std::vector<std::uint64_t> fresh_;  // new entries, added to the heap after this round
};

}  // namespace tenon::detail
