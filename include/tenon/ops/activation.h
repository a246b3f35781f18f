// The activation functions of MLPs.
#pragma once
#include <cstdint>

#include "tenon/core/require.h"

namespace tenon {

/// The function that an MLP applies to its first product.
enum class Activation : std::uint8_t {
  none,        ///< x
  gelu_new,    ///< tanh form, Hendrycks and Gimpel 2016: x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
  gelu,        ///< x / 2 (1 + erf(x / sqrt 2))
  relu,        ///< max(x, 0)
  silu,        ///< x / (1 + exp(-x)), Elfwing et al. 2017; also named swish
  quick_gelu,  ///< x / (1 + exp(-1.702 x)), Hendrycks and Gimpel 2016
  relu2,       ///< max(x, 0)^2, So et al. 2021
};

}  // namespace tenon
