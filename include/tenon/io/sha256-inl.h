#pragma once
#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/hex.h"
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
    compress(block_.data(), 1);
    filled_ = 0;
  }
  const std::size_t whole = bytes.size() / block_.size();
  compress(bytes.data(), whole);
  bytes = bytes.subspan(whole * block_.size());
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

TENON_INLINE std::string Sha256::hex() const { return hex_of(digest()); }

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

#if defined(__x86_64__)
template <std::size_t kTexts>
[[gnu::target("sha,sse4.1")]] void Sha256::compress_by_instructions(const std::array<std::uint32_t*, kTexts>& states,
                                                                    std::array<const std::byte*, kTexts> texts,
                                                                    std::size_t blocks) {
  const auto* const rounds = reinterpret_cast<const __m128i*>(kRounds.data());
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i abef[kTexts], cdgh[kTexts];
  for (std::size_t t = 0; t < kTexts; ++t) {
    const auto* const state = reinterpret_cast<const __m128i*>(states[t]);
    const __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128(state), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(state + 1), 0x1b);
    abef[t] = _mm_alignr_epi8(abcd, efgh, 8), cdgh[t] = _mm_blend_epi16(efgh, abcd, 0xf0);
  }
  for (; blocks > 0; --blocks) {
    __m128i abef_before[kTexts], cdgh_before[kTexts], words[kTexts];
    __m128i w[kTexts][4];  // the last 16 words of the message schedules
    for (std::size_t t = 0; t < kTexts; ++t) abef_before[t] = abef[t], cdgh_before[t] = cdgh[t];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
#pragma GCC unroll 2
      for (std::size_t t = 0; t < kTexts; ++t) {
        __m128i& now = w[t][i % 4];
        if (i < 4) {
          now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(texts[t]) + i), big_endian);
        } else {
          const __m128i shifted = _mm_alignr_epi8(w[t][(i + 3) % 4], w[t][(i + 2) % 4], 4);
          now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[t][(i + 1) % 4]), shifted),
                                     w[t][(i + 3) % 4]);
        }
        words[t] = _mm_add_epi32(now, _mm_loadu_si128(rounds + i));
      }
#pragma GCC unroll 2
      for (std::size_t t = 0; t < kTexts; ++t) cdgh[t] = _mm_sha256rnds2_epu32(cdgh[t], abef[t], words[t]);
#pragma GCC unroll 2
      for (std::size_t t = 0; t < kTexts; ++t)
        abef[t] = _mm_sha256rnds2_epu32(abef[t], cdgh[t], _mm_shuffle_epi32(words[t], 0x0e));
    }
    for (std::size_t t = 0; t < kTexts; ++t) {
      abef[t] = _mm_add_epi32(abef[t], abef_before[t]), cdgh[t] = _mm_add_epi32(cdgh[t], cdgh_before[t]);
      texts[t] += 64;
    }
  }
  for (std::size_t t = 0; t < kTexts; ++t) {
    auto* const state = reinterpret_cast<__m128i*>(states[t]);
    const __m128i feba = _mm_shuffle_epi32(abef[t], 0x1b), dchg = _mm_shuffle_epi32(cdgh[t], 0xb1);
    _mm_storeu_si128(state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128(state + 1, _mm_alignr_epi8(dchg, feba, 8));
  }
}
#endif

TENON_INLINE std::array<Sha256::Digest, 2> Sha256::both(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) throw Error(Error::Kind::invalid_request, "b", "must be as long as the other text");
  Sha256 first, second;
#if defined(__x86_64__)
  if (first.instructions_) {
    const std::size_t blocks = a.size() / 64;
    compress_by_instructions<2>({first.state_.data(), second.state_.data()}, {a.data(), b.data()}, blocks);
    first.length_ = second.length_ = 64 * blocks;
    a = a.subspan(64 * blocks), b = b.subspan(64 * blocks);
  }
#endif
  return {first.update(a).digest(), second.update(b).digest()};
}

TENON_INLINE void Sha256::compress(const std::byte* bytes, std::size_t blocks) {
#if defined(__x86_64__)
  if (instructions_) return compress_by_instructions<1>({state_.data()}, {bytes}, blocks);
#endif
  for (std::size_t i = 0; i < blocks; ++i) compress_portably(bytes + 64 * i);
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
