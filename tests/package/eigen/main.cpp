// Finds the largest of a row of logits with Eigen, without a copy.
#include <tenon/eigen.h>

#include <vector>

int main() {
  const std::vector<float> logits = {0.5f, 2.0f, -1.0f};
  Eigen::Index best = 0;
  tenon::as_eigen(std::span(logits)).maxCoeff(&best);
  return best == 1 ? 0 : 1;
}
