// The exact type of a member function, for hooks whose arguments must not be converted.
#pragma once
#include "tenon/core/require.h"

namespace tenon::detail {

// Whether a pointer to a function has exactly the parameters and the result of F, and can be called on a const object.
template <class Pointer, class F>
inline constexpr bool has_signature = false;
template <class C, class R, class... Ts, bool kNoexcept>
inline constexpr bool has_signature<R (C::*)(Ts...) const noexcept(kNoexcept), R(Ts...)> = true;
template <class R, class... Ts, bool kNoexcept>
inline constexpr bool has_signature<R (*)(Ts...) noexcept(kNoexcept), R(Ts...)> = true;  // a static member

}  // namespace tenon::detail
