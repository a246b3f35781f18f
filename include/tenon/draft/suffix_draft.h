// Suffix decoding (Oliaro et al., 2024): a text goes on as it, or another text of its client, did before.
#pragma once
#include <cstddef>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/draft/prompt_lookup.h"
#include "tenon/draft/text_memory.h"

namespace tenon {

/// Guesses as PromptLookup does. Where the text repeats nothing of itself, it goes on as an ended text of its group
/// (DraftState::group) that had the same last tokens. Memory of ended texts is bounded.
class SuffixDraft {
 public:
  /// bytes: of ended texts; 0: none are kept. lookup: of the text itself.
  explicit SuffixDraft(std::size_t bytes = std::size_t{32} << 20, PromptLookup lookup = {})
      : lookup_(lookup), ended_(bytes) {}

  void draft(const DraftState& state, DraftWriter& out) {
    const int room = out.room();
    lookup_.draft(state, out);
    if (out.room() < room || state.group.empty()) return;
    for (const TokenId token : ended_.after(state.group, state.text))
      if (!out.add(token)) return;
  }

  /// A text of a group has ended.
  void learn(const DraftState& state) { ended_.add(state.group, state.text); }

  /// Bytes of ended texts.
  std::size_t bytes() const { return ended_.bytes(); }

 private:
  PromptLookup lookup_;
  TextMemory ended_;
};
static_assert(DraftPolicy<SuffixDraft> && LearnsTexts<SuffixDraft>);

}  // namespace tenon
