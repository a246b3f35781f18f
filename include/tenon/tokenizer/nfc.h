// Unicode Normalization Form C, in linear time for any text.
#pragma once
#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon {
namespace detail {

inline int combining_class(utf8proc_int32_t c) noexcept { return utf8proc_get_property(c)->combining_class; }

// Decomposes, sorts the marks of each run and composes. utf8proc_decompose would sort by exchanging neighbours, which
// takes quadratic time for a long run of marks.
inline void append_nfc(std::string& out, std::string_view text, std::vector<utf8proc_int32_t>& points) {
  constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  points.clear();
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    utf8proc_int32_t parts[8];  // a canonical decomposition has at most 4
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point.value), parts, 8, options, nullptr);
    if (count < 0 || count > 8) throw Error(Error::Kind::internal, "text", "cannot be decomposed");
    points.insert(points.end(), parts, parts + count);
    at += static_cast<std::size_t>(point.length);
  }
  for (auto run = points.begin(); run != points.end();) {
    auto end = run;
    while (end != points.end() && combining_class(*end) != 0) ++end;
    std::stable_sort(run, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    run = end == points.end() ? end : end + 1;
  }
  const auto composed = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (composed < 0) throw Error(Error::Kind::internal, "text", "cannot be composed");
  for (utf8proc_ssize_t k = 0; k < composed; ++k)
    append_code_point(out, static_cast<char32_t>(points[static_cast<std::size_t>(k)]));
}

}  // namespace detail

/// Normalizes valid UTF-8 to NFC (Unicode Standard Annex 15). Characters below U+0300 neither compose with what
/// precedes them nor change alone. They are copied, except where a higher character follows.
inline std::string to_nfc(std::string_view text) {
  // Whether a character below U+0300 starts here. Also true of continuation bytes.
  const auto plain = [&](std::size_t at) { return static_cast<unsigned char>(text[at]) < 0xCC; };
  const auto step = [&](std::size_t at) { return at + static_cast<std::size_t>(decode_utf8(text, at).length); };
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> points;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = step(at);
    if (plain(at) && (end == text.size() || plain(end))) {
      out.append(text.substr(at, end - at));
    } else {
      while (end < text.size() && !plain(end)) end = step(end);
      detail::append_nfc(out, text.substr(at, end - at), points);
    }
    at = end;
  }
  return out;
}

}  // namespace tenon
