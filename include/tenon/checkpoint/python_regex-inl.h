#pragma once
#include "tenon/checkpoint/python_regex.h"
#include "tenon/checkpoint/python_regex_parser.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"

namespace tenon {

TENON_INLINE detail::RegexPositions PythonRegex::ends(std::string_view text, std::size_t from,
                                                      std::uint64_t& budget) const {
  bool supported = text.size() <= detail::kRegexText;
  for (const char c : text) supported = supported && c > ' ' && c < 0x7f;
  if (!supported)
    throw Error(Error::Kind::unsupported, where_,
                "the regular expression cannot be matched against \"" + printable(text, 60) + "\": names of at most " +
                    std::to_string(detail::kRegexText) + " ASCII characters without blanks are supported");
  detail::RegexPositions start;
  start.set(from);
  return step(root_, start, text, budget);
}

TENON_INLINE const PythonRegex::Node& PythonRegex::node(int index) const {
  return nodes_[static_cast<std::size_t>(index)];
}

TENON_INLINE bool PythonRegex::is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

TENON_INLINE bool PythonRegex::at_boundary(std::string_view text, std::size_t at) {
  const bool before = at > 0 && is_word(text[at - 1]), after = at < text.size() && is_word(text[at]);
  return before != after;
}

TENON_INLINE PythonRegex::Positions PythonRegex::step(int index, const Positions& from, std::string_view text,
                                                      std::uint64_t& budget) const {
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

TENON_INLINE bool PythonRegex::holds(const Node& n, std::size_t at, std::string_view text,
                                     std::uint64_t& budget) const {
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

TENON_INLINE PythonRegex::Positions PythonRegex::repeat(const Node& n, const Positions& from, std::string_view text,
                                                        std::uint64_t& budget) const {
  // A path of more than text.size() rounds has one that consumes nothing and can be repeated. So further rounds reach
  // the same positions.
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

}  // namespace tenon
