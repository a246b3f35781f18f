// The library's version. CMake reads it from here.
#pragma once
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

/// The version: major.minor.patch.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace tenon
