#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <span>

#include "tenon/core/require.h"
#include "tenon/engine/fingerprint.h"
#include "tenon/io/sha256.h"
#include "tenon/model/alibi.h"

namespace tenon {

namespace detail {

// SHA-256 over a sequence of values, each with its length, so that no two sequences give the same bytes.
class HashedValues {
 public:
  void add(std::uint64_t value) {  // little-endian on every processor
    std::array<std::byte, 8> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i) & 255);
    hash_.update(bytes);
  }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    hash_.update(text);
  }
  void add_number(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  template <class List>
  void add_numbers(const List& list) {
    add(std::uint64_t{list.size()});
    for (const auto& each : list) add_number(static_cast<double>(each));
  }
  std::string hex() const { return hash_.hex(); }

 private:
  Sha256 hash_;
};

TENON_INLINE void add_rotary(const RotaryConfig& r, HashedValues& to) {
  for (const double number :
       {static_cast<double>(r.scaling), r.theta, r.factor, r.low_frequency_factor, r.high_frequency_factor,
        static_cast<double>(r.trained_positions), r.beta_fast, r.beta_slow, r.truncate ? 1.0 : 0.0,
        static_cast<double>(r.angle_scale), static_cast<double>(r.width), r.neighbours ? 1.0 : 0.0})
    to.add_number(number);
  to.add_numbers(r.short_factors);
  to.add_numbers(r.long_factors);
}

// Every field that enters the arithmetic, or decides which weights there are.
TENON_INLINE void add_config(const ModelConfig& c, HashedValues& to) {
  to.add(std::string_view(c.model_type));
  for (const int number :
       {c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim, c.inner, c.expert_inner, c.experts, c.experts_chosen,
        c.embedding_width, c.vocab, c.window, static_cast<int>(c.norm_kind), static_cast<int>(c.position_kind),
        static_cast<int>(c.mlp_kind), static_cast<int>(c.activation), static_cast<int>(c.router_kind),
        static_cast<int>(c.expert_gate.activation), c.pad.value_or(-1)})
    to.add_number(number);
  for (const float number :
       {c.norm_epsilon, c.embedding_scale, c.residual_scale, c.logit_soft_cap, c.attention_soft_cap, c.logit_scale,
        c.attention_scale, c.expert_gate.limit, c.expert_gate.steepness})
    to.add_number(static_cast<double>(number));
  to.add_numbers(std::array{c.attention_bias, c.mlp_bias, c.parallel_residual, c.norms_all_heads, c.output_norms,
                            c.norms_after, c.final_norm, c.rounded_alibi, c.shared_norm, c.head_norms, c.qkv_bias,
                            c.grouped_qkv, c.interleaved_qkv, c.tied_head, c.scale_scores, c.scale_scores_by_layer,
                            c.language_head, c.independent_labels});
  to.add_numbers(c.eos);  // they end answers
  to.add_numbers(c.dense_layers);
  to.add_numbers(c.windows);
  to.add_numbers(c.rotations);
  to.add(std::uint64_t{c.labels.size()});
  add_rotary(c.rotary, to);
  add_rotary(c.local_rotary, to);
  // Models without these fields keep the fingerprints that they had before.
  const auto add_newer = [&](std::string_view name, auto... values) {
    to.add(name);
    (to.add_number(static_cast<double>(values)), ...);
  };
  if (c.qkv_bound > 0) add_newer("qkv_bound", c.qkv_bound);
  if (c.norms_after_rotation) add_newer("norms_after_rotation");
  if (c.router_scale != 1 || c.router_epsilon != 0 || c.choice_bias)
    add_newer("router", c.router_scale, c.router_epsilon, c.choice_bias ? 1 : 0);
  if (c.shared_inner > 0) add_newer("shared_inner", c.shared_inner);
  if (c.query_growth != 0) add_newer("query_growth", c.query_growth, c.query_period);
  if (!c.conv_layers.empty()) {
    add_newer("conv_layers", c.conv_taps, c.conv_bias ? 1 : 0);
    to.add_numbers(c.conv_layers);
  }
}

// Frequencies and slopes, which libm computes once per model (docs/numerics.md): its powers may differ in a last bit
// between versions.
TENON_INLINE void add_positions(const ModelConfig& c, HashedValues& to) {
  const auto add_frequencies = [&](const RotaryConfig& r) {
    to.add_numbers(rotary_frequencies(r, c.head_dim, std::max(1, r.trained_positions)));
  };
  if (c.position_kind == PositionKind::rotary) add_frequencies(c.rotary);
  if (c.position_kind == PositionKind::rotary && c.turns_twice()) add_frequencies(c.local_rotary);
  if (c.position_kind == PositionKind::alibi) to.add_numbers(alibi_slopes(c.heads));
  if (c.query_growth != 0) to.add_number(static_cast<double>(c.query_scale(c.query_period)));
}

TENON_INLINE void add_tokenizer(const Tokenizer& tokenizer, HashedValues& to) {
  to.add(static_cast<std::uint64_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) to.add(tokenizer.bytes(id));
  to.add(std::uint64_t{tokenizer.special_tokens().size()});
  for (const SpecialToken& each : tokenizer.special_tokens()) {
    to.add(static_cast<std::uint64_t>(each.id));
    to.add(std::string_view(each.text));
  }
  to.add_numbers(tokenizer.before_prompt());
  to.add_numbers(tokenizer.after_prompt());
}

}  // namespace detail

TENON_INLINE std::string fingerprint_of(std::string_view numeric_class, const ModelConfig& config,
                                        const Tokenizer* tokenizer, std::uint64_t weights) {
  detail::HashedValues hash;
  hash.add(numeric_class);
  detail::add_config(config, hash);
  detail::add_positions(config, hash);
  hash.add(std::uint64_t{tokenizer != nullptr});
  if (tokenizer) detail::add_tokenizer(*tokenizer, hash);
  hash.add(weights);
  return hash.hex();
}

TENON_INLINE std::string short_fingerprint(std::string_view fingerprint) {
  return "fp_" + std::string(fingerprint.substr(0, 16));
}

}  // namespace tenon
