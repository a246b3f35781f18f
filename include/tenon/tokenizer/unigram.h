// The unigram language model of SentencePiece (Kudo, 2018): the cut of a text with the highest sum of scores.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/tokenizer/piece_table.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// Viterbi search over the positions of a text, as EncodeOptimized of sentencepiece 0.2.3 (unigram_model.cc) and
// encode_optimized of tokenizers 0.22 (unigram/model.rs) do it. The two differ in precision, which decides ties.
class Unigram {
 public:
  enum class Reference : std::uint8_t {
    sentencepiece,  // scores are added in float
    tokenizers,     // scores are added in double; a run of unknown characters that equals a piece becomes it
  };

  // `least`: the lowest score of a piece. An unknown character has the score least - 10.
  Unigram(PieceTable pieces, UnknownText unknown, double least, Reference reference)
      : pieces_(std::move(pieces)), unknown_(std::move(unknown)), least_(least), reference_(reference) {}

  // Appends the tokens of `text`, which is normalized and valid UTF-8.
  void encode(std::string_view text, std::vector<TokenId>& out) const {
    if (reference_ == Reference::sentencepiece)
      search<float>(text, out);
    else
      search<double>(text, out);
  }

 private:
  // The best cut of the text before a position.
  template <class Real>
  struct Best {
    static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    const ScoredPiece* piece = nullptr;  // the last one; null: an unknown character
    Real score = 0;
    std::size_t begin = kNone;  // of the last piece

    void offer(const ScoredPiece* with, Real total, std::size_t from) {
      if (begin != kNone && !(total > score)) return;
      *this = {with, total, from};
    }
  };

  template <class Real>
  static Real score_of(const ScoredPiece& piece) {
    if (!piece.user_defined) return static_cast<Real>(piece.score);
    return static_cast<Real>(0.1 * (static_cast<double>(piece.text.size()) - 1));
  }

  template <class Real>
  void search(std::string_view text, std::vector<TokenId>& out) const {
    std::vector<Best<Real>> best(text.size() + 1);  // [position]
    const Real unknown = static_cast<Real>(least_) - Real(10);
    std::size_t farthest = 0;
    for (std::size_t at = 0; at < text.size();) {
      if (reference_ == Reference::sentencepiece) rebase(best, at, farthest);
      const Real before = best[at].score;
      const auto character = static_cast<std::size_t>(decode_utf8(text, at).length);
      bool single = false;
      pieces_.for_each_prefix(text.substr(at), [&](const ScoredPiece& piece) {
        const std::size_t end = at + piece.text.size();
        if (piece.unused) return;
        farthest = std::max(farthest, end);
        best[end].offer(&piece, static_cast<Real>(score_of<Real>(piece) + before), at);
        single = single || piece.text.size() == character;
      });
      if (!single) {
        farthest = std::max(farthest, at + character);
        best[at + character].offer(nullptr, static_cast<Real>(unknown + before), at);
      }
      at += character;
    }
    append(text, best, out);
  }

  // Sums are counted from `at` once they exceed 100,000, as in sentencepiece, so that float keeps its precision.
  template <class Real>
  static void rebase(std::vector<Best<Real>>& best, std::size_t at, std::size_t farthest) {
    const Real sum = best[at].score;
    if (!(std::abs(sum) > Real(100000))) return;
    for (std::size_t i = at; i <= farthest; ++i)
      if (i == at || best[i].begin != Best<Real>::kNone) best[i].score -= sum;
  }

  template <class Real>
  void append(std::string_view text, const std::vector<Best<Real>>& best, std::vector<TokenId>& out) const {
    std::vector<std::pair<std::size_t, std::size_t>> cuts;  // begin and end, last first
    for (std::size_t end = text.size(); end > 0; end = best[end].begin) cuts.emplace_back(best[end].begin, end);
    std::size_t run = 0;  // begin of a run of unknown characters
    for (std::size_t i = cuts.size(); i-- > 0;) {
      const auto [begin, end] = cuts[i];
      if (is_unknown(best[end].piece)) continue;
      append_unknown(text.substr(run, begin - run), out);
      out.push_back(best[end].piece->id);
      run = end;
    }
    append_unknown(text.substr(run), out);
  }

  // In tokenizers, the piece of the unknown token joins a run of unknown characters.
  bool is_unknown(const ScoredPiece* piece) const noexcept {
    return piece == nullptr || (reference_ == Reference::tokenizers && piece->id == unknown_.id());
  }

  void append_unknown(std::string_view run, std::vector<TokenId>& out) const {
    const ScoredPiece* whole = reference_ == Reference::tokenizers && !run.empty() ? pieces_.find(run) : nullptr;
    if (whole != nullptr)
      out.push_back(whole->id);
    else
      unknown_.append(run, out);
  }

  PieceTable pieces_;
  UnknownText unknown_;
  double least_ = 0;
  Reference reference_ = Reference::sentencepiece;
};

}  // namespace tenon::detail
