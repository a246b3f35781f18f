// UTF-8 as in Unicode 15, and the three character classes of GPT-2's pattern.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/tokenizer/unicode_categories.h"

namespace tenon {

/// The result of decoding a sequence.
enum class Utf8Status : std::uint8_t {
  valid,
  invalid,     ///< no continuation makes it valid
  incomplete,  ///< ends inside a sequence that is well-formed so far
};

/// A decoded code point.
struct CodePoint {
  char32_t value;  ///< U+FFFD unless valid
  /// Bytes consumed, at least 1; if not valid, the maximal subpart that one U+FFFD replaces.
  int length;
  Utf8Status status;  ///< whether the sequence is well-formed
};

namespace detail {

// Decodes a sequence with a lead byte beyond ASCII. Separate from decode_utf8, so that the ASCII case can be inlined.
inline CodePoint decode_multibyte(std::string_view bytes, std::size_t at) noexcept {
  constexpr char32_t replacement = 0xFFFD;
  const unsigned lead = static_cast<unsigned char>(bytes[at]);
  if (lead < 0xC2 || lead > 0xF4) return {replacement, 1, Utf8Status::invalid};
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Four lead bytes narrow the range of the second byte: no overlong form, no surrogate, nothing past U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t value = lead & (0x7Fu >> length);
  for (int k = 1; k < length; ++k) {
    if (at + static_cast<std::size_t>(k) >= bytes.size()) return {replacement, k, Utf8Status::incomplete};
    const unsigned byte = static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(k)]);
    if (byte < low || byte > high) return {replacement, k, Utf8Status::invalid};
    value = value << 6 | (byte & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {value, length, Utf8Status::valid};
}

}  // namespace detail

/// Decodes the code point that starts at bytes[at]; at < bytes.size(). Source: The Unicode Standard 15.0, table 3-7
/// (well-formed sequences) and section 3.9, "U+FFFD Substitution of Maximal Subparts". WHATWG, Rust and Python do the
/// same.
inline CodePoint decode_utf8(std::string_view bytes, std::size_t at) noexcept {
  const unsigned lead = static_cast<unsigned char>(bytes[at]);
  if (lead < 0x80) return {lead, 1, Utf8Status::valid};
  return detail::decode_multibyte(bytes, at);
}

/// Start of the code point before bytes[at], in well-formed UTF-8; 0 < at <= bytes.size().
inline std::size_t previous_start(std::string_view bytes, std::size_t at) noexcept {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(bytes[at]) & 0xC0) == 0x80);
  return at;
}

/// Appends `c` as UTF-8. `c` is not a surrogate.
inline void append_code_point(std::string& out, char32_t c) {
  const auto byte = [&](char32_t value) { out += static_cast<char>(static_cast<unsigned char>(value)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) return byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F));
  if (c < 0x10000) return byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
  byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
}

/// Offset of the first byte that is not well-formed UTF-8; npos where there is none.
inline std::size_t find_invalid_utf8(std::string_view bytes) noexcept {
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint point = decode_utf8(bytes, at);
    if (point.status != Utf8Status::valid) return at;
    at += static_cast<std::size_t>(point.length);
  }
  return std::string_view::npos;
}

/// Appends `bytes` to `out`, with each invalid maximal subpart as U+FFFD, and stops before an incomplete sequence at
/// the end. Returns the number of bytes consumed: all but the 0 to 3 bytes of that sequence.
inline std::size_t append_utf8(std::string& out, std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const CodePoint point = decode_utf8(bytes, at);
    if (point.status == Utf8Status::incomplete) break;
    const auto length = static_cast<std::size_t>(point.length);
    out.append(point.status == Utf8Status::valid ? bytes.substr(at, length) : std::string_view("\xEF\xBF\xBD"));
    at += length;
  }
  return at;
}

/// `bytes` as valid UTF-8, with each invalid maximal subpart as one U+FFFD.
inline std::string sanitize_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (append_utf8(out, bytes) < bytes.size()) out += "\xEF\xBF\xBD";
  return out;
}

/// The classes \p{L}, \p{N}, \s, and the rest.
enum class CharClass : std::uint8_t { letter, number, space, other };

/// \p{L} and \p{N} are general categories (unicode_categories.h). \s is the property White_Space, as in the Oniguruma
/// of Hugging Face's tokenizers: the 25 code points in PropList.txt, which utf8proc does not know. Python's \s would
/// add U+001C to U+001F.
inline CharClass char_class(char32_t c) noexcept {
  if (c < 0x80) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::letter;
    if (c >= '0' && c <= '9') return CharClass::number;
    return c == ' ' || (c >= 0x09 && c <= 0x0D) ? CharClass::space : CharClass::other;
  }
  if (c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
      c == 0x202F || c == 0x205F || c == 0x3000)
    return CharClass::space;
  const utf8proc_category_t category = detail::category_of(c);
  if ((detail::kLetters >> category & 1u) != 0) return CharClass::letter;
  return (detail::kNumbers >> category & 1u) != 0 ? CharClass::number : CharClass::other;
}

}  // namespace tenon
