// Hexadecimal digits, in lower case.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

/// The last `width` digits of a value.
inline std::string hex_of(std::uint64_t value, int width) {
  std::string digits(static_cast<std::size_t>(width), '0');
  for (std::size_t i = digits.size(); i-- > 0; value >>= 4) digits[i] = kHexDigits[value & 15];
  return digits;
}

/// Two digits for each byte.
inline std::string hex_of(std::span<const std::uint8_t> bytes) {
  std::string digits;
  digits.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) digits.append({kHexDigits[byte >> 4], kHexDigits[byte & 15]});
  return digits;
}
inline std::string hex_of(std::string_view bytes) {
  return hex_of(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

/// The bytes of such digits; none if others, or an odd number of them, are given.
inline std::optional<std::string> bytes_of_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const std::size_t high = kHexDigits.find(digits[i]), low = kHexDigits.find(digits[i + 1]);
    if (high == kHexDigits.npos || low == kHexDigits.npos) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

}  // namespace tenon
