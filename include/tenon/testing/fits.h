// A type that is no policy of its axis gets the axis's one line (core/axes.h) from a law function, too.
#pragma once
#include "tenon/core/axes.h"

namespace tenon::testing::detail {

// Whether the policy of an axis's wrapper fits. Instantiate the laws only then, so that the line is the only error.
template <class Wrapper>
inline constexpr bool fits = tenon::detail::choice<Wrapper>::valid;

// Instantiates the wrapper, whose static_assert has the line.
template <class Wrapper>
void must_fit() {
  static_cast<void>(sizeof(Wrapper));
}

}  // namespace tenon::testing::detail
