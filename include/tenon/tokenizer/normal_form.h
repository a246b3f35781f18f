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

// Marks that are newer than the tables of Hugging Face's tokenizers, which do not order or compose them.
inline constexpr CodeRange kNewMarks[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}};
// A composition that is newer, too: U+11935 U+11930.
inline constexpr utf8proc_int32_t kNewComposed = 0x11938, kNewSecond = 0x11930;

inline bool is_new_mark(utf8proc_int32_t c) noexcept { return is_in(static_cast<char32_t>(c), kNewMarks); }

inline int combining_class(utf8proc_int32_t c) noexcept {
  const int known = utf8proc_get_property(c)->combining_class;
  return known == 0 || is_new_mark(c) ? 0 : known;
}

inline void decompose(std::string_view text, bool compatible, std::vector<utf8proc_int32_t>& points) {
  points.clear();
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    at += static_cast<std::size_t>(point.length);
    if (point.value == kNewComposed) {
      points.push_back(kNewComposed);
      continue;
    }
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    if (compatible && !is_in(point.value, kNewCompatibility)) options |= UTF8PROC_COMPAT;
    constexpr int most = 18;  // U+FDFA
    utf8proc_int32_t parts[most];
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point.value), parts, most,
                                               static_cast<utf8proc_option_t>(options), nullptr);
    if (count < 0 || count > most) throw Error(Error::Kind::internal, "text", "cannot be decomposed");
    points.insert(points.end(), parts, parts + count);
  }
}

inline void append_points(std::string& out, const utf8proc_int32_t* points, std::size_t count) {
  for (std::size_t k = 0; k < count; ++k) append_code_point(out, static_cast<char32_t>(points[k]));
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
  if (!composes(form)) return append_points(out, points.data(), points.size());
  // New marks compose with nothing, and nothing composes across them.
  for (std::size_t begin = 0; begin < points.size();) {
    std::size_t end = begin + 1;
    while (end < points.size() && points[end] != kNewSecond && !is_new_mark(points[end])) ++end;
    const auto count = utf8proc_normalize_utf32(points.data() + begin, static_cast<utf8proc_ssize_t>(end - begin),
                                                static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (count < 0) throw Error(Error::Kind::internal, "text", "cannot be composed");
    append_points(out, points.data() + begin, static_cast<std::size_t>(count));
    begin = end;
  }
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
