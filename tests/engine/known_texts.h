// A draft policy that knows the answers: it guesses them, and spoils some guesses.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "random_requests.h"
#include "tenon/core/concepts.h"
#include "tenon/core/hash.h"

namespace tenon::invariance {

// Guesses how one of `texts` goes on. By the length and the last token of the text, one time in four it guesses
// nothing, and one time in three a wrong token somewhere.
struct KnownTexts {
  static inline std::vector<std::vector<TokenId>> texts = {};

  void draft(const DraftState& state, DraftWriter& out) const {
    const std::uint64_t random = mix64(state.text.size() * 1000 + static_cast<std::uint64_t>(state.text.back()));
    if (random % 4 == 0) return;
    for (const std::vector<TokenId>& text : texts) {
      if (text.size() <= state.text.size() || !std::equal(state.text.begin(), state.text.end(), text.begin())) continue;
      const std::size_t wrong = random / 4 % 3 == 0 ? random / 16 % 4 : text.size();
      for (std::size_t i = 0; state.text.size() + i < text.size(); ++i) {
        const TokenId right = text[state.text.size() + i];
        if (!out.add(i != wrong ? right : random % 5 == 0 ? kPoison : right + 1)) return;
      }
      return;
    }
  }
};

}  // namespace tenon::invariance
