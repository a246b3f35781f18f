// Sets of texts as expressions.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/byte_set.h"
#include "tenon/constrain/expression.h"

namespace tenon::constrain {

/// Matches exactly the given texts; kNever for an empty list. The result is a trie of their bytes: thousands of texts
/// cost as much per step as one. Refused if texts are prefixes of one another more than 1,024
/// deep.
inline Expr one_of_texts(Expressions& expressions, std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  const auto tree = [&](const auto& self, std::size_t first, std::size_t last, std::size_t depth) -> Expr {
    if (last - first == 1) return expressions.literal(std::string_view(texts[first]).substr(depth));
    const Budget::Nesting nesting(expressions.budget());
    expressions.budget().check();
    std::size_t shared = depth;  // texts are sorted: the first and the last share the shortest prefix
    const std::string &low = texts[first], &high = texts[last - 1];
    while (shared < low.size() && shared < high.size() && low[shared] == high[shared]) ++shared;
    std::vector<Expr> ways;
    std::size_t i = first;
    if (low.size() == shared) ways.push_back(Expressions::kEmpty), ++i;
    while (i < last) {
      std::size_t end = i + 1;
      while (end < last && texts[end][shared] == texts[i][shared]) ++end;
      const Expr byte = expressions.bytes(ByteSet::of(static_cast<unsigned char>(texts[i][shared])));
      ways.push_back(expressions.concat(byte, self(self, i, end, shared + 1)));
      i = end;
    }
    return expressions.concat(expressions.literal(std::string_view(low).substr(depth, shared - depth)),
                              expressions.either(std::move(ways)));
  };
  return texts.empty() ? Expressions::kNever : tree(tree, 0, texts.size(), 0);
}

}  // namespace tenon::constrain
