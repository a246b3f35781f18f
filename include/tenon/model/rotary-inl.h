#pragma once
#include <cmath>
#include <numbers>

#include "tenon/core/require.h"
#include "tenon/model/rotary.h"

namespace tenon::detail {

TENON_INLINE std::vector<float> rotary_frequencies(float theta, int head_dim) {
  std::vector<float> out(static_cast<std::size_t>(head_dim / 2));
  for (int i = 0; i < head_dim / 2; ++i) {
    out[static_cast<std::size_t>(i)] = 1.0f / power(theta, static_cast<float>(2 * i) / static_cast<float>(head_dim));
  }
  return out;
}

// Wavelengths above trained / low are stretched by the factor; those below trained / high are kept.
TENON_INLINE float llama3_frequency(const RotaryConfig& c, float frequency) {
  const auto factor = static_cast<float>(c.factor), low = static_cast<float>(c.low_frequency_factor);
  const auto high = static_cast<float>(c.high_frequency_factor), trained = static_cast<float>(c.trained_positions);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wavelength > static_cast<float>(c.trained_positions / c.low_frequency_factor)) return frequency / factor;
  if (wavelength < static_cast<float>(c.trained_positions / c.high_frequency_factor)) return frequency;
  const float kept = (trained / wavelength - low) / (high - low);
  const float stretched = (1.0f - kept) * frequency / factor;
  // The product is rounded before the addition. Otherwise compilers contract the two, even in double with a cast to
  // float.
  return stretched + std::fma(kept, frequency, 0.0f);
}

// A dimension that turns `turns` times within the trained positions.
TENON_INLINE double yarn_dimension(const RotaryConfig& c, int width, double turns) {
  return width * std::log(c.trained_positions / (turns * 2 * std::numbers::pi)) / (2 * std::log(c.theta));
}

// Dimensions below the ramp keep their frequency, those above it are divided by `factor`.
TENON_INLINE void scale_by_yarn(const RotaryConfig& c, int width, std::vector<float>& frequencies) {
  double low = yarn_dimension(c, width, c.beta_fast), high = yarn_dimension(c, width, c.beta_slow);
  if (c.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, width - 1.0);
  if (low == high) high += 0.001;  // no division by zero, as in the paper's code
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp =
        std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float kept = 1.0f - ramp, stretched = frequencies[i] / static_cast<float>(c.factor);
    // One product is rounded before the sum. Otherwise a compiler may contract either of them.
    frequencies[i] = std::fma(frequencies[i], kept, std::fma(stretched, 1.0f - kept, 0.0f));
  }
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE std::vector<float> rotary_frequencies(const RotaryConfig& c, int head_dim, int length) {
  const int width = c.width == 0 ? head_dim : c.width;
  auto theta = static_cast<float>(c.theta);
  if (c.scaling == RotaryScaling::dynamic && length > c.trained_positions) {
    const auto factor = static_cast<float>(c.factor);
    const float longer = factor * static_cast<float>(length) / static_cast<float>(c.trained_positions);
    theta *= detail::power(longer - static_cast<float>(c.factor - 1), static_cast<float>(width / (width - 2.0)));
  }
  auto out = detail::rotary_frequencies(theta, width);
  for (float& frequency : out) {
    if (c.scaling == RotaryScaling::linear) frequency /= static_cast<float>(c.factor);
    if (c.scaling == RotaryScaling::llama3) frequency = detail::llama3_frequency(c, frequency);
  }
  if (c.scaling == RotaryScaling::yarn) detail::scale_by_yarn(c, width, out);
  if (c.scaling == RotaryScaling::longrope) {
    const auto& factors = length > c.trained_positions ? c.long_factors : c.short_factors;
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = 1.0f / (factors[i] * detail::power(theta, static_cast<float>(2 * i) / static_cast<float>(width)));
    }
  }
  out.resize(static_cast<std::size_t>(head_dim / 2));
  return out;
}

TENON_INLINE RotaryFrequencies::Rows RotaryFrequencies::of(const BatchView& batch) {
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

TENON_INLINE bool RotaryFrequencies::depends_on_prompt(const RotaryConfig& c, std::size_t prompt) {
  const bool by_length = c.scaling == RotaryScaling::dynamic || c.scaling == RotaryScaling::longrope;
  return by_length && prompt > static_cast<std::size_t>(c.trained_positions);
}

TENON_INLINE bool RotaryFrequencies::stretches(const BatchView& batch) const {
  if (config_.scaling != RotaryScaling::dynamic && config_.scaling != RotaryScaling::longrope) return false;
  for (const SequenceRows* s = batch.sequences; s < batch.sequences + batch.sequence_count; ++s) {
    if (length_of(*s, s->rows - 1) > config_.trained_positions) return true;
  }
  return false;
}

}  // namespace tenon
