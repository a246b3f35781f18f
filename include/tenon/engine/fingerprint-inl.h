#pragma once
#include <array>
#include <bit>
#include <span>

#include "tenon/core/require.h"
#include "tenon/engine/fingerprint.h"

namespace tenon {

namespace detail {

TENON_INLINE std::uint64_t hash_of_rotary(const RotaryConfig& r, std::uint64_t hash) {
  for (const double number : {static_cast<double>(r.width), r.beta_fast, r.beta_slow, r.truncate ? 1.0 : 0.0,
                              static_cast<double>(r.angle_scale), r.neighbours ? 1.0 : 0.0}) {
    hash = mix64(hash ^ std::bit_cast<std::uint64_t>(number));
  }
  for (const auto* factors : {&r.short_factors, &r.long_factors})
    hash = hash64(std::as_bytes(std::span(*factors)), hash);
  return hash;
}

// A hash of the switches that few families use. Fingerprints of the first families are older than these switches, so
// they leave out defaults.
TENON_INLINE std::uint64_t hash_of_switches(const ModelConfig& c) {
  std::uint64_t hash = hash_of_rotary(c.rotary, 0);
  if (c.turns_twice()) {
    const RotaryConfig& r = c.local_rotary;
    hash = hash_of_rotary(r, mix64(hash ^ std::bit_cast<std::uint64_t>(r.theta)));
    hash = mix64(hash ^ std::bit_cast<std::uint64_t>(r.factor) ^ static_cast<std::uint64_t>(r.scaling));
  }
  for (const float number : {c.embedding_scale, c.residual_scale, c.logit_scale, c.attention_scale, c.logit_soft_cap,
                             c.attention_soft_cap}) {
    hash = mix64(hash ^ std::bit_cast<std::uint32_t>(number));
  }
  for (const bool is : {c.parallel_residual, c.norms_all_heads, c.output_norms, c.shared_norm, c.head_norms})
    hash = mix64(hash ^ static_cast<std::uint64_t>(is));
  hash = hash64(std::as_bytes(std::span(c.windows)), hash);
  hash = hash64(std::as_bytes(std::span(c.rotations)), hash);
  if (c.labels.empty()) return hash;
  return mix64(hash ^ c.labels.size() << 32 ^ static_cast<std::uint32_t>(c.pad.value_or(-1)));
}

}  // namespace detail

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
  hash = mix64(hash ^ std::bit_cast<std::uint32_t>(c.norm_epsilon));
  static const std::uint64_t none = detail::hash_of_switches({});
  const std::uint64_t switches = detail::hash_of_switches(c);
  return switches == none ? hash : mix64(hash ^ switches);
}

}  // namespace tenon
