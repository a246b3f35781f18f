// Products of sixteen-bit matrices on tensor cores: every tile gives the same bits, and a row the same alone and in a
// batch. Rounded results are the roundings of the others. All lie within the roundings of sums of exact products.
#define BOOST_TEST_MODULE tenon ops cuda linear_tiles
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "../linear_problem.h"
#include "problem.h"

using namespace tenon;
using namespace tenon::test;
namespace gpu = tenon::cuda;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

using Formats = std::tuple<BFloat16Mma, Float16Mma>;

namespace {

// All tiles that this device runs; mma.sync with one warp, with some, and with all.
std::vector<gpu::ProductTile> tiles_of(Cuda& cuda) {
  std::vector<gpu::ProductTile> all;
  const bool has_groups = cuda.kept<gpu::ProductKernels>().has_groups;
  for (gpu::ProductTile tile : gpu::kProductTiles) {
    if (tile.kind == gpu::ProductTile::Kind::wgmma) {
      if (has_groups) all.push_back(tile);
      continue;
    }
    for (const int warps : {1, 3, gpu::kMostWarps}) all.push_back({tile.kind, tile.tokens, tile.outputs, warps});
  }
  return all;
}

std::string name_of(const gpu::ProductTile& t) {
  return std::string(t.kind == gpu::ProductTile::Kind::mma ? "mma " : "wgmma ") + std::to_string(t.tokens) + " x " +
         std::to_string(t.outputs) + ", " + std::to_string(t.warps) + " warps";
}

// A product's operands on the device.
template <class P>
class Operands {
 public:
  using E = typename P::View::Operand::Element;

  Operands(Cuda& cuda, const Problem& p)
      : cuda_(cuda),
        p_(p),
        packed_(p.weight),
        there_(cuda, packed_),
        x_(cuda, p.x),
        bias_(cuda, p.bias),
        deltas_(cuda, p.deltas),
        residual_(cuda, p.residual),
        delta_(cuda, rows_of(p, deltas_)) {}

  // y of rows first .. by this tile, or by the tile that the op picks.
  Matrix y(const Epilogue& e, int first, int rows, const gpu::ProductTile* tile) const {
    const Matrix start = p_.output(rows);
    for (int r = 0; e.residual == Residual::in_place && r < rows; ++r)
      std::copy_n(p_.residual.row(first + r), p_.out, start.row(r));
    const DeviceMatrix y(cuda_, start);
    run(args(e, first, rows, y.view()), tile);
    return y.host();
  }

  // The same, rounded by the product itself.
  std::vector<E> rounded(const Epilogue& e, int first, int rows, const gpu::ProductTile* tile) const {
    const OnDevice<E> memory(cuda_, std::vector<E>(OperandTiles<E>::elements(rows, p_.out), E(NAN)));
    run(args(e, first, rows, OperandTiles<E>{memory.data(), rows, p_.out}), tile);
    return memory.values();
  }

  const Packed<P>& packed() const { return packed_; }

 private:
  template <class Y>
  LinearArgs<typename P::View, OperandTiles<E>, Y> args(const Epilogue& e, int first, int rows, const Y& y) const {
    x_tiles_ = cuda_.allocate(OperandTiles<E>::elements(rows, p_.in) * sizeof(E));
    const OperandTiles<E> x{reinterpret_cast<E*>(x_tiles_.data()), rows, p_.in};
    gpu::round_operand(cuda_, x_.view(first, rows), x);
    LinearArgs<typename P::View, OperandTiles<E>, Y> args{.x = x,
                                                          .weight = there_.view(),
                                                          .bias = e.bias ? bias_.row(0) : nullptr,
                                                          .delta = e.delta ? delta_.data() + first : nullptr,
                                                          .activation = e.activation,
                                                          .y = y};
    if (e.residual == Residual::other) args.residual = residual_.view(first, rows);
    if constexpr (std::is_same_v<Y, MatrixView<float>>) {
      if (e.residual == Residual::in_place) args.residual = y;
    } else if (e.residual == Residual::in_place) {
      args.residual = residual_.view(first, rows);
    }
    return args;
  }
  template <class Args>
  void run(const Args& args, const gpu::ProductTile* tile) const {
    if (!tile) return linear(cuda_, args);
    gpu::launch_tile<E>(cuda_, gpu::pair_job(args, args.y),
                        OperandTiles<const E>{args.x.data, args.x.rows, args.x.cols}, args.weight.tiles(), *tile);
  }
  static std::vector<const float*> rows_of(const Problem& p, const DeviceMatrix& deltas) {
    std::vector<const float*> delta;
    for (int r = 0; r < kMostRows; ++r) delta.push_back(p.delta[static_cast<std::size_t>(r)] ? deltas.row(r) : nullptr);
    return delta;
  }

  Cuda& cuda_;
  const Problem& p_;
  Packed<P> packed_;
  DevicePacked<P> there_;
  DeviceMatrix x_, bias_, deltas_, residual_;
  OnDevice<const float*> delta_;
  mutable Cuda::Memory x_tiles_;
};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(all_tiles_have_the_same_bits, P, Formats) {
  using E = typename P::View::Operand::Element;
  Cuda cuda;
  int number = 0;
  for (const auto& [in, out] : {std::pair{1, 1}, {16, 8}, {77, 131}, {768, 64}, {1'100, 200}, {3'072, 48}}) {
    const Problem p(in, out);
    const Operands<P> operands(cuda, p);
    for (const int rows : {1, 9, 64, kMostRows}) {
      const Epilogue& e = kEpilogues[number++ % static_cast<int>(std::size(kEpilogues))];
      const Matrix truth = operands.y(e, 0, rows, nullptr);
      std::vector<E> rounded(OperandTiles<E>::elements(rows, out), E(0.0f));  // after the columns
      const OperandTiles<E> at{rounded.data(), rows, out};
      Epilogue other = e;
      if (e.residual == Residual::in_place) other.residual = Residual::other;
      const Matrix to_round = operands.y(other, 0, rows, nullptr);
      for (int r = 0; r < rows; ++r) {
        for (int o = 0; o < out; ++o) rounded[static_cast<std::size_t>(at.at(r, o))] = E(to_round.row(r)[o]);
      }
      for (const gpu::ProductTile& tile : tiles_of(cuda)) {
        BOOST_TEST_CONTEXT(name_of(tile) << ", " << rows << " rows of " << in << " -> " << out) {
          const Matrix found_y = operands.y(e, 0, rows, &tile);
          BOOST_TEST_REQUIRE(gaps_untouched(found_y));
          for (int r = 0; r < rows; ++r) BOOST_TEST_REQUIRE(same_bits(found_y.row(r), truth.row(r), out), "row " << r);
          for (const int r : {0, rows / 2, rows - 1}) {
            const Matrix alone = operands.y(other, r, 1, &tile);
            BOOST_TEST_REQUIRE(same_bits(alone.row(0), to_round.row(r), out), "row " << r << " alone");
          }
          const std::vector<E> found = operands.rounded(e, 0, rows, &tile);
          for (int r = 0; r < rows; ++r) {  // rows after the last are unspecified
            for (int o = 0; o < chunk_count(out) * kChunkColumns; ++o) {
              const auto i = static_cast<std::size_t>(at.at(r, o));
              BOOST_TEST_REQUIRE(found[i].bits == rounded[i].bits, "rounded, row " << r << ", output " << o);
            }
          }
        }
      }
    }
  }
}

// Within the roundings of the sums of exact products. Activations that are not rounded lie farther off.
BOOST_AUTO_TEST_CASE_TEMPLATE(sums_are_near_the_exact_ones, P, Formats) {
  using E = typename P::View::Operand::Element;
  Cuda cuda;
  double farthest = 0;
  for (const int in : {1, 15, 16, 77, 768, 1'100}) {
    for (const int out : {1, 16, 131}) {
      const Problem p(in, out);
      const Operands<P> operands(cuda, p);
      const Matrix y = operands.y({}, 0, 20, nullptr);
      for (int r = 0; r < 20; ++r) {
        for (int o = 0; o < out; ++o) {
          double sum = 0, unrounded = 0, size = 0;
          for (int k = 0; k < in; ++k) {
            const double w = operands.packed().view().at(o, k), rounded = static_cast<float>(E(p.x.row(r)[k]));
            sum += w * rounded, unrounded += w * p.x.row(r)[k], size += std::fabs(w * rounded);
          }
          // Each of the additions, in any order, loses less than 2^-22 of the sum so far, cut off or rounded.
          const double bound = (in + 4) * 0x1p-22 * size;
          BOOST_TEST_REQUIRE(std::fabs(y.row(r)[o] - sum) <= bound, in << " -> " << out);
          farthest = std::max(farthest, std::fabs(y.row(r)[o] - unrounded) / std::max(bound, 1e-30));
        }
      }
    }
  }
  BOOST_TEST(farthest > 4);
}

// The epilogue is of the class of tensor cores, near the CPU's: 2^x and quotients to a few units of the last place.
BOOST_AUTO_TEST_CASE(activations_are_near) {
  Cuda cuda;
  const Problem p(77, 64);
  const Operands<BFloat16Mma> operands(cuda, p);
  const Matrix plain = operands.y({}, 0, 64, nullptr);
  for (const Activation activation : {Activation::relu, Activation::relu2, Activation::silu, Activation::quick_gelu,
                                      Activation::gelu, Activation::gelu_new}) {
    const Matrix y = operands.y({.activation = activation}, 0, 64, nullptr);
    float other = 0;
    for (int r = 0; r < 64; ++r) {
      for (int o = 0; o < 64; ++o) {
        const double x = plain.row(r)[o], u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        const double expected = activation == Activation::relu         ? std::max(x, 0.0)
                                : activation == Activation::relu2      ? std::max(x, 0.0) * std::max(x, 0.0)
                                : activation == Activation::silu       ? x / (1 + std::exp(-x))
                                : activation == Activation::quick_gelu ? x / (1 + std::exp(-1.702 * x))
                                : activation == Activation::gelu       ? x / 2 * (1 + std::erf(x / std::sqrt(2.0)))
                                                                       : x / (1 + std::exp(-2 * u));
        // Relative errors of 2^x are near 2^-22, and a factor 1 + erf(..) loses digits near 0.
        BOOST_TEST_REQUIRE(std::fabs(y.row(r)[o] - expected) <= 4e-6 * std::fabs(expected) + 1e-6 * std::fabs(x), x);
        other = std::max(other, static_cast<float>(std::fabs(y.row(r)[o] - x)));
      }
    }
    BOOST_TEST(other > 1e-3f);
  }
}
