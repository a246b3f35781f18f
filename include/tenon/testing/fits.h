// A type that is no policy of its axis gets the axis's one line (core/axes.h) from a law function, too.
#pragma once
#include "tenon/core/axes.h"

namespace tenon::testing::detail {

// Whether the policy of an axis's wrapper fits. If not, the wrapper's static_assert is the only error, because the laws
// are not instantiated.
template <class Wrapper>
consteval bool fits() {
  static_assert(sizeof(Wrapper) > 0);  // instantiates the wrapper
  return tenon::detail::choice<Wrapper>::valid;
}

}  // namespace tenon::testing::detail
