// A SentencePiece model: its normalizer, and its way to cut a text into pieces.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/tokenizer/score_merger.h"
#include "tenon/tokenizer/sentencepiece_normalizer.h"
#include "tenon/tokenizer/unigram.h"

namespace tenon::detail {

class SentencePieceModel {
 public:
  using Cutter = std::variant<ScoreMerger, Unigram>;

  SentencePieceModel(SentencePieceNormalizer normalizer, Cutter cutter)
      : normalizer_(std::move(normalizer)), cutter_(std::move(cutter)) {}

  bool unigram() const noexcept { return std::holds_alternative<Unigram>(cutter_); }

  // Appends the tokens of a part between added tokens. `first`: it starts where the whole text does.
  void encode(std::string_view part, bool first, std::vector<TokenId>& out) const {
    const std::string text = normalizer_.normalize(part, first);
    std::visit([&](const auto& cutter) { cutter.encode(text, out); }, cutter_);
  }

 private:
  SentencePieceNormalizer normalizer_;
  Cutter cutter_;
};

}  // namespace tenon::detail
