// The frequencies of rotary positions, and their scaling for texts longer than those of training. The formulas are
// those of transformers' modeling_rope_utils.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "tenon/core/batch.h"

namespace tenon {

/// How frequencies are scaled for long texts.
enum class RotaryScaling {
  none,
  linear,    ///< positions divided by `factor` (position interpolation; Chen et al., 2023)
  dynamic,   ///< theta grows with the length of the text ("NTK-aware")
  llama3,    ///< low frequencies divided by `factor`, high ones kept, a ramp between (Llama 3.1)
  yarn,      ///< the same with a ramp over dimensions, and longer queries and keys (Peng et al., 2023)
  longrope,  ///< each frequency divided by a factor of its own, by other ones in long texts (Ding et al., 2024)
};

/// The rotary fields of config.json.
struct RotaryConfig {
  RotaryScaling scaling = RotaryScaling::none;
  double theta = 10000;
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;  ///< for llama3
  int trained_positions = 0;             ///< tokens of a text in training; for all scalings but linear
  double beta_fast = 32, beta_slow = 1;  ///< for yarn: turns within trained_positions where the ramp begins and ends
  bool truncate = true;                  ///< for yarn: the ramp begins and ends at whole dimensions
  /// For longrope, [width / 2] each: divisors in texts of at most trained_positions tokens, and in longer ones.
  std::vector<float> short_factors = {}, long_factors = {};
  float angle_scale = 1;    ///< factor of cosines and sines, for yarn and longrope
  int width = 0;            ///< elements of a head that are turned; 0: all
  bool neighbours = false;  ///< in the checkpoint, pairs are elements 2 i and 2 i + 1 of a head; see append_head()

  friend bool operator==(const RotaryConfig&, const RotaryConfig&) = default;
};

namespace detail {

// Every step is rounded to float32, as it was in training. Another rounding of a frequency changes the angle at
// position 131,071 by 0.008 radians.
inline float power(float base, float exponent) { return static_cast<float>(std::pow(double{base}, double{exponent})); }

// theta^(-2 i / head_dim) for i < head_dim / 2, in radians per position.
std::vector<float> rotary_frequencies(float theta, int head_dim);

double yarn_dimension(const RotaryConfig& c, int width, double turns);
void scale_by_yarn(const RotaryConfig& c, int width, std::vector<float>& frequencies);

}  // namespace detail

/// [head_dim / 2], in radians per position, for a text of `length` tokens. Only dynamic and longrope use the length.
/// Pairs that are not turned have frequency 0.
std::vector<float> rotary_frequencies(const RotaryConfig& c, int head_dim, int length);

/// The frequencies of a step's rows.
///
/// longrope takes its long factors for every token of a text that is longer than trained_positions. A text that grows
/// beyond them therefore needs new keys for all of its tokens (transformers drops its cache there).
///
/// Under dynamic scaling a token's frequencies depend on the length of the text when the token was read. For a token of
/// the prompt that is the whole prompt; for a new token it is its own position + 1. transformers does the same for one
/// text with a cache. The rule depends on the text alone, not on chunks or on other requests.
class RotaryFrequencies {
 public:
  RotaryFrequencies() = default;
  RotaryFrequencies(const RotaryConfig& config, int head_dim)
      : config_(config), head_dim_(head_dim), usual_(rotary_frequencies(config, head_dim, 0)) {}

  struct Rows {
    const float* data;      ///< [rows, head_dim / 2]
    std::ptrdiff_t stride;  ///< in elements; 0: all rows share one set of frequencies
  };
  /// The frequencies of a batch. Valid until the next call.
  Rows of(const BatchView& batch);

  /// Whether keys depend on the prompt's length, not only on tokens and positions. Then only prompts of equal length
  /// may share a prefix.
  static bool depends_on_prompt(const RotaryConfig& c, std::size_t prompt);

 private:
  static int length_of(const SequenceRows& s, int row) { return std::max(s.prompt, s.start + row + 1); }

  bool stretches(const BatchView& batch) const;

  RotaryConfig config_;
  int head_dim_ = 0;
  std::vector<float> usual_;  // [head_dim / 2]
  std::vector<float> rows_;   // [rows, head_dim / 2]
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/rotary-inl.h"
#endif
