// Unicode Normalization Forms, in linear time for any text.
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

/// Normalization Forms C, D, KC and KD of Unicode Standard Annex 15.
enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

namespace detail {

constexpr bool composes(NormalForm form) noexcept { return form == NormalForm::nfc || form == NormalForm::nfkc; }
constexpr bool is_compatible(NormalForm form) noexcept { return form == NormalForm::nfkc || form == NormalForm::nfkd; }

// Characters with a compatibility decomposition in Unicode 15 and none in the version of Hugging Face's tokenizers.
inline constexpr CodeRange kNewCompatibility[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

inline int combining_class(utf8proc_int32_t c) noexcept { return utf8proc_get_property(c)->combining_class; }

inline void decompose(std::string_view text, bool compatible, std::vector<utf8proc_int32_t>& points) {
  points.clear();
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    if (compatible && !is_in(point.value, kNewCompatibility)) options |= UTF8PROC_COMPAT;
    constexpr int most = 18;  // U+FDFA
    utf8proc_int32_t parts[most];
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point.value), parts, most,
                                               static_cast<utf8proc_option_t>(options), nullptr);
    if (count < 0 || count > most) throw Error(Error::Kind::internal, "text", "cannot be decomposed");
    points.insert(points.end(), parts, parts + count);
    at += static_cast<std::size_t>(point.length);
  }
}

// Decomposes, sorts the marks of each run and composes. utf8proc_decompose would sort by exchanging neighbours, which
// takes quadratic time for a long run of marks.
inline void append_normal(std::string& out, std::string_view text, NormalForm form,
                          std::vector<utf8proc_int32_t>& points) {
  decompose(text, is_compatible(form), points);
  for (auto run = points.begin(); run != points.end();) {
    auto end = run;
    while (end != points.end() && combining_class(*end) != 0) ++end;
    std::stable_sort(run, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    run = end == points.end() ? end : end + 1;
  }
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (composes(form))
    count = utf8proc_normalize_utf32(points.data(), count,
                                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (count < 0) throw Error(Error::Kind::internal, "text", "cannot be composed");
  for (utf8proc_ssize_t k = 0; k < count; ++k)
    append_code_point(out, static_cast<char32_t>(points[static_cast<std::size_t>(k)]));
}

}  // namespace detail

/// Normalizes valid UTF-8. Plain characters neither compose with what precedes them nor change alone: those below
/// U+0300 for NFC, ASCII for the other forms. They are copied, except where another character follows.
inline std::string to_normal_form(std::string_view text, NormalForm form) {
  // Whether a plain character starts here. Also true of continuation bytes.
  const unsigned char limit = form == NormalForm::nfc ? 0xCC : 0x80;
  const auto plain = [&](std::size_t at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    return byte < limit;
  };
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
      detail::append_normal(out, text.substr(at, end - at), form, points);
    }
    at = end;
  }
  return out;
}

/// Normalizes valid UTF-8 to NFC.
inline std::string to_nfc(std::string_view text) { return to_normal_form(text, NormalForm::nfc); }

}  // namespace tenon
