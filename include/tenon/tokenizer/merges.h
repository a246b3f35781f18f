// Byte-pair merges: the rules, and what they make of the symbols of one piece.
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

// The two orders differ only where a rule stands before the rules that make its parts, which training never writes.
enum class MergeOrder : std::uint8_t {
  rounds,      // all pairs of the lowest rank from left to right, then those that they made (openai/gpt-2, encoder.py)
  one_by_one,  // the leftmost pair of the lowest rank, then those that it made (Hugging Face's tokenizers, word.rs)
};

// The pairs of a table come from a file. Under std::hash, the identity in libstdc++, a hostile file chooses pairs that
// share a bucket, and loading it is quadratic; so they are mixed with what no file can know: where this object was
// built, which differs from process to process. No result depends on it.
struct PairHash {
  std::uint64_t seed = mix64(reinterpret_cast<std::uintptr_t>(this));
  std::size_t operator()(std::uint64_t key) const noexcept { return static_cast<std::size_t>(mix64(key ^ seed)); }
};

struct MergeRules {
  std::unordered_map<std::uint64_t, std::uint32_t, PairHash> rank;  // of a pair (pair_key); lower merges first
  std::vector<TokenId> merged;                                      // [rank]
  MergeOrder order = MergeOrder::rounds;

  static std::uint64_t pair_key(TokenId left, TokenId right) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::uint32_t rank_of(TokenId left, TokenId right) const {
    const auto found = rank.find(pair_key(left, right));
    return found == rank.end() ? kNoRank : found->second;
  }
  // False, and nothing is added, where the pair has a rule already.
  bool add(TokenId left, TokenId right, TokenId whole) {
    if (!rank.emplace(pair_key(left, right), static_cast<std::uint32_t>(merged.size())).second) return false;
    merged.push_back(whole);
    return true;
  }
};

// Merges the symbols of one piece at a time, in O(n log n) for n of them: a linked list, and a heap of the ranks of
// adjacent pairs.
class PieceMerger {
 public:
  explicit PieceMerger(const MergeRules& rules) : rules_(rules) {}

  // The next symbol of the piece; fewer than 2^31.
  void add(TokenId id) {
    const auto at = static_cast<std::uint32_t>(symbols_.size());
    if (at > 0) symbols_.back().next = at;
    symbols_.push_back({id, at == 0 ? kEnd : at - 1, kEnd, kNoRank});
  }

  // Appends the tokens of the piece, and forgets it.
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
    std::uint32_t previous, next;  // kEnd past either end
    std::uint32_t rank;            // of the pair with the next symbol
  };

  void merge_lowest_rank() {
    const auto rank = static_cast<std::uint32_t>(heap_.front() >> 32);
    fresh_.clear();
    do {
      const auto at = static_cast<std::uint32_t>(heap_.front());
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      if (symbols_[at].rank == rank) merge_at(at);  // else the pair went when a neighbour was merged
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
  std::vector<Symbol> symbols_;       // of the piece
  std::vector<std::uint64_t> heap_;   // rank << 32 | position: lowest rank first, then leftmost
  std::vector<std::uint64_t> fresh_;  // entries for the heap, after this round
};

}  // namespace tenon::detail
