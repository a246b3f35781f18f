// The frequencies of rotary positions and how they are stretched for texts longer than those of training, as
// transformers' modeling_rope_utils.py computes them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
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
std::vector<float> rotary_frequencies(float theta, int head_dim);

}  // namespace detail

// [head_dim / 2] for a text of `length` tokens; only dynamic scaling depends on that.
std::vector<float> rotary_frequencies(const RotaryConfig& c, int head_dim, int length);

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
  Rows of(const BatchView& batch);

  // Whether keys depend on more than tokens and positions: a prefix is then shared only by prompts of the same length.
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
