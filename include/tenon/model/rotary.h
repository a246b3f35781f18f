// The frequencies of rotary positions and how they are stretched for texts longer than those of training, as
// transformers' modeling_rope_utils.py computes them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "tenon/core/batch.h"

namespace tenon {

enum class RotaryScaling {
  none,
  linear,   // positions divided by `factor` (position interpolation; Chen et al., 2023)
  dynamic,  // a larger theta, the longer the text is ("NTK-aware")
  llama3,   // low frequencies divided by `factor`, high ones kept, a ramp between (Llama 3.1)
};

struct RotaryConfig {
  RotaryScaling scaling = RotaryScaling::none;
  double theta = 10000;
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
  int trained_positions = 0;                                   // llama3 and dynamic: length of texts in training
};

namespace detail {

// Every step is rounded to float32, for that is how models were trained: at position 131,071 another rounding of a
// frequency turns by 0.008 radians more or less.
inline float power(float base, float exponent) { return static_cast<float>(std::pow(double{base}, double{exponent})); }

// theta^(-2 i / head_dim) for i < head_dim / 2, in radians a position.
inline std::vector<float> rotary_frequencies(float theta, int head_dim) {
  std::vector<float> out(static_cast<std::size_t>(head_dim / 2));
  for (int i = 0; i < head_dim / 2; ++i) {
    out[static_cast<std::size_t>(i)] = 1.0f / power(theta, static_cast<float>(2 * i) / static_cast<float>(head_dim));
  }
  return out;
}

// Wavelengths above trained / low are stretched by the factor, those below trained / high are kept.
inline float llama3_frequency(const RotaryConfig& c, float frequency) {
  const auto factor = static_cast<float>(c.factor), low = static_cast<float>(c.low_frequency_factor);
  const auto high = static_cast<float>(c.high_frequency_factor), trained = static_cast<float>(c.trained_positions);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wavelength > static_cast<float>(c.trained_positions / c.low_frequency_factor)) return frequency / factor;
  if (wavelength < static_cast<float>(c.trained_positions / c.high_frequency_factor)) return frequency;
  const float kept = (trained / wavelength - low) / (high - low);
  const float stretched = (1.0f - kept) * frequency / factor;
  return stretched +
         static_cast<float>(double{kept} * double{frequency});  // rounded before it is added, on every machine
}

}  // namespace detail

// [head_dim / 2] for a text of `length` tokens; only dynamic scaling depends on that.
inline std::vector<float> rotary_frequencies(const RotaryConfig& c, int head_dim, int length) {
  auto theta = static_cast<float>(c.theta);
  if (c.scaling == RotaryScaling::dynamic && length > c.trained_positions) {
    const auto factor = static_cast<float>(c.factor);
    const float longer = factor * static_cast<float>(length) / static_cast<float>(c.trained_positions);
    theta *= detail::power(longer - static_cast<float>(c.factor - 1), static_cast<float>(head_dim / (head_dim - 2.0)));
  }
  auto out = detail::rotary_frequencies(theta, head_dim);
  for (float& frequency : out) {
    if (c.scaling == RotaryScaling::linear) frequency /= static_cast<float>(c.factor);
    if (c.scaling == RotaryScaling::llama3) frequency = detail::llama3_frequency(c, frequency);
  }
  return out;
}

// The frequencies of a step's rows.
//
// Under dynamic scaling a token turns by the frequencies of the text's length when it was read: the whole prompt for
// the prompt's tokens, its own position + 1 for a new one. That is what transformers does for one text with a cache,
// said so that it depends on nothing but the text: neither on chunks nor on neighbours.
class RotaryFrequencies {
 public:
  RotaryFrequencies() = default;
  RotaryFrequencies(const RotaryConfig& config, int head_dim)
      : config_(config), head_dim_(head_dim), usual_(rotary_frequencies(config, head_dim, 0)) {}

  struct Rows {
    const float* data;      // [rows, head_dim / 2]
    std::ptrdiff_t stride;  // 0: all rows have the same
  };
  // Valid until the next call.
  Rows of(const BatchView& batch) {
    if (!stretches(batch)) return {usual_.data(), 0};
    const auto half = static_cast<std::ptrdiff_t>(usual_.size());
    rows_.clear();
    for (const SequenceRows* s = batch.sequences; s < batch.sequences + batch.sequence_count; ++s) {
      int length = -1;
      std::vector<float> row;
      for (int r = 0; r < s->rows; ++r) {
        const int now = length_of(*s, r);
        if (now != length) row = rotary_frequencies(config_, head_dim_, length = now);
        rows_.insert(rows_.end(), row.begin(), row.end());
      }
    }
    return {rows_.data(), half};
  }

  // Whether keys depend on more than tokens and positions: a prefix is then shared only by prompts of the same length.
  static bool depends_on_prompt(const RotaryConfig& c, std::size_t prompt) {
    return c.scaling == RotaryScaling::dynamic && prompt > static_cast<std::size_t>(c.trained_positions);
  }

 private:
  static int length_of(const SequenceRows& s, int row) { return std::max(s.prompt, s.start + row + 1); }

  bool stretches(const BatchView& batch) const {
    if (config_.scaling != RotaryScaling::dynamic) return false;
    for (const SequenceRows* s = batch.sequences; s < batch.sequences + batch.sequence_count; ++s) {
      if (length_of(*s, s->rows - 1) > config_.trained_positions) return true;
    }
    return false;
  }

  RotaryConfig config_;
  int head_dim_ = 0;
  std::vector<float> usual_;  // [head_dim / 2]
  std::vector<float> rows_;   // [rows, head_dim / 2]
};

}  // namespace tenon
