// Finds the longest suffix of a text in another text.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/core/views.h"

namespace tenon::detail {

/// Length of the common suffix of two texts, at most `most`.
inline std::size_t common_end(std::span<const TokenId> a, std::span<const TokenId> b, std::size_t most) {
  most = std::min({most, a.size(), b.size()});
  std::size_t same = 0;
  while (same < most && a[a.size() - 1 - same] == b[b.size() - 1 - same]) ++same;
  return same;
}

/// Finds in `in` the longest suffix of `text` that has `fewest` to `longest` tokens, and returns the place after it; 0
/// if there is none. The last one counts, if several are as long.
inline std::size_t after_longest_end(std::span<const TokenId> text, std::span<const TokenId> in, int fewest,
                                     int longest) {
  if (text.empty()) return 0;
  const auto most = static_cast<std::size_t>(std::max(longest, 0));
  std::size_t best = 0, length = static_cast<std::size_t>(std::max(fewest, 1)) - 1;
  for (std::size_t at = in.size(); at > length && length < most; --at) {
    if (in[at - 1] != text.back()) continue;
    const std::size_t same = common_end(text, in.first(at), most);
    if (same <= length) continue;
    length = same;
    best = at;
  }
  return best;
}

}  // namespace tenon::detail
