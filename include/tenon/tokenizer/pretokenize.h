// Cuts text into the pieces that byte pairs never cross: GPT-2's pattern, by hand, in one pass without backtracking.
#pragma once
#include <cstddef>
#include <string_view>

#include "tenon/tokenizer/unicode.h"

namespace tenon {
namespace detail {

struct ClassAt {
  CharClass kind;
  std::size_t length;  // bytes
};

inline ClassAt class_at(std::string_view text, std::size_t at) noexcept {
  const CodePoint point = decode_utf8(text, at);
  return {char_class(point.value), static_cast<std::size_t>(point.length)};
}

// Bytes of 's|'t|'re|'ve|'m|'ll|'d at the start of `text`, 0 for none. Lower case only, as in GPT-2.
inline std::size_t contraction_length(std::string_view text) noexcept {
  if (text.size() < 2 || text[0] != '\'') return 0;
  switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return text.size() > 2 && text[2] == 'e' ? 3 : 0;
    case 'l':
      return text.size() > 2 && text[2] == 'l' ? 3 : 0;
    default:
      return 0;
  }
}

inline std::size_t end_of_run(std::string_view text, std::size_t at, CharClass kind) noexcept {
  while (at < text.size()) {
    const ClassAt next = class_at(text, at);
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

}  // namespace detail

// The end of the piece that begins at text[begin]; begin < text.size(), and text is valid UTF-8.
// Pattern (openai/gpt-2, encoder.py): 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
inline std::size_t piece_end(std::string_view text, std::size_t begin) noexcept {
  if (const std::size_t length = detail::contraction_length(text.substr(begin))) return begin + length;

  const std::size_t after_space = begin + (text[begin] == ' ' ? 1 : 0);
  if (after_space < text.size()) {
    const detail::ClassAt first = detail::class_at(text, after_space);
    if (first.kind != CharClass::space) return detail::end_of_run(text, after_space + first.length, first.kind);
  }

  // \s+(?!\S) gives back the last space of a run, for the word behind it; a run of one is \s+.
  std::size_t last = begin, end = begin;
  while (end < text.size()) {
    const detail::ClassAt next = detail::class_at(text, end);
    if (next.kind != CharClass::space) break;
    last = end;
    end += next.length;
  }
  return end == text.size() || last == begin ? end : last;
}

}  // namespace tenon
