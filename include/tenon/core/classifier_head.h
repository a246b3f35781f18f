/// Classification heads: a matrix whose products with one row of a prompt are the logits of its classes.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

/// A classification head in host memory: `score` of transformers' ForSequenceClassification. It has no bias.
class ClassifierHead {
 public:
  /// weights: [labels, width]. Error internal if the size is no multiple of width.
  ClassifierHead(std::vector<float> weights, int width);

  int labels() const { return static_cast<int>(weights_.size()) / width_; }
  int width() const { return width_; }
  std::size_t bytes() const { return weights_.size() * sizeof(float); }

  /// The logits of all labels, [labels]: dot() with each row of the head, rounded to float32 once. row: [width].
  std::vector<float> logits(std::span<const float> row) const;

 private:
  std::vector<float> weights_;
  int width_;
};

/// The dot product of two vectors of equal length. Element i is added to partial sum i % 8; then the 8 sums are added
/// in order. A product of two float32 is exact in double, so that fused and separate multiplication give the same bits.
double dot(std::span<const float> a, std::span<const float> b);

/// The label with the largest logit; ties go to the lowest label.
int best_label(std::span<const float> logits);

/// Divides a vector by its Euclidean length, in double. A vector of zeros is left unchanged.
void normalize(std::span<float> vector);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/core/classifier_head-inl.h"
#endif
