// Random mixtures of experts, for the tests of their ops on every device.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "helpers.h"
#include "tenon/ops/args.h"

namespace tenon::test {

// A mixture whose experts have the format P.
template <class P>
struct MixtureProblem {
  using View = typename P::View;
  using Parts = std::vector<ExpertParts<View, const float*>>;

  int hidden, inner, experts, chosen;
  RouterKind kind;
  ExpertGate gate;
  Matrix x, start, router, router_bias;
  std::vector<Matrix> ups, downs, up_biases, down_biases;
  std::vector<Packed<P>> packed_ups, packed_downs;
  Parts parts;

  MixtureProblem(int width, int wide, int count, int most, RouterKind how, ExpertGate of = {})
      : hidden(width),
        inner(wide),
        experts(count),
        chosen(most),
        kind(how),
        gate(of),
        x(random_matrix(kMostRows, width, 1, width + 3)),
        start(random_matrix(kMostRows, width, 2, width + 5)),
        router(random_matrix(count, width, 3)),
        router_bias(random_matrix(1, count, 4)) {
    for (int e = 0; e < count; ++e) {
      const auto seed = static_cast<std::uint64_t>(10 * e);
      ups.push_back(random_matrix(2 * wide, width, 100 + seed));
      downs.push_back(random_matrix(width, wide, 200 + seed));
      up_biases.push_back(random_matrix(1, 2 * wide, 300 + seed));
      down_biases.push_back(random_matrix(1, width, 400 + seed));
    }
    for (const Matrix& up : ups) packed_ups.emplace_back(up);
    for (const Matrix& down : downs) packed_downs.emplace_back(down);
    for (std::size_t e = 0; e < ups.size(); ++e) {
      parts.push_back({{packed_ups[e].view(), up_biases[e].row(0)}, {packed_downs[e].view(), down_biases[e].row(0)}});
    }
  }
};

template <class P = Float32>
std::vector<MixtureProblem<P>> mixture_problems() {
  std::vector<MixtureProblem<P>> all;
  all.emplace_back(48, 40, 8, 3, RouterKind::softmax);
  all.emplace_back(77, 33, 5, 2, RouterKind::normalised);
  all.emplace_back(48, 40, 4, 2, RouterKind::chosen_softmax, ExpertGate{Activation::silu, 1.5f, 1.702f});
  all.emplace_back(16, 16, 3, 3, RouterKind::normalised);
  all.emplace_back(20, 16, 6, 1, RouterKind::softmax);
  return all;
}

}  // namespace tenon::test
