// A range of a text.
#pragma once
#include <cstddef>

#include "tenon/core/require.h"

namespace tenon {

/// Bytes [begin, end) of a text.
struct TextSpan {
  std::size_t begin = 0, end = 0;

  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

}  // namespace tenon
