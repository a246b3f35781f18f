// UTF-8 text that knows who wrote each of its bytes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/require.h"
#include "tenon/tokenizer/text_span.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::chat::detail {

// Writer of a byte.
inline constexpr char kByTemplate = 0, kByMessage = 1;

inline constexpr std::size_t kNotFound = std::string_view::npos;

// `marks` has the writer of each byte of `bytes`, which is valid UTF-8.
struct MarkedText {
  std::string bytes, marks;

  MarkedText() = default;
  MarkedText(std::string text, char writer) : bytes(std::move(text)), marks(bytes.size(), writer) {}

  std::size_t size() const { return bytes.size(); }
  bool empty() const { return bytes.empty(); }

  void append(std::string_view text, char writer) {
    bytes += text;
    marks.append(text.size(), writer);
  }
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  // Bytes [begin, end) of another text.
  void append(const MarkedText& other, std::size_t begin, std::size_t end) {
    bytes.append(other.bytes, begin, end - begin);
    marks.append(other.marks, begin, end - begin);
  }
  // Bytes [begin, end).
  MarkedText part(std::size_t begin, std::size_t end) const {
    MarkedText out;
    out.append(*this, begin, end);
    return out;
  }
  // The message if it wrote any byte.
  char writer() const { return marks.find(kByMessage) == kNotFound ? kByTemplate : kByMessage; }
};

// The bytes that the template wrote.
inline std::vector<TextSpan> template_spans(const MarkedText& text) {
  std::vector<TextSpan> spans;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end =
        std::min(text.marks.find(text.marks[at] == kByTemplate ? kByMessage : kByTemplate, at), text.size());
    if (text.marks[at] == kByTemplate) spans.push_back({at, end});
    at = end;
  }
  return spans;
}

// ---------------------------------------------------------------- characters
inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Number of code points.
inline std::size_t count_characters(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

// Bytes of the character that starts at text[at].
inline std::size_t character_bytes(std::string_view text, std::size_t at) {
  return static_cast<std::size_t>(decode_utf8(text, at).length);
}

// Offset of the first byte of each character.
inline std::vector<std::size_t> character_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < text.size(); ++at)
    if (!is_continuation(text[at])) offsets.push_back(at);
  return offsets;
}

// Offset of character `index`; the end where the text is shorter.
inline std::size_t offset_of_character(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (!is_continuation(text[at]) && index-- == 0) return at;
  return at;
}

// str.isspace() of Python.
inline bool is_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || char_class(c) == CharClass::space; }

// Start of the last character of text[0, end).
inline std::size_t previous_character(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && is_continuation(text[end]));
  return end;
}

// ---------------------------------------------------------------- searching
// Offset of `needle` in text[from, ...), or kNotFound. Linear: long needles use the Knuth-Morris-Pratt algorithm.
inline std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from = 0) {
  if (needle.size() <= 32) return text.find(needle, from);
  std::vector<std::size_t> border(needle.size(), 0);
  for (std::size_t i = 1, k = 0; i < needle.size(); ++i) {
    while (k > 0 && needle[i] != needle[k]) k = border[k - 1];
    border[i] = k += needle[i] == needle[k];
  }
  for (std::size_t i = from, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != needle[k]) k = border[k - 1];
    k += text[i] == needle[k];
    if (k == needle.size()) return i + 1 - k;
  }
  return kNotFound;
}

// Offset of the last `needle`, or kNotFound.
inline std::size_t find_last_text(std::string_view text, std::string_view needle) {
  if (needle.size() <= 32) return text.rfind(needle);
  std::size_t last = kNotFound;
  for (std::size_t at = find_text(text, needle); at != kNotFound; at = find_text(text, needle, at + 1)) {
    last = at;
    if (last + needle.size() == text.size()) break;
  }
  return last;
}

// ---------------------------------------------------------------- stripping
// Range of the text without the characters at its sides that are in `set`; a null set is white space.
inline TextSpan stripped_range(std::string_view text, const std::string_view* set, bool left, bool right) {
  const auto goes = [&](std::size_t at) {
    const CodePoint point = decode_utf8(text, at);
    const auto length = static_cast<std::size_t>(point.length);
    return set ? set->find(text.substr(at, length)) != kNotFound : is_space(point.value);
  };
  std::size_t begin = 0, end = text.size();
  while (left && begin < end && goes(begin)) begin += character_bytes(text, begin);
  while (right && end > begin) {
    const std::size_t last = previous_character(text, end);
    if (!goes(last)) break;
    end = last;
  }
  return {begin, end};
}

}  // namespace tenon::chat::detail
