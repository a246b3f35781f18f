// Writes tokenizer.model files for tests: a protocol buffer of pieces and settings.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::test {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7F));
  return out + static_cast<char>(value);
}
// A field with a string or a message, and one with a number.
inline std::string proto_bytes(unsigned number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string proto_number(unsigned number, std::uint64_t value) { return varint(number << 3) + varint(value); }

inline std::string proto_piece(const std::string& text, float score, unsigned kind) {
  std::string score_bytes;
  for (int i = 0; i < 4; ++i) score_bytes += static_cast<char>(std::bit_cast<std::uint32_t>(score) >> (8 * i) & 0xFF);
  const std::string fields = proto_bytes(1, text) + varint(2 << 3 | 5) + score_bytes + proto_number(3, kind);
  return proto_bytes(1, fields);
}

// A BPE model with the pieces a, b, ab and U+2581. Spaces stay.
inline std::string small_sentencepiece(const std::string& more_pieces = "", const std::string& trainer = "",
                                       const std::string& normalizer = "") {
  return proto_piece("<unk>", 0, 2) + proto_piece("<s>", 0, 3) + proto_piece("</s>", 0, 3) + proto_piece("ab", -1, 1) +
         proto_piece("a", -2, 1) + proto_piece("b", -3, 1) + proto_piece("\xE2\x96\x81", -4, 1) + more_pieces +
         proto_bytes(2, proto_number(3, 2) + trainer) + proto_bytes(3, proto_number(4, 0) + normalizer);
}

}  // namespace tenon::test
