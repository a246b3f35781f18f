// Numbers in the bytes of a block of GGUF.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tenon/checkpoint/dtype.h"

namespace tenon::detail {

inline int byte_at(const std::byte* bytes, int i) { return std::to_integer<int>(bytes[i]); }
inline int signed_at(const std::byte* bytes, int i) { return static_cast<std::int8_t>(byte_at(bytes, i)); }
// A little-endian number, at any address.
template <class T>
T number_at(const std::byte* bytes) {
  T out;
  std::memcpy(&out, bytes, sizeof out);
  return out;
}
inline float half_at(const std::byte* bytes) { return float_of_f16(number_at<std::uint16_t>(bytes)); }
// The code of value i < 32 in 16 bytes of nibbles: low nibbles first, then high ones.
inline int nibble_at(const std::byte* bytes, int i) { return byte_at(bytes, i % 16) >> (i / 16 * 4) & 15; }
// Nibble i of as many bytes as it takes, the low one of a byte first.
inline int packed_nibble_at(const std::byte* bytes, int i) { return byte_at(bytes, i / 2) >> (i % 2 * 4) & 15; }
// Bit i of 32.
inline int bit_at(const std::byte* bytes, int i) { return byte_at(bytes, i / 8) >> (i % 8) & 1; }

}  // namespace tenon::detail
