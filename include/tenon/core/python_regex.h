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
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/json.h"

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
  detail::RegexPositions ends(std::string_view text, std::size_t from, std::uint64_t& budget) const {
    bool printable_text = text.size() <= detail::kRegexText;
    for (const char c : text) printable_text = printable_text && c > ' ' && c < 0x7f;
    if (!printable_text)
      throw Error(Error::Kind::unsupported, where_,
                  "a regular expression cannot be tried on \"" + printable(text, 60) + "\"");
    detail::RegexPositions start;
    start.set(from);
    return step(root_, start, text, budget);
  }

  // Whether the pattern is a choice that no group holds: it means something else where more is written around it.
  bool is_open_choice() const { return node(root_).kind == Kind::either; }

 private:
  class Parser;
  using Node = detail::RegexNode;
  using Kind = Node::Kind;
  using Positions = detail::RegexPositions;

  const Node& node(int index) const { return nodes_[static_cast<std::size_t>(index)]; }

  static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  static bool at_boundary(std::string_view text, std::size_t at) {
    const bool before = at > 0 && is_word(text[at - 1]), after = at < text.size() && is_word(text[at]);
    return before != after;
  }

  // Where matches of the node can end that begin at one of `from`.
  Positions step(int index, const Positions& from, std::string_view text, std::uint64_t& budget) const {
    if (budget == 0) throw Error(Error::Kind::unsupported, where_, "the regular expression takes too long");
    --budget;
    const Node& n = node(index);
    Positions to;
    switch (n.kind) {
      case Kind::sequence:
        to = from;
        for (const int child : n.children) to = to.any() ? step(child, to, text, budget) : to;
        return to;
      case Kind::either:
        for (const int child : n.children) to |= step(child, from, text, budget);
        return to;
      case Kind::repeat:
        return repeat(n, from, text, budget);
      case Kind::chars:
        for (std::size_t at = 0; at < text.size(); ++at)
          if (from[at] && n.chars[static_cast<unsigned char>(text[at])]) to.set(at + 1);
        return to;
      default:
        for (std::size_t at = 0; at <= text.size(); ++at)
          if (from[at] && holds(n, at, text, budget)) to.set(at);
        return to;
    }
  }

  // Whether an assertion, which takes no characters, holds at a place.
  bool holds(const Node& n, std::size_t at, std::string_view text, std::uint64_t& budget) const {
    if (n.kind == Kind::begin) return at == 0;
    if (n.kind == Kind::end) return at == text.size();
    if (n.kind == Kind::boundary) return at_boundary(text, at);
    if (n.kind == Kind::no_boundary) return !text.empty() && !at_boundary(text, at);
    if (n.kind == Kind::behind && at < n.width) return n.negated;
    const std::size_t start = n.kind == Kind::behind ? at - n.width : at;
    Positions from;
    from.set(start);
    const Positions found = step(n.children[0], from, text, budget);
    return (n.kind == Kind::behind ? found[at] : found.any()) != n.negated;
  }

  // After as many rounds as there are places, another round changes nothing: a match never steps back, so it has come
  // to places where the body matches the empty text, or to none.
  Positions repeat(const Node& n, const Positions& from, std::string_view text, std::uint64_t& budget) const {
    const std::size_t rounds = text.size() + 2;
    Positions now = from;
    for (std::size_t i = 0; i < n.least && i < rounds && now.any(); ++i) now = step(n.children[0], now, text, budget);
    Positions seen = now;
    for (std::uint64_t i = n.least; i < n.most && now.any(); ++i) {
      now = step(n.children[0], now, text, budget) & ~seen;
      seen |= now;
    }
    return seen;
  }

  std::string where_;
  std::vector<Node> nodes_;
  int root_ = 0;
};

}  // namespace tenon

#include "tenon/core/python_regex_parser.h"
