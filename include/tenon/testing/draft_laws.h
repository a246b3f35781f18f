// The laws of DraftPolicy: guesses are a function of the text.
#pragma once
#include <exception>
#include <string>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/testing/fits.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

// A text that repeats itself, so that policies find something to guess.
inline std::vector<TokenId> repetitive_text(Random& random, int vocab) {
  std::vector<TokenId> text = {random.between(0, vocab - 1)};
  for (int parts = random.between(0, 12); parts > 0; --parts) {
    const int count = random.between(1, 20), from = random.between(0, static_cast<int>(text.size()) - 1);
    for (int i = 0; i < count; ++i)
      text.push_back(parts % 2 == 0 ? random.between(0, vocab - 1) : text[static_cast<std::size_t>(from + i)]);
  }
  return text;
}

template <DraftPolicy P>
std::vector<TokenId> guesses_of(P& policy, const DraftState& state, int most, int vocab) {
  std::vector<TokenId> out;
  DraftWriter writer(out, most, vocab);
  policy.draft(state, writer);
  return out;
}

}  // namespace detail

/// Lets the policy continue random texts. Returns the broken laws. A policy that learns texts (LearnsTexts) learns them
/// under one group, and then continues texts of another group and of none as before.
template <class P>
Violations draft_laws(P policy = {}) {
  detail::must_fit<Draft<P>>();
  Violations broken;
  if constexpr (detail::fits<Draft<P>>) {
    try {
      Random random(7);
      const P unused = policy;
      for (int round = 0; round < 400; ++round) {
        const int vocab = random.between(2, 40), most = random.between(1, 10);
        const std::vector<TokenId> text = detail::repetitive_text(random, vocab);
        const DraftState state{text, random.between(1, static_cast<int>(text.size())), round % 2 == 0 ? "" : "mine"};
        const std::vector<TokenId> guesses = detail::guesses_of(policy, state, most, vocab);
        detail::note(broken, detail::guesses_of(policy, state, most, vocab) == guesses,
                     "draft: the same text has the same guesses");
        P copy = unused;
        detail::note(broken, detail::guesses_of(copy, state, most, vocab) == guesses,
                     "draft: guesses depend on the text alone, not on texts before");
        std::vector<TokenId> all = detail::guesses_of(policy, state, most + 1, vocab);
        if (all.size() > guesses.size()) all.pop_back();
        detail::note(broken, all == guesses, "draft: less room cuts the guesses off, and changes none");
        if constexpr (LearnsTexts<P>) {
          policy.learn({text, state.prompt_tokens, "others"});
          detail::note(broken, detail::guesses_of(policy, state, most, vocab) == guesses,
                       "draft: guesses do not depend on texts of another group");
        }
      }
    } catch (const std::exception& e) {
      broken.push_back(std::string("draft: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

}  // namespace tenon::testing
