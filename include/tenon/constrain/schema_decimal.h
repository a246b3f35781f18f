// Exact decimal numbers of any size, for the bounds of a schema.
#pragma once
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon::constrain::schema {

using Json = nlohmann::ordered_json;

/// Whether the JSON parser may have rounded the number. It rounds integers beyond 64 bits to a double.
inline bool may_be_rounded(const Json& number) {
  if (!number.is_number_float()) return false;
  const double value = number.get<double>();
  return value >= 0x1p64 || value < -0x1p63;
}

/// A decimal number.
struct Decimal {
  bool negative = false;
  std::string digits;  ///< without zeros at either end; empty: zero
  int point = 0;       ///< value = 0.digits * 10^point

  static Decimal of(const Json& number) {
    return number.is_number_float() ? of(number.get<double>()) : parse(number.dump());
  }
  /// The shortest decimal that reads back as `value`. From 2^53 on it is the exact value instead, because it is
  /// compared with exact integers.
  static Decimal of(double value) {
    char text[340];  // the largest double has 309 digits
    if (std::abs(value) < 0x1p53) return parse({text, std::to_chars(text, text + sizeof text, value).ptr});
    return parse({text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.0f", value))});
  }

  /// Parses a number in JSON's grammar, without checks.
  static Decimal parse(std::string_view text) {
    Decimal d;
    d.negative = text.starts_with('-');
    bool after_point = false;
    for (std::size_t i = d.negative; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '.') {
        after_point = true;
      } else if (c == 'e' || c == 'E') {
        int exponent = 0;
        const char* first = text.data() + i + 1;
        std::from_chars(*first == '+' ? first + 1 : first, text.data() + text.size(), exponent);
        d.point += exponent;
        break;
      } else {
        if (!d.digits.empty() || c != '0') d.digits += c;
        if (!after_point && !d.digits.empty()) ++d.point;
        if (after_point && d.digits.empty()) --d.point;
      }
    }
    while (d.digits.ends_with('0')) d.digits.pop_back();
    if (d.digits.empty()) d = {};
    return d;
  }

  bool is_zero() const { return digits.empty(); }
  bool is_whole() const { return point >= static_cast<int>(digits.size()); }
  int last_place() const { return point - static_cast<int>(digits.size()); }  ///< exponent of the last digit
  /// Digits before the point; "0" where there are none.
  std::string whole() const {
    if (point <= 0) return "0";
    std::string text = digits.substr(0, static_cast<std::size_t>(point));
    text.resize(static_cast<std::size_t>(point), '0');
    return text;
  }
  /// Digits after the point; "" for a whole number.
  std::string fraction() const {
    if (point <= 0) return std::string(static_cast<std::size_t>(-point), '0') + digits;
    return is_whole() ? "" : digits.substr(static_cast<std::size_t>(point));
  }
  Decimal magnitude() const { return {false, digits, point}; }
};

/// Sign of a - b: -1, 0 or 1.
inline int compare(const Decimal& a, const Decimal& b) {
  const auto sign = [](const Decimal& d) { return d.is_zero() ? 0 : d.negative ? -1 : 1; };
  if (sign(a) != sign(b)) return sign(a) < sign(b) ? -1 : 1;
  if (a.is_zero()) return 0;
  const int larger = a.negative ? -1 : 1;
  if (a.point != b.point) return a.point < b.point ? -larger : larger;
  const int order = a.digits.compare(b.digits);
  return order == 0 ? 0 : order < 0 ? -larger : larger;
}

/// The double that equals a non-negative whole number. If there is none: the next double above it, or below.
inline Decimal double_at(const Decimal& whole, bool above) {
  double value = 0;
  const std::string text = whole.whole();
  std::from_chars(text.data(), text.data() + text.size(), value);
  const int order = compare(Decimal::of(value), whole);
  if (above ? order < 0 : order > 0) value = std::nextafter(value, above ? std::numeric_limits<double>::infinity() : 0);
  return Decimal::of(value);
}

/// Most digits of a divisor in is_multiple().
inline constexpr std::size_t kMultipleDigits = 17;
/// Whether `a` is a multiple of `of`, which is positive and has at most kMultipleDigits digits.
inline bool is_multiple(const Decimal& a, const Decimal& of) {
  if (a.is_zero()) return true;
  if (of.last_place() > a.last_place()) return false;  // the last digit of `a` is not 0, that of a multiple would be
  std::uint64_t k = 0, rest = 0;
  for (const char c : of.digits) k = 10 * k + static_cast<std::uint64_t>(c - '0');
  for (const char c : a.digits) rest = (10 * rest + static_cast<std::uint64_t>(c - '0')) % k;
  for (int i = a.last_place(); i > of.last_place(); --i) rest = 10 * rest % k;
  return rest == 0;
}

}  // namespace tenon::constrain::schema
