// Speculative decoding (Leviathan et al., 2023): a smaller model guesses, and the engine verifies.
#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/request.h"
#include "tenon/engine/completion.h"

namespace tenon {

/// Guesses what a smaller model of the same vocabulary writes greedily. Engine: the smaller model's engine, or
/// AnyEngine. It runs between the steps of the engine that verifies. Its prefix cache keeps the texts, so that a guess
/// reads the last block of a text alone; without prefix reuse it reads the whole text. Groups (DraftState::group), and
/// texts of different DraftState::cache_salt, share no prefixes there.
template <class Engine>
class ModelDraft {
 public:
  ModelDraft() = default;  ///< guesses nothing
  /// engine: no other thread steps it. tokens: most guesses for a text in a step. Each is a step of the smaller model,
  /// even where the guesses are not verified then.
  explicit ModelDraft(std::shared_ptr<Engine> engine, int tokens = 4) : engine_(std::move(engine)), tokens_(tokens) {}

  void draft(const DraftState& state, DraftWriter& out) {
    if (!engine_) return;
    const int positions = engine_->config().positions;
    const auto known = static_cast<int>(state.text.size());
    const int room = positions > 0 ? positions - known : std::numeric_limits<int>::max();
    const int most = std::min({tokens_, out.room(), room});
    if (most <= 0) return;
    const std::string_view salt = state.group.empty() ? state.cache_salt : state.group;
    const Completion guessed = engine_->complete(
        Request{.input_ids = {state.text.begin(), state.text.end()},
                .options = {.max_new_tokens = most, .ignore_eos = true, .cache_salt = std::string(salt)}});
    for (const TokenId token : guessed.ids)
      if (!out.add(token)) return;
  }

 private:
  std::shared_ptr<Engine> engine_;
  int tokens_ = 0;
};

}  // namespace tenon
