// The library's version, read by CMake too.
#pragma once
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace tenon
