// Products by cuBLASLt lie within the roundings of their sums, with every epilogue.
#define BOOST_TEST_MODULE tenon ops cuda linear_cublas
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "../linear_problem.h"
#include "problem.h"
#include "tenon/ops/cuda/linear_cublas.cuh"
#include "tenon/weights/fast_math_bfloat16.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

BOOST_AUTO_TEST_CASE(products_and_what_follows_them) {
  Cuda cuda;
  double farthest = 0;  // from sums of activations that are not rounded: the inverse test
  for (const int in : {1, 15, 77, 768}) {
    for (const int out : {1, 16, 131}) {
      const Problem p(in, out);
      const Packed<FastMathBFloat16> packed(p.weight);
      const DevicePacked<FastMathBFloat16> device_packed(cuda, packed);
      const DeviceMatrix x(cuda, p.x), bias(cuda, p.bias), residual(cuda, p.residual);
      for (const int rows : {1, 8, 40}) {
        Matrix y = p.output(rows);
        const DeviceMatrix device_y(cuda, y);
        linear(cuda, LinearArgs<FastMathBFloat16::View>{.x = x.view(0, rows),
                                                        .weight = device_packed.view(),
                                                        .bias = bias.row(0),
                                                        .activation = Activation::relu,
                                                        .residual = residual.view(0, rows),
                                                        .y = device_y.view()});
        const Matrix found = device_y.host();
        BOOST_TEST(gaps_untouched(found));
        for (int r = 0; r < rows; ++r) {
          for (int o = 0; o < out; ++o) {
            double sum = p.bias.row(0)[o], unrounded = sum, size = std::fabs(sum) + std::fabs(p.residual.row(r)[o]);
            for (int k = 0; k < in; ++k) {
              const double w = packed.view().at(o, k), rounded = static_cast<float>(bfloat16(p.x.row(r)[k]));
              sum += w * rounded, unrounded += w * p.x.row(r)[k], size += std::fabs(w * rounded);
            }
            // Each of the additions, in any order, loses less than 2^-22 of the sum so far.
            const double bound = (in + 6) * 0x1p-22 * size, residual_value = p.residual.row(r)[o];
            BOOST_TEST_REQUIRE(std::fabs(found.row(r)[o] - (std::max(sum, 0.0) + residual_value)) <= bound,
                               in << " -> " << out);
            farthest =
                std::max(farthest, std::fabs(found.row(r)[o] - (std::max(unrounded, 0.0) + residual_value)) / bound);
          }
        }
      }
    }
  }
  BOOST_TEST(farthest > 4);
}

static_assert(tenon::cuda::result_alignment(768) == 16 && tenon::cuda::result_alignment(50258) == 8 &&
                  tenon::cuda::result_alignment(50257) == 4,
              "rows of floats after one another begin there");

using F = FastMathBFloat16::View;
static_assert(RunsTransformer<Cuda, F, F, PagedKV::View, FlashAttention>,
              "an engine is made of it by the name of its weights alone");
