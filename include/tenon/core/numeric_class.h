/// Names of numeric classes: engines of one class have the same bits (docs/numerics.md).
#pragma once
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

/// Version of the arithmetic in docs/numerics.md. It changes when a bit of any class changes, and so does every
/// fingerprint.
inline constexpr int kNumericsVersion = 1;

/// The name of a policy's arithmetic, for its member `numeric_class` (NamesNumericClass). Policies with equal bits
/// share a name. P: the policy itself. A policy that derives from P has another type, and so does not inherit the name.
template <class P>
struct NumericClass {
  std::string_view name;
};

}  // namespace tenon
