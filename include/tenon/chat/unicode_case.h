// Upper, lower and title case of texts, as in Python's str.
#pragma once
#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "tenon/chat/marked_text.h"
#include "tenon/core/require.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::chat::detail {

// Characters whose upper case is several characters (SpecialCasing.txt of Unicode). `title` is empty where the title
// case is one character.
struct SpecialCase {
  char32_t from;
  std::u32string_view upper, title;
};
// clang-format off
inline constexpr SpecialCase kSpecialCases[] = {
    {0x00DF, U"SS", U"Ss"}, {0x0149, U"\u02bcN", U"\u02bcN"}, {0x01F0, U"J\u030c", U"J\u030c"},
    {0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"}, {0x03B0, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
    {0x0587, U"\u0535\u0552", U"\u0535\u0582"}, {0x1E96, U"H\u0331", U"H\u0331"}, {0x1E97, U"T\u0308", U"T\u0308"},
    {0x1E98, U"W\u030a", U"W\u030a"}, {0x1E99, U"Y\u030a", U"Y\u030a"}, {0x1E9A, U"A\u02be", U"A\u02be"},
    {0x1F50, U"\u03a5\u0313", U"\u03a5\u0313"}, {0x1F52, U"\u03a5\u0313\u0300", U"\u03a5\u0313\u0300"},
    {0x1F54, U"\u03a5\u0313\u0301", U"\u03a5\u0313\u0301"}, {0x1F56, U"\u03a5\u0313\u0342", U"\u03a5\u0313\u0342"},
    {0x1F80, U"\u1f08\u0399", U""}, {0x1F81, U"\u1f09\u0399", U""}, {0x1F82, U"\u1f0a\u0399", U""},
    {0x1F83, U"\u1f0b\u0399", U""}, {0x1F84, U"\u1f0c\u0399", U""}, {0x1F85, U"\u1f0d\u0399", U""},
    {0x1F86, U"\u1f0e\u0399", U""}, {0x1F87, U"\u1f0f\u0399", U""}, {0x1F88, U"\u1f08\u0399", U""},
    {0x1F89, U"\u1f09\u0399", U""}, {0x1F8A, U"\u1f0a\u0399", U""}, {0x1F8B, U"\u1f0b\u0399", U""},
    {0x1F8C, U"\u1f0c\u0399", U""}, {0x1F8D, U"\u1f0d\u0399", U""}, {0x1F8E, U"\u1f0e\u0399", U""},
    {0x1F8F, U"\u1f0f\u0399", U""}, {0x1F90, U"\u1f28\u0399", U""}, {0x1F91, U"\u1f29\u0399", U""},
    {0x1F92, U"\u1f2a\u0399", U""}, {0x1F93, U"\u1f2b\u0399", U""}, {0x1F94, U"\u1f2c\u0399", U""},
    {0x1F95, U"\u1f2d\u0399", U""}, {0x1F96, U"\u1f2e\u0399", U""}, {0x1F97, U"\u1f2f\u0399", U""},
    {0x1F98, U"\u1f28\u0399", U""}, {0x1F99, U"\u1f29\u0399", U""}, {0x1F9A, U"\u1f2a\u0399", U""},
    {0x1F9B, U"\u1f2b\u0399", U""}, {0x1F9C, U"\u1f2c\u0399", U""}, {0x1F9D, U"\u1f2d\u0399", U""},
    {0x1F9E, U"\u1f2e\u0399", U""}, {0x1F9F, U"\u1f2f\u0399", U""}, {0x1FA0, U"\u1f68\u0399", U""},
    {0x1FA1, U"\u1f69\u0399", U""}, {0x1FA2, U"\u1f6a\u0399", U""}, {0x1FA3, U"\u1f6b\u0399", U""},
    {0x1FA4, U"\u1f6c\u0399", U""}, {0x1FA5, U"\u1f6d\u0399", U""}, {0x1FA6, U"\u1f6e\u0399", U""},
    {0x1FA7, U"\u1f6f\u0399", U""}, {0x1FA8, U"\u1f68\u0399", U""}, {0x1FA9, U"\u1f69\u0399", U""},
    {0x1FAA, U"\u1f6a\u0399", U""}, {0x1FAB, U"\u1f6b\u0399", U""}, {0x1FAC, U"\u1f6c\u0399", U""},
    {0x1FAD, U"\u1f6d\u0399", U""}, {0x1FAE, U"\u1f6e\u0399", U""}, {0x1FAF, U"\u1f6f\u0399", U""},
    {0x1FB2, U"\u1fba\u0399", U"\u1fba\u0345"}, {0x1FB3, U"\u0391\u0399", U""},
    {0x1FB4, U"\u0386\u0399", U"\u0386\u0345"}, {0x1FB6, U"\u0391\u0342", U"\u0391\u0342"},
    {0x1FB7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"}, {0x1FBC, U"\u0391\u0399", U""},
    {0x1FC2, U"\u1fca\u0399", U"\u1fca\u0345"}, {0x1FC3, U"\u0397\u0399", U""},
    {0x1FC4, U"\u0389\u0399", U"\u0389\u0345"}, {0x1FC6, U"\u0397\u0342", U"\u0397\u0342"},
    {0x1FC7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"}, {0x1FCC, U"\u0397\u0399", U""},
    {0x1FD2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"}, {0x1FD3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x1FD6, U"\u0399\u0342", U"\u0399\u0342"}, {0x1FD7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    {0x1FE2, U"\u03a5\u0308\u0300", U"\u03a5\u0308\u0300"}, {0x1FE3, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
    {0x1FE4, U"\u03a1\u0313", U"\u03a1\u0313"}, {0x1FE6, U"\u03a5\u0342", U"\u03a5\u0342"},
    {0x1FE7, U"\u03a5\u0308\u0342", U"\u03a5\u0308\u0342"}, {0x1FF2, U"\u1ffa\u0399", U"\u1ffa\u0345"},
    {0x1FF3, U"\u03a9\u0399", U""}, {0x1FF4, U"\u038f\u0399", U"\u038f\u0345"},
    {0x1FF6, U"\u03a9\u0342", U"\u03a9\u0342"}, {0x1FF7, U"\u03a9\u0342\u0399", U"\u03a9\u0342\u0345"},
    {0x1FFC, U"\u03a9\u0399", U""}, {0xFB00, U"FF", U"Ff"}, {0xFB01, U"FI", U"Fi"}, {0xFB02, U"FL", U"Fl"},
    {0xFB03, U"FFI", U"Ffi"}, {0xFB04, U"FFL", U"Ffl"}, {0xFB05, U"ST", U"St"}, {0xFB06, U"ST", U"St"},
    {0xFB13, U"\u0544\u0546", U"\u0544\u0576"}, {0xFB14, U"\u0544\u0535", U"\u0544\u0565"},
    {0xFB15, U"\u0544\u053b", U"\u0544\u056b"}, {0xFB16, U"\u054e\u0546", U"\u054e\u0576"},
    {0xFB17, U"\u0544\u053d", U"\u0544\u056d"},
};
// clang-format on

enum class LetterCase { upper, lower, title };

inline bool is_upper(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) || (c >= 0x24B6 && c <= 0x24CF);
}
inline bool is_lower(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA || (c >= 0x2170 && c <= 0x217F) ||
         (c >= 0x24D0 && c <= 0x24E9) || (c >= 0x2B0 && c <= 0x2B8);
}
inline bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LT;
}

// Whether a capital sigma at `at` ends its word: then its lower case is the final sigma.
inline bool is_final_sigma(std::string_view text, std::size_t at) {
  const auto ignorable = [](char32_t c) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' ||
           c == 0xB7 || c == 0x2018 || c == 0x2019;
  };
  std::size_t before = at;
  char32_t c = 0;
  while (before > 0) {
    before = previous_character(text, before);
    if (!ignorable(c = decode_utf8(text, before).value)) break;
    c = 0;
  }
  if (c == 0 || !is_cased(c)) return false;
  for (std::size_t after = at + character_bytes(text, at); after < text.size(); after += character_bytes(text, after)) {
    if (!ignorable(c = decode_utf8(text, after).value)) return !is_cased(c);
  }
  return true;
}

// Appends the character at text[at] in another case; returns its length in bytes.
inline std::size_t append_cased(MarkedText& out, const MarkedText& text, std::size_t at, LetterCase to) {
  const CodePoint point = decode_utf8(text.bytes, at);
  std::string bytes;
  const auto* const special = std::find_if(std::begin(kSpecialCases), std::end(kSpecialCases),
                                           [&](const auto& s) { return s.from == point.value; });
  const bool found = special != std::end(kSpecialCases);
  const auto c = static_cast<utf8proc_int32_t>(point.value);
  if (to == LetterCase::lower) {
    if (point.value == 0x130)
      bytes = "i\xCC\x87";
    else
      append_code_point(bytes, point.value == 0x3A3 && is_final_sigma(text.bytes, at)
                                   ? U'\u03c2'
                                   : static_cast<char32_t>(utf8proc_tolower(c)));
  } else if (found && !(to == LetterCase::upper ? special->upper : special->title).empty()) {
    for (const char32_t each : to == LetterCase::upper ? special->upper : special->title)
      append_code_point(bytes, each);
  } else {
    append_code_point(bytes,
                      static_cast<char32_t>(to == LetterCase::upper ? utf8proc_toupper(c) : utf8proc_totitle(c)));
  }
  out.append(bytes, text.marks[at]);
  return static_cast<std::size_t>(point.length);
}

// The text in upper or lower case.
inline MarkedText with_case(const MarkedText& text, LetterCase to) {
  MarkedText out;
  for (std::size_t at = 0; at < text.size();) at += append_cased(out, text, at, to);
  return out;
}

// str.capitalize().
inline MarkedText capitalized(const MarkedText& text) {
  MarkedText out;
  for (std::size_t at = 0; at < text.size();)
    at += append_cased(out, text, at, at == 0 ? LetterCase::title : LetterCase::lower);
  return out;
}

// str.title(): a letter after one that has a case is in lower case.
inline MarkedText python_title(const MarkedText& text) {
  MarkedText out;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = decode_utf8(text.bytes, at).value;
    at += append_cased(out, text, at, inside ? LetterCase::lower : LetterCase::title);
    inside = is_cased(c);
  }
  return out;
}

// The filter title: a word begins after white space or one of -({[<. The rest of a word is put in lower case alone, so
// a sigma after its first letter is not final.
inline MarkedText jinja_title(const MarkedText& text) {
  MarkedText out;
  const auto separates = [&](std::size_t at) {
    const char32_t c = decode_utf8(text.bytes, at).value;
    return is_space(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    at += append_cased(out, text, at, LetterCase::upper);
    if (separates(begin)) continue;
    const std::size_t rest = at;
    while (at < text.size() && !separates(at)) at += character_bytes(text.bytes, at);
    out.append(with_case(text.part(rest, at), LetterCase::lower));
  }
  return out;
}

}  // namespace tenon::chat::detail
