// Texts from outside, for messages, logs and metrics; what names answers: digits and times; and the largest number of a
// field.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "trimmed.h"

namespace serve {

using program::trimmed;

inline constexpr int kMaxInt = std::numeric_limits<int>::max();

// C0, DEL, C1 and the separators U+2028 and U+2029: what could begin a line of somebody's log.
inline bool is_control(char32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029;
}

std::string joined(const std::vector<std::string>& words, std::string_view between);

std::uint64_t random_bits();
std::string random_id();  // 24 digits
double seconds_since_1970();
std::int64_t seconds_now();                       // whole ones, since 1970
std::int64_t milliseconds_now();                  // likewise
std::string iso_time(std::int64_t milliseconds);  // since 1970: 2026-11-22T15:04:05.678Z
// To a microsecond: doubles have long tails. What is no number is 0, as JSON has none of those.
double rounded(double ms);

}  // namespace serve
