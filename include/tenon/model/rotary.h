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

// theta^(-2 i / head_dim) for i < head_dim / 2, in radians a position.
inline std::vector<float> rotary_frequencies(double theta, int head_dim) {
  std::vector<float> out(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / head_dim));
  }
  return out;
}

// Wavelengths above trained / low are stretched by the factor, those below trained / high are kept.
inline float llama3_frequency(const RotaryConfig& c, float frequency) {
  const double waves = c.trained_positions * static_cast<double>(frequency) / (2 * std::numbers::pi);  // in a text
  if (waves < c.low_frequency_factor) return static_cast<float>(frequency / c.factor);
  if (waves > c.high_frequency_factor) return frequency;
  const double kept = (waves - c.low_frequency_factor) / (c.high_frequency_factor - c.low_frequency_factor);
  return static_cast<float>((1 - kept) * frequency / c.factor + kept * frequency);
}

}  // namespace detail

// [head_dim / 2] for a text of `length` tokens; only dynamic scaling depends on that.
inline std::vector<float> rotary_frequencies(const RotaryConfig& c, int head_dim, int length) {
  double theta = c.theta;
  if (c.scaling == RotaryScaling::dynamic && length > c.trained_positions) {
    const double stretch = c.factor * length / c.trained_positions - (c.factor - 1);
    theta *= std::pow(stretch, head_dim / (head_dim - 2.0));
  }
  auto out = detail::rotary_frequencies(theta, head_dim);
  for (float& frequency : out) {
    if (c.scaling == RotaryScaling::linear) frequency = static_cast<float>(frequency / c.factor);
    if (c.scaling == RotaryScaling::llama3) frequency = detail::llama3_frequency(c, frequency);
  }
  return out;
}

// The frequencies of a step's rows.
//
// Under dynamic scaling a token turns by the frequencies of the text's length when it was read: the whole prompt for the
// prompt's tokens, its own position + 1 for a new one. That is what transformers does for one text with a cache, said so
// that it depends on nothing but the text: neither on chunks nor on neighbours.
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
