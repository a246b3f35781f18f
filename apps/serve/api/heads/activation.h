// From the logits of a classification head to scores. The bits are the same on all machines (exact_math.h).
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "tenon/core/exact_math.h"

namespace serve {

enum class HeadActivation { none, sigmoid, softmax };

// 1 / (1 + e^-x). Neither branch overflows.
inline float sigmoid(float x) {
  const float small = tenon::exact::exp(x < 0 ? x : -x);
  return (x < 0 ? small : 1.0f) / (1.0f + small);
}

// The scores of one row of logits. Softmax sums in double, in the order of the labels.
inline std::vector<float> activated(std::span<const float> logits, HeadActivation activation) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (activation == HeadActivation::none || scores.empty()) return scores;
  if (activation == HeadActivation::sigmoid) {
    for (float& each : scores) each = sigmoid(each);
    return scores;
  }
  const float most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (float& each : scores) {
    each = tenon::exact::exp(each - most);
    sum += static_cast<double>(each);
  }
  for (float& each : scores) each = static_cast<float>(static_cast<double>(each) / sum);
  return scores;
}

}  // namespace serve
