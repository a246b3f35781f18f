// Regular expressions of Python's `re` over short printable ASCII texts, such as the paths of modules.
//
// Supported: literals, classes, groups, alternatives, greedy and lazy repetitions, anchors, \b, lookahead, lookbehind
// and the flags i, m, s, a and u. For all of these the positions where a match can end are a set. Refused:
// backreferences, conditionals, atomic groups and possessive repetitions, whose result depends on the order in which
// alternatives are tried. Matching propagates sets of positions (Thompson, 1968), so no pattern takes exponential time.
#pragma once
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

namespace detail {

inline constexpr std::size_t kRegexText = 511;  // longest text, in bytes
using RegexPositions = std::bitset<kRegexText + 1>;
using RegexChars = std::bitset<128>;

struct RegexNode {
  enum class Kind { chars, sequence, either, repeat, begin, end, boundary, no_boundary, ahead, behind };
  static constexpr std::uint32_t kNoLimit = 0xffffffffu;

  Kind kind = Kind::sequence;
  std::vector<int> children = {};
  RegexChars chars = {};              // Kind::chars
  std::uint32_t least = 0, most = 0;  // Kind::repeat; most is kNoLimit where unbounded
  bool negated = false;               // lookarounds
  std::uint32_t width = 0;            // lookbehind: number of characters to look back
};

}  // namespace detail

/// A compiled pattern. Immutable; matching is thread-safe.
class PythonRegex {
 public:
  /// `where` names the pattern in errors. Errors: invalid_file if Python refuses the pattern; unsupported if it
  /// is outside the subset.
  PythonRegex(std::string_view pattern, std::string where);

  /// re.fullmatch and re.match. `text`: printable ASCII without spaces, at most 511 bytes; otherwise error unsupported.
  /// `budget`: decreased by 1 for each visit of a node; error unsupported at 0.
  bool full_match(std::string_view text, std::uint64_t& budget) const { return ends(text, 0, budget)[text.size()]; }
  bool prefix_match(std::string_view text, std::uint64_t& budget) const { return ends(text, 0, budget).any(); }

  /// All positions where a match that starts at `from` can end.
  detail::RegexPositions ends(std::string_view text, std::size_t from, std::uint64_t& budget) const;

  /// Whether the pattern is an alternative outside any group, whose meaning changes when text is put around it.
  bool is_open_choice() const { return node(root_).kind == Kind::either; }

 private:
  class Parser;
  using Node = detail::RegexNode;
  using Kind = Node::Kind;
  using Positions = detail::RegexPositions;

  const Node& node(int index) const;

  static bool is_word(char c);
  static bool at_boundary(std::string_view text, std::size_t at);

  // Positions where matches of the node can end that start at a position in `from`.
  Positions step(int index, const Positions& from, std::string_view text, std::uint64_t& budget) const;

  // Whether an assertion, which consumes no characters, holds at a position.
  bool holds(const Node& n, std::size_t at, std::string_view text, std::uint64_t& budget) const;

  // After as many rounds as there are positions, further rounds change nothing. A match never moves backwards, so by
  // then only matches of the empty text are left, or none.
  Positions repeat(const Node& n, const Positions& from, std::string_view text, std::uint64_t& budget) const;

  std::string where_;
  std::vector<Node> nodes_;
  int root_ = 0;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/python_regex-inl.h"
#endif
