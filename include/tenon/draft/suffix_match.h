// Where the end of a text stands in another one.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/core/views.h"

namespace tenon::detail {

/// How many tokens before their ends two texts have in common; at most `most`.
inline std::size_t common_end(std::span<const TokenId> a, std::span<const TokenId> b, std::size_t most) {
  most = std::min({most, a.size(), b.size()});
  std::size_t same = 0;
  while (same < most && a[a.size() - 1 - same] == b[b.size() - 1 - same]) ++same;
  return same;
}

/// Finds the longest end of `text`, of at least `fewest` tokens, in `in`, and returns the place after it; 0: nowhere.
/// The latest place if several ends are equally long. Agreement beyond `longest` tokens is not looked for.
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
