// Cuts text into pieces, which merges never cross: the patterns of byte-level tokenizers, each hand-written as one
// pass without backtracking.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tenon/tokenizer/unicode.h"

namespace tenon {

/// A pre-tokenizer pattern with hand-written code.
enum class Pattern : std::uint8_t {
  gpt2,       ///< openai/gpt-2, encoder.py
  starcoder,  ///< each number character alone, and GPT-2's pattern between them
  llama3,     ///< meta-llama/llama3, tokenizer.py
  qwen2,      ///< Llama 3's, with each number character alone
  bloom,      ///< bigscience/bloom
};

namespace detail {

// The class of a character in a text.
struct ClassAt {
  CharClass kind;
  std::size_t length;  // bytes
};

inline ClassAt class_at(std::string_view text, std::size_t at) noexcept {
  const CodePoint point = decode_utf8(text, at);
  return {char_class(point.value), static_cast<std::size_t>(point.length)};
}
inline bool is_at(std::string_view text, std::size_t at, CharClass kind) noexcept {
  return at < text.size() && class_at(text, at).kind == kind;
}

// Length in bytes of 's|'t|'re|'ve|'m|'ll|'d at the start of `text`; 0 for none. Lower case only, as in GPT-2.
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

// (?i:'s|'t|'re|'ve|'m|'ll|'d). Beyond ASCII, only U+017F folds into one of these letters.
inline std::size_t contraction_length_any_case(std::string_view text) noexcept {
  if (text.starts_with("'\xC5\xBF")) return 3;
  char folded[3] = {};
  const std::size_t size = std::min<std::size_t>(3, text.size());
  for (std::size_t k = 0; k < size; ++k)
    folded[k] = static_cast<char>(text[k] >= 'A' && text[k] <= 'Z' ? text[k] + ('a' - 'A') : text[k]);
  return contraction_length({folded, size});
}

inline std::size_t end_of_run(std::string_view text, std::size_t at, CharClass kind) noexcept {
  while (at < text.size()) {
    const ClassAt next = class_at(text, at);
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

// A run of white space.
struct SpaceRun {
  std::size_t last, end;     // start and end of its last character
  std::size_t newlines_end;  // end of its last \r or \n; 0 where it has none
};

// The run of \s+ that starts at text[begin], a space.
inline SpaceRun space_run(std::string_view text, std::size_t begin) noexcept {
  SpaceRun run{begin, begin, 0};
  while (run.end < text.size()) {
    const ClassAt next = class_at(text, run.end);
    if (next.kind != CharClass::space) break;
    run.last = run.end;
    run.end += next.length;
    if (text[run.last] == '\r' || text[run.last] == '\n') run.newlines_end = run.end;
  }
  return run;
}

// End of \s+(?!\S)|\s+, which leaves the last space of a run to the next word. A run of one space is \s+.
inline std::size_t spaces_end(std::string_view text, std::size_t begin, const SpaceRun& run) noexcept {
  return run.end == text.size() || run.last == begin ? run.end : run.last;
}

// Number characters are cut out first, so each piece between two of them sees the end of the text there.
inline std::size_t starcoder_end(std::string_view text, std::size_t begin) noexcept {
  if (const std::size_t length = contraction_length(text.substr(begin))) return begin + length;
  const ClassAt here = class_at(text, begin);
  if (here.kind == CharClass::number) return begin + here.length;
  const std::size_t after_space = begin + (text[begin] == ' ' ? 1 : 0);
  if (after_space < text.size()) {
    const ClassAt first = class_at(text, after_space);
    if (first.kind == CharClass::letter || first.kind == CharClass::other)
      return end_of_run(text, after_space + first.length, first.kind);
  }
  const SpaceRun run = space_run(text, begin);
  return is_at(text, run.end, CharClass::number) ? run.end : spaces_end(text, begin, run);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,numbers}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
// |\s+(?!\S)|\s+
inline std::size_t llama3_end(std::string_view text, std::size_t begin, int numbers) noexcept {
  if (const std::size_t length = contraction_length_any_case(text.substr(begin))) return begin + length;
  const ClassAt first = class_at(text, begin);
  std::size_t end = begin + first.length;
  if (first.kind == CharClass::letter) return end_of_run(text, end, CharClass::letter);
  if (first.kind == CharClass::number) {
    for (int count = 1; count < numbers && is_at(text, end, CharClass::number); ++count)
      end += class_at(text, end).length;
    return end;
  }
  const bool newline = text[begin] == '\r' || text[begin] == '\n';
  if (!newline && is_at(text, end, CharClass::letter)) return end_of_run(text, end, CharClass::letter);
  if (first.kind == CharClass::other || (text[begin] == ' ' && is_at(text, end, CharClass::other))) {
    end = end_of_run(text, end, CharClass::other);
    while (end < text.size() && (text[end] == '\r' || text[end] == '\n')) ++end;
    return end;
  }
  const SpaceRun run = space_run(text, begin);
  return run.newlines_end != 0 ? run.newlines_end : spaces_end(text, begin, run);
}

// Whether [^(\s|[.,!?<U+2026 3002 FF0C 3001 0964 06D4 060C>])] matches `c`. The inner brackets are a nested set, so
// the parentheses and the bar are three more excluded characters (Oniguruma, doc/RE, "character class").
inline bool in_bloom_word(char32_t c) noexcept {
  switch (c) {
    case '(':
    case '|':
    case ')':
    case '.':
    case ',':
    case '!':
    case '?':
    case 0x2026:
    case 0x3002:
    case 0xFF0C:
    case 0x3001:
    case 0x0964:
    case 0x06D4:
    case 0x060C:
      return false;
    default:
      return char_class(c) != CharClass::space;
  }
}

// The pattern is ' ?' and then characters as above. Text that it does not match is one piece, up to the next match.
inline std::size_t bloom_end(std::string_view text, std::size_t begin) noexcept {
  const auto word_at = [&](std::size_t at) { return at < text.size() && in_bloom_word(decode_utf8(text, at).value); };
  const auto match_at = [&](std::size_t at) { return word_at(at) || (text[at] == ' ' && word_at(at + 1)); };
  const auto next = [&](std::size_t at) { return at + static_cast<std::size_t>(decode_utf8(text, at).length); };
  const bool match = match_at(begin);
  std::size_t end = next(begin);
  while (end < text.size() && (match ? word_at(end) : !match_at(end))) end = next(end);
  return end;
}

}  // namespace detail

/// End of the piece of GPT-2's pattern that starts at text[begin]; begin < text.size(), and text is valid UTF-8.
/// Pattern (openai/gpt-2, encoder.py): 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
inline std::size_t piece_end(std::string_view text, std::size_t begin) noexcept {
  if (const std::size_t length = detail::contraction_length(text.substr(begin))) return begin + length;

  const std::size_t after_space = begin + (text[begin] == ' ' ? 1 : 0);
  if (after_space < text.size()) {
    const detail::ClassAt first = detail::class_at(text, after_space);
    if (first.kind != CharClass::space) return detail::end_of_run(text, after_space + first.length, first.kind);
  }
  return detail::spaces_end(text, begin, detail::space_run(text, begin));
}

/// The same for any pattern.
inline std::size_t piece_end(Pattern pattern, std::string_view text, std::size_t begin) noexcept {
  switch (pattern) {
    case Pattern::starcoder:
      return detail::starcoder_end(text, begin);
    case Pattern::llama3:
      return detail::llama3_end(text, begin, 3);
    case Pattern::qwen2:
      return detail::llama3_end(text, begin, 1);
    case Pattern::bloom:
      return detail::bloom_end(text, begin);
    default:
      return piece_end(text, begin);
  }
}

}  // namespace tenon
