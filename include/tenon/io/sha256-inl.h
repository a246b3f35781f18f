#pragma once
#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "tenon/core/require.h"
#include "tenon/io/sha256.h"

namespace tenon {

TENON_INLINE Sha256& Sha256::update(std::span<const std::byte> bytes) {
  length_ += bytes.size();
  if (filled_ > 0) {
    const std::size_t n = std::min(bytes.size(), block_.size() - filled_);
    std::copy_n(bytes.begin(), n, block_.begin() + static_cast<std::ptrdiff_t>(filled_));
    filled_ += n;
    bytes = bytes.subspan(n);
    if (filled_ < block_.size()) return *this;
    compress(block_.data());
    filled_ = 0;
  }
  for (; bytes.size() >= block_.size(); bytes = bytes.subspan(block_.size())) compress(bytes.data());
  std::copy(bytes.begin(), bytes.end(), block_.begin());
  filled_ = bytes.size();
  return *this;
}

TENON_INLINE Sha256::Digest Sha256::digest() const {
  Sha256 padded = *this;
  // Padding: a 1 bit, zeros, and the length in bits as a big-endian 64-bit number at the end of a block.
  std::array<std::byte, 72> padding{std::byte{0x80}};
  const std::size_t zeros_end = (filled_ < 56 ? 56 : 120) - filled_;
  for (std::size_t i = 0; i < 8; ++i) padding[zeros_end + i] = static_cast<std::byte>(length_ * 8 >> (56 - 8 * i));
  padded.update(std::span(padding).first(zeros_end + 8));
  Digest out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint8_t>(padded.state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

TENON_INLINE std::string Sha256::hex() const {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest()) text += {digits[byte >> 4], digits[byte & 15]};
  return text;
}

TENON_INLINE bool Sha256::has_instructions() {
#if defined(__x86_64__)
  static const bool found = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0 && __builtin_cpu_supports("sse4.1");
  }();
  return found;
#else
  return false;
#endif
}

TENON_INLINE void Sha256::compress_by_instructions(const std::byte* block) {
  const auto* const in = reinterpret_cast<const __m128i*>(block);
  const auto* const rounds = reinterpret_cast<const __m128i*>(kRounds.data());
  auto* const state = reinterpret_cast<__m128i*>(state_.data());
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128(state), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(state + 1), 0x1b);
  const __m128i abef_before = _mm_alignr_epi8(abcd, efgh, 8), cdgh_before = _mm_blend_epi16(efgh, abcd, 0xf0);
  __m128i abef = abef_before, cdgh = cdgh_before;
  __m128i w[4];  // the last 16 words of the message schedule
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    __m128i& now = w[i % 4];
    if (i < 4) {
      now = _mm_shuffle_epi8(_mm_loadu_si128(in + i), big_endian);
    } else {
      const __m128i shifted = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
      now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), shifted), w[(i + 3) % 4]);
    }
    const __m128i words = _mm_add_epi32(now, _mm_loadu_si128(rounds + i));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0e));
  }
  abef = _mm_shuffle_epi32(_mm_add_epi32(abef, abef_before), 0x1b);
  cdgh = _mm_shuffle_epi32(_mm_add_epi32(cdgh, cdgh_before), 0xb1);
  _mm_storeu_si128(state, _mm_blend_epi16(abef, cdgh, 0xf0));
  _mm_storeu_si128(state + 1, _mm_alignr_epi8(cdgh, abef, 8));
}

TENON_INLINE void Sha256::compress(const std::byte* block) {
#if defined(__x86_64__)
  if (instructions_) return compress_by_instructions(block);
#endif
  compress_portably(block);
}

TENON_INLINE void Sha256::compress_portably(const std::byte* block) {
  std::array<std::uint32_t, 64> w;
  const auto byte = [block](std::size_t i) { return std::to_integer<std::uint32_t>(block[i]); };
  for (std::size_t i = 0; i < 16; ++i)
    w[i] = byte(4 * i) << 24 | byte(4 * i + 1) << 16 | byte(4 * i + 2) << 8 | byte(4 * i + 3);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  std::uint32_t a = state_[0], b = state_[1], c = state_[2], d = state_[3];
  std::uint32_t e = state_[4], f = state_[5], g = state_[6], h = state_[7];
  const auto round = [&w](std::uint32_t p, std::uint32_t q, std::uint32_t r, std::uint32_t& s, std::uint32_t t,
                          std::uint32_t u, std::uint32_t v, std::uint32_t& x, std::size_t i) {
    const std::uint32_t s0 = std::rotr(p, 2) ^ std::rotr(p, 13) ^ std::rotr(p, 22);
    const std::uint32_t s1 = std::rotr(t, 6) ^ std::rotr(t, 11) ^ std::rotr(t, 25);
    const std::uint32_t sum = x + s1 + ((t & u) ^ (~t & v)) + kRounds[i] + w[i];
    s += sum;
    x = sum + s0 + ((p & q) ^ (p & r) ^ (q & r));
  };
  for (std::size_t i = 0; i < 64; i += 8) {
    round(a, b, c, d, e, f, g, h, i);
    round(h, a, b, c, d, e, f, g, i + 1);
    round(g, h, a, b, c, d, e, f, i + 2);
    round(f, g, h, a, b, c, d, e, i + 3);
    round(e, f, g, h, a, b, c, d, i + 4);
    round(d, e, f, g, h, a, b, c, i + 5);
    round(c, d, e, f, g, h, a, b, i + 6);
    round(b, c, d, e, f, g, h, a, i + 7);
  }
  const std::array<std::uint32_t, 8> add = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += add[i];
}

}  // namespace tenon
