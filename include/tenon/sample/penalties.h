// From raw logits to processed ones: the user's processor, logit bias, repetition penalty, presence and frequency
// penalties, mask.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tenon/core/request.h"

namespace tenon {

/// All that a token depends on.
struct SampleInput {
  std::span<const float> logits;       ///< [vocab], raw
  std::span<const TokenId> prompt;     ///< [prompt_length]
  std::span<const TokenId> generated;  ///< [generated_length]
  const Options& options;
  int position = 0;                     ///< of the token to be drawn
  const std::uint32_t* mask = nullptr;  ///< [(vocab + 31) / 32], bit i % 32 of word i / 32 set: token i is allowed
  const AnyLogitsProcessor* processor = nullptr;  ///< null or empty: none
  bool has_processor() const { return processor != nullptr && *processor; }
};

/// Applies the processors of one row. Keeps its buffers between rows, and no other state.
class Penalties {
 public:
  /// The raw row itself if no processor changes it, else a copy that lives until the next call. Finite logits stay
  /// finite or become -inf, by a mask, a bias or the user's processor. +inf becomes the largest float, which only an
  /// equal one ties with. Error invalid_request where the user's processor writes NaN, or a bias is outside the
  /// vocabulary.
  std::span<const float> apply(const SampleInput& in);

 private:
  static constexpr float kBanned = -std::numeric_limits<float>::infinity();

  void process(const SampleInput& in);

  // NaN is inf - inf: a ban and its opposite, and the ban wins.
  static float tamed(float logit);

  void add_bias(const Options& o);

  // Each token once, however often it was seen: l < 0 ? l * penalty : l / penalty (Keskar et al., 2019, as corrected in
  // transformers' RepetitionPenaltyLogitsProcessor).
  void penalise_repetition(const SampleInput& in);

  // l - frequency_penalty * count - presence_penalty, of generated tokens (OpenAI, vLLM).
  void penalise_count(const SampleInput& in);

  void mask(const std::uint32_t* allowed /* [(vocab + 31) / 32] */);

  // Ids beyond the head's outputs (a padded embedding) have no logit to penalise.
  void count(std::span<const TokenId> tokens);
  void forget();

  bool in_row(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < row_.size(); }
  float& at(TokenId id) { return row_[static_cast<std::size_t>(id)]; }

  std::vector<float> row_;     // [vocab] processed logits
  std::vector<int> count_;     // [vocab] zeros between calls
  std::vector<TokenId> seen_;  // where count_ is not zero
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/sample/penalties-inl.h"
#endif
