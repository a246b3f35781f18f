#pragma once
#include <array>
#include <bit>

#include "tenon/core/require.h"
#include "tenon/engine/fingerprint.h"

namespace tenon {

TENON_INLINE std::uint64_t hash_of(const ModelConfig& c) {
  std::uint64_t hash = hash64(c.model_type);
  const RotaryConfig& r = c.rotary;
  const std::array<int, 14> numbers = {c.layers,
                                       c.hidden,
                                       c.heads,
                                       c.kv_heads,
                                       c.head_dim,
                                       c.inner,
                                       c.vocab,
                                       c.window,
                                       static_cast<int>(c.activation),
                                       c.tied_head,
                                       c.scale_scores,
                                       c.scale_scores_by_layer,
                                       static_cast<int>(r.scaling),
                                       r.trained_positions};
  for (const int number : numbers) hash = mix64(hash ^ static_cast<std::uint32_t>(number));
  for (const double number : {r.theta, r.factor, r.low_frequency_factor, r.high_frequency_factor}) {
    hash = mix64(hash ^ std::bit_cast<std::uint64_t>(number));
  }
  return mix64(hash ^ std::bit_cast<std::uint32_t>(c.norm_epsilon));
}

}  // namespace tenon
