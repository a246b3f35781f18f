// Regular expressions of Python's `re` over short printable ASCII texts, such as the paths of modules.
//
// Supported is every construct whose answer to "where can a match end" is a set: literals, classes, groups,
// alternatives, greedy and lazy repetitions, anchors, \b, lookahead, lookbehind and the flags i, m, s, a and u. What
// depends on the order in which alternatives are tried is refused: backreferences, conditionals, atomic groups,
// possessive repetitions. Matching propagates sets of positions (Thompson, 1968), so no pattern takes exponential time.
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

inline constexpr std::size_t kRegexText = 511;  // bytes of a text at most
using RegexPositions = std::bitset<kRegexText + 1>;
using RegexChars = std::bitset<128>;

struct RegexNode {
  enum class Kind { chars, sequence, either, repeat, begin, end, boundary, no_boundary, ahead, behind };
  static constexpr std::uint32_t kNoLimit = 0xffffffffu;

  Kind kind = Kind::sequence;
  std::vector<int> children = {};
  RegexChars chars = {};              // Kind::chars
  std::uint32_t least = 0, most = 0;  // Kind::repeat; most: kNoLimit for none
  bool negated = false;               // of lookarounds
  std::uint32_t width = 0;            // Kind::behind: characters that it looks back
};

}  // namespace detail

class PythonRegex {
 public:
  // `where`: what errors name. Errors: invalid_file where Python refuses the pattern, too, unsupported where it is
  // outside the subset.
  PythonRegex(std::string_view pattern, std::string where);

  // re.fullmatch and re.match. `text`: printable ASCII of at most 511 bytes, else error unsupported. Each visit of a
  // node takes 1 off `budget`; error unsupported where that is used up.
  bool full_match(std::string_view text, std::uint64_t& budget) const { return ends(text, 0, budget)[text.size()]; }
  bool prefix_match(std::string_view text, std::uint64_t& budget) const { return ends(text, 0, budget).any(); }

  // All places where a match that begins at `from` can end.
  detail::RegexPositions ends(std::string_view text, std::size_t from, std::uint64_t& budget) const;

  // Whether the pattern is a choice that no group holds: it means something else where more is written around it.
  bool is_open_choice() const { return node(root_).kind == Kind::either; }

 private:
  class Parser;
  using Node = detail::RegexNode;
  using Kind = Node::Kind;
  using Positions = detail::RegexPositions;

  const Node& node(int index) const;

  static bool is_word(char c);
  static bool at_boundary(std::string_view text, std::size_t at);

  // Where matches of the node can end that begin at one of `from`.
  Positions step(int index, const Positions& from, std::string_view text, std::uint64_t& budget) const;

  // Whether an assertion, which takes no characters, holds at a place.
  bool holds(const Node& n, std::size_t at, std::string_view text, std::uint64_t& budget) const;

  // After as many rounds as there are places, another round changes nothing: a match never steps back, so it has come
  // to places where the body matches the empty text, or to none.
  Positions repeat(const Node& n, const Positions& from, std::string_view text, std::uint64_t& budget) const;

  std::string where_;
  std::vector<Node> nodes_;
  int root_ = 0;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/python_regex-inl.h"
#endif
