#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "tenon/core/classifier_head.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE double dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t lanes = 8;
  std::array<double, lanes> sums{};
  std::size_t i = 0;
  for (; i + lanes <= a.size(); i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  }
  for (std::size_t lane = 0; i < a.size(); ++i, ++lane)
    sums[lane] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

TENON_INLINE ClassifierHead::ClassifierHead(std::vector<float> weights, int width)
    : weights_(std::move(weights)), width_(width) {
  if (width < 1 || weights_.empty() || weights_.size() % static_cast<std::size_t>(width) != 0)
    throw Error(Error::Kind::internal, "classifier head", "its size is no multiple of the width");
}

TENON_INLINE std::vector<float> ClassifierHead::logits(std::span<const float> row) const {
  if (row.size() != static_cast<std::size_t>(width_))
    throw Error(Error::Kind::internal, "classifier head", "the row has another width");
  std::vector<float> out(static_cast<std::size_t>(labels()));
  for (std::size_t label = 0; label < out.size(); ++label)
    out[label] = static_cast<float>(dot(std::span(weights_).subspan(label * row.size(), row.size()), row));
  return out;
}

TENON_INLINE int best_label(std::span<const float> logits) {
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TENON_INLINE void normalize(std::span<float> vector) {
  const double length = std::sqrt(dot(vector, vector));
  if (length == 0) return;
  for (float& each : vector) each = static_cast<float>(static_cast<double>(each) / length);
}

}  // namespace tenon
