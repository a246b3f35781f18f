// General categories of code points, in the Unicode version of Hugging Face's tokenizers.
#pragma once
#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include "tenon/core/require.h"

namespace tenon::detail {

struct CategoryRange {
  char32_t first, last;
  utf8proc_category_t category;
};

// Code points assigned in Unicode 15.1 and 16.0. utf8proc 2.8 has 15.0, the Oniguruma of tokenizers 0.22 has 16.0. The
// list is the difference over all code points.
inline constexpr CategoryRange kNewerThanUtf8proc[] = {
    {0x0897, 0x0897, UTF8PROC_CATEGORY_MN},   {0x1B4E, 0x1B4F, UTF8PROC_CATEGORY_PO},
    {0x1B7F, 0x1B7F, UTF8PROC_CATEGORY_PO},   {0x1C89, 0x1C89, UTF8PROC_CATEGORY_LU},
    {0x1C8A, 0x1C8A, UTF8PROC_CATEGORY_LL},   {0x2427, 0x2429, UTF8PROC_CATEGORY_SO},
    {0x2FFC, 0x2FFF, UTF8PROC_CATEGORY_SO},   {0x31E4, 0x31E5, UTF8PROC_CATEGORY_SO},
    {0x31EF, 0x31EF, UTF8PROC_CATEGORY_SO},   {0xA7CB, 0xA7CC, UTF8PROC_CATEGORY_LU},
    {0xA7CD, 0xA7CD, UTF8PROC_CATEGORY_LL},   {0xA7DA, 0xA7DA, UTF8PROC_CATEGORY_LU},
    {0xA7DB, 0xA7DB, UTF8PROC_CATEGORY_LL},   {0xA7DC, 0xA7DC, UTF8PROC_CATEGORY_LU},
    {0x105C0, 0x105F3, UTF8PROC_CATEGORY_LO}, {0x10D40, 0x10D49, UTF8PROC_CATEGORY_ND},
    {0x10D4A, 0x10D4D, UTF8PROC_CATEGORY_LO}, {0x10D4E, 0x10D4E, UTF8PROC_CATEGORY_LM},
    {0x10D4F, 0x10D4F, UTF8PROC_CATEGORY_LO}, {0x10D50, 0x10D65, UTF8PROC_CATEGORY_LU},
    {0x10D69, 0x10D6D, UTF8PROC_CATEGORY_MN}, {0x10D6E, 0x10D6E, UTF8PROC_CATEGORY_PD},
    {0x10D6F, 0x10D6F, UTF8PROC_CATEGORY_LM}, {0x10D70, 0x10D85, UTF8PROC_CATEGORY_LL},
    {0x10D8E, 0x10D8F, UTF8PROC_CATEGORY_SM}, {0x10EC2, 0x10EC4, UTF8PROC_CATEGORY_LO},
    {0x10EFC, 0x10EFC, UTF8PROC_CATEGORY_MN}, {0x11380, 0x11389, UTF8PROC_CATEGORY_LO},
    {0x1138B, 0x1138B, UTF8PROC_CATEGORY_LO}, {0x1138E, 0x1138E, UTF8PROC_CATEGORY_LO},
    {0x11390, 0x113B5, UTF8PROC_CATEGORY_LO}, {0x113B7, 0x113B7, UTF8PROC_CATEGORY_LO},
    {0x113B8, 0x113BA, UTF8PROC_CATEGORY_MC}, {0x113BB, 0x113C0, UTF8PROC_CATEGORY_MN},
    {0x113C2, 0x113C2, UTF8PROC_CATEGORY_MC}, {0x113C5, 0x113C5, UTF8PROC_CATEGORY_MC},
    {0x113C7, 0x113CA, UTF8PROC_CATEGORY_MC}, {0x113CC, 0x113CD, UTF8PROC_CATEGORY_MC},
    {0x113CE, 0x113CE, UTF8PROC_CATEGORY_MN}, {0x113CF, 0x113CF, UTF8PROC_CATEGORY_MC},
    {0x113D0, 0x113D0, UTF8PROC_CATEGORY_MN}, {0x113D1, 0x113D1, UTF8PROC_CATEGORY_LO},
    {0x113D2, 0x113D2, UTF8PROC_CATEGORY_MN}, {0x113D3, 0x113D3, UTF8PROC_CATEGORY_LO},
    {0x113D4, 0x113D5, UTF8PROC_CATEGORY_PO}, {0x113D7, 0x113D8, UTF8PROC_CATEGORY_PO},
    {0x113E1, 0x113E2, UTF8PROC_CATEGORY_MN}, {0x116D0, 0x116E3, UTF8PROC_CATEGORY_ND},
    {0x11BC0, 0x11BE0, UTF8PROC_CATEGORY_LO}, {0x11BE1, 0x11BE1, UTF8PROC_CATEGORY_PO},
    {0x11BF0, 0x11BF9, UTF8PROC_CATEGORY_ND}, {0x11F5A, 0x11F5A, UTF8PROC_CATEGORY_MN},
    {0x13460, 0x143FA, UTF8PROC_CATEGORY_LO}, {0x16100, 0x1611D, UTF8PROC_CATEGORY_LO},
    {0x1611E, 0x16129, UTF8PROC_CATEGORY_MN}, {0x1612A, 0x1612C, UTF8PROC_CATEGORY_MC},
    {0x1612D, 0x1612F, UTF8PROC_CATEGORY_MN}, {0x16130, 0x16139, UTF8PROC_CATEGORY_ND},
    {0x16D40, 0x16D42, UTF8PROC_CATEGORY_LM}, {0x16D43, 0x16D6A, UTF8PROC_CATEGORY_LO},
    {0x16D6B, 0x16D6C, UTF8PROC_CATEGORY_LM}, {0x16D6D, 0x16D6F, UTF8PROC_CATEGORY_PO},
    {0x16D70, 0x16D79, UTF8PROC_CATEGORY_ND}, {0x18CFF, 0x18CFF, UTF8PROC_CATEGORY_LO},
    {0x1CC00, 0x1CCEF, UTF8PROC_CATEGORY_SO}, {0x1CCF0, 0x1CCF9, UTF8PROC_CATEGORY_ND},
    {0x1CD00, 0x1CEB3, UTF8PROC_CATEGORY_SO}, {0x1E5D0, 0x1E5ED, UTF8PROC_CATEGORY_LO},
    {0x1E5EE, 0x1E5EF, UTF8PROC_CATEGORY_MN}, {0x1E5F0, 0x1E5F0, UTF8PROC_CATEGORY_LO},
    {0x1E5F1, 0x1E5FA, UTF8PROC_CATEGORY_ND}, {0x1E5FF, 0x1E5FF, UTF8PROC_CATEGORY_PO},
    {0x1F8B2, 0x1F8BB, UTF8PROC_CATEGORY_SO}, {0x1F8C0, 0x1F8C1, UTF8PROC_CATEGORY_SO},
    {0x1FA89, 0x1FA89, UTF8PROC_CATEGORY_SO}, {0x1FA8F, 0x1FA8F, UTF8PROC_CATEGORY_SO},
    {0x1FABE, 0x1FABE, UTF8PROC_CATEGORY_SO}, {0x1FAC6, 0x1FAC6, UTF8PROC_CATEGORY_SO},
    {0x1FADC, 0x1FADC, UTF8PROC_CATEGORY_SO}, {0x1FADF, 0x1FADF, UTF8PROC_CATEGORY_SO},
    {0x1FAE9, 0x1FAE9, UTF8PROC_CATEGORY_SO}, {0x1FBCB, 0x1FBEF, UTF8PROC_CATEGORY_SO},
    {0x2EBF0, 0x2EE5D, UTF8PROC_CATEGORY_LO},
};

// General category of a code point that is not a surrogate.
inline utf8proc_category_t category_of(char32_t c) noexcept {
  const auto known = static_cast<utf8proc_category_t>(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
  if (c == 0x1171E) return UTF8PROC_CATEGORY_MC;  // a nonspacing mark before Unicode 16.0
  if (known != UTF8PROC_CATEGORY_CN) return known;
  const auto* const end = std::end(kNewerThanUtf8proc);
  const auto* const found = std::lower_bound(std::begin(kNewerThanUtf8proc), end, c,
                                             [](const CategoryRange& r, char32_t v) { return r.last < v; });
  return found != end && found->first <= c ? found->category : known;
}

inline constexpr std::uint32_t category_bit(utf8proc_category_t category) noexcept { return 1u << category; }

inline constexpr std::uint32_t kLetters = category_bit(UTF8PROC_CATEGORY_LU) | category_bit(UTF8PROC_CATEGORY_LL) |
                                          category_bit(UTF8PROC_CATEGORY_LT) | category_bit(UTF8PROC_CATEGORY_LM) |
                                          category_bit(UTF8PROC_CATEGORY_LO);
inline constexpr std::uint32_t kMarks =
    category_bit(UTF8PROC_CATEGORY_MN) | category_bit(UTF8PROC_CATEGORY_MC) | category_bit(UTF8PROC_CATEGORY_ME);
inline constexpr std::uint32_t kNumbers =
    category_bit(UTF8PROC_CATEGORY_ND) | category_bit(UTF8PROC_CATEGORY_NL) | category_bit(UTF8PROC_CATEGORY_NO);
inline constexpr std::uint32_t kPunctuation = category_bit(UTF8PROC_CATEGORY_PC) | category_bit(UTF8PROC_CATEGORY_PD) |
                                              category_bit(UTF8PROC_CATEGORY_PS) | category_bit(UTF8PROC_CATEGORY_PE) |
                                              category_bit(UTF8PROC_CATEGORY_PI) | category_bit(UTF8PROC_CATEGORY_PF) |
                                              category_bit(UTF8PROC_CATEGORY_PO);
inline constexpr std::uint32_t kSymbols = category_bit(UTF8PROC_CATEGORY_SM) | category_bit(UTF8PROC_CATEGORY_SC) |
                                          category_bit(UTF8PROC_CATEGORY_SK) | category_bit(UTF8PROC_CATEGORY_SO);
inline constexpr std::uint32_t kSeparators =
    category_bit(UTF8PROC_CATEGORY_ZS) | category_bit(UTF8PROC_CATEGORY_ZL) | category_bit(UTF8PROC_CATEGORY_ZP);

inline bool is_in(char32_t c, std::uint32_t categories) noexcept { return (categories >> category_of(c) & 1u) != 0; }

struct CodeRange {
  char32_t first, last;
};

// Whether `c` is in one of the ranges, which are sorted.
inline bool is_in(char32_t c, std::span<const CodeRange> ranges) noexcept {
  const auto found =
      std::lower_bound(ranges.begin(), ranges.end(), c, [](const CodeRange& r, char32_t v) { return r.last < v; });
  return found != ranges.end() && found->first <= c;
}

// Punctuation that is newer than Unicode 8, the version of the pre-tokenizer Punctuation.
inline constexpr CodeRange kNewPunctuation[] = {
    {0x061D, 0x061D},   {0x09FD, 0x09FD},   {0x0A76, 0x0A76},   {0x0C77, 0x0C77},   {0x0C84, 0x0C84},
    {0x1B4E, 0x1B4F},   {0x1B7D, 0x1B7F},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},   {0x10D6E, 0x10D6E},
    {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59}, {0x10F86, 0x10F89}, {0x113D4, 0x113D5}, {0x113D7, 0x113D8},
    {0x1144B, 0x1144F}, {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9},
    {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46}, {0x11A9A, 0x11A9C},
    {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11BE1, 0x11BE1}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71},
    {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16D6D, 0x16D6F},
    {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2}, {0x1E5FF, 0x1E5FF}, {0x1E95E, 0x1E95F},
};

// Whether the pre-tokenizer Punctuation cuts at `c`: general category P, or an ASCII symbol.
inline bool is_punctuation(char32_t c) noexcept {
  if (c < 0x80)
    return (c > 0x20 && c < 0x30) || (c > 0x39 && c < 0x41) || (c > 0x5A && c < 0x61) || (c > 0x7A && c < 0x7F);
  if (c == 0x166D || c == 0x111C9) return true;  // punctuation in Unicode 8
  return is_in(c, kPunctuation) && !is_in(c, kNewPunctuation);
}

}  // namespace tenon::detail
