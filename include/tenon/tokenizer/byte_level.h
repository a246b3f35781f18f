// GPT-2's spelling of bytes as characters, so that a vocabulary of arbitrary bytes can be JSON.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// Each byte is spelled by one printable character. Bytes that are printable in Latin-1 are spelled by themselves, the
// other 68 by U+0100 onwards in ascending order (openai/gpt-2, encoder.py, bytes_to_unicode). 0x20 is therefore
// U+0120.
inline constexpr int kSpellings = 256 + 68;
struct ByteSpelling {
  std::array<char16_t, 256> of_byte{};
  std::array<std::int16_t, kSpellings> to_byte{};  // -1: spells no byte
};
inline constexpr ByteSpelling kByteSpelling = [] {
  ByteSpelling table;
  table.to_byte.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    const int spelling = printable ? byte : next++;
    table.of_byte[static_cast<std::size_t>(byte)] = static_cast<char16_t>(spelling);
    table.to_byte[static_cast<std::size_t>(spelling)] = static_cast<std::int16_t>(byte);
  }
  return table;
}();

// The spelling of one byte, as UTF-8.
inline std::string spell_byte(unsigned char byte) {
  std::string out;
  append_code_point(out, kByteSpelling.of_byte[byte]);
  return out;
}

// The bytes of `spelling`; empty where it has a character that spells no byte.
inline std::optional<std::string> spelled_bytes(const std::string& spelling) {
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const CodePoint point = decode_utf8(spelling, at);
    if (point.value >= kSpellings || kByteSpelling.to_byte[point.value] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteSpelling.to_byte[point.value]);
    at += static_cast<std::size_t>(point.length);
  }
  return bytes;
}

// The bytes of a token. A token with a character that spells no byte is kept as it is, as in Hugging Face's decoder.
inline std::string unspell(const std::string& spelling) { return spelled_bytes(spelling).value_or(spelling); }

// Whether the byte can occur in UTF-8 (The Unicode Standard 15.0, table 3-7).
inline constexpr bool occurs_in_utf8(int byte) { return byte != 0xC0 && byte != 0xC1 && byte < 0xF5; }

}  // namespace tenon::detail
