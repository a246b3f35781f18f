// The pieces of a SentencePiece vocabulary, searched by prefix and by spelling.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/views.h"

namespace tenon::detail {

// A piece that text can be cut into. Control tokens, the unknown token and byte tokens are none.
struct ScoredPiece {
  std::string text;  // not empty
  TokenId id = 0;
  double score = 0;           // logarithm of a probability, or minus the rank of a merge
  bool user_defined = false;  // always cut out, before other pieces
  bool unused = false;        // takes part in merges, but is cut into its parts at the end
};

class PieceTable {
 public:
  PieceTable() = default;
  // Spellings must differ.
  explicit PieceTable(std::vector<ScoredPiece> pieces) : pieces_(std::move(pieces)) {
    std::sort(pieces_.begin(), pieces_.end(),
              [](const ScoredPiece& a, const ScoredPiece& b) { return a.text < b.text; });
  }

  bool empty() const noexcept { return pieces_.empty(); }

  // The piece with this spelling, or null.
  const ScoredPiece* find(std::string_view text) const noexcept {
    const auto found = std::lower_bound(pieces_.begin(), pieces_.end(), text,
                                        [](const ScoredPiece& a, std::string_view b) { return a.text < b; });
    return found == pieces_.end() || found->text != text ? nullptr : &*found;
  }

  // Calls found(piece) for each piece that `text` begins with, shortest first. The pieces that share a prefix are a
  // range of the sorted list. Each byte of the text narrows it.
  template <class Found>
  void for_each_prefix(std::string_view text, Found&& found) const {
    auto low = pieces_.begin(), high = pieces_.end();
    for (std::size_t at = 0; at < text.size() && low != high; ++at) {
      const int byte = static_cast<unsigned char>(text[at]);
      const auto byte_of = [at](const ScoredPiece& piece) {
        return piece.text.size() > at ? static_cast<unsigned char>(piece.text[at]) : -1;
      };
      low = std::partition_point(low, high, [&](const ScoredPiece& piece) { return byte_of(piece) < byte; });
      high = std::partition_point(low, high, [&](const ScoredPiece& piece) { return byte_of(piece) == byte; });
      if (low != high && low->text.size() == at + 1) found(*low);
    }
  }

  // Bytes of the longest piece that `text` begins with; 0: none.
  std::size_t longest_prefix(std::string_view text) const {
    std::size_t bytes = 0;
    for_each_prefix(text, [&](const ScoredPiece& piece) { bytes = piece.text.size(); });
    return bytes;
  }

 private:
  std::vector<ScoredPiece> pieces_;  // sorted by text
};

// Tokens for text without a piece: one token for each of its bytes or, without such tokens, one unknown token for a run
// of characters.
class UnknownText {
 public:
  // An empty `unknown` without `bytes`: such text is dropped.
  UnknownText(std::optional<TokenId> unknown, std::optional<std::vector<TokenId>> bytes)
      : unknown_(unknown), bytes_(std::move(bytes)) {}

  bool spells_bytes() const noexcept { return bytes_.has_value(); }
  // The unknown token, if there is one.
  std::optional<TokenId> id() const noexcept { return unknown_; }

  // Appends the tokens of a run.
  void append(std::string_view run, std::vector<TokenId>& out) const {
    if (run.empty()) return;
    if (!bytes_) {
      if (unknown_) out.push_back(*unknown_);
      return;
    }
    for (const char c : run) out.push_back((*bytes_)[static_cast<unsigned char>(c)]);
  }

 private:
  std::optional<TokenId> unknown_;
  std::optional<std::vector<TokenId>> bytes_;  // [256]
};

}  // namespace tenon::detail
