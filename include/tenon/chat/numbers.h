// Numbers of templates: arithmetic and reading them from texts, as in Python.
#pragma once
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/chat/value.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

[[noreturn]] inline void refuse_large() { refuse("an integer of more than 64 bits"); }

// `symbol` of + - * // % for integers.
inline std::int64_t compute(std::string_view symbol, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (symbol == "+"   ? __builtin_add_overflow(a, b, &out)
      : symbol == "-" ? __builtin_sub_overflow(a, b, &out)
                      : symbol == "*" && __builtin_mul_overflow(a, b, &out))
    refuse_large();
  if (symbol != "//" && symbol != "%") return out;
  if (b == 0) fail("division by zero");
  if (b == -1) return symbol == "%" ? 0 : compute("-", 0, a);
  const std::int64_t quotient = a / b, rest = a % b;
  const bool floors = rest != 0 && (rest < 0) != (b < 0);
  if (symbol == "//") return floors ? quotient - 1 : quotient;
  return floors ? rest + b : rest;
}

// Python's float % and //.
inline double compute(std::string_view symbol, double a, double b) {
  if (symbol == "+") return a + b;
  if (symbol == "-") return a - b;
  if (symbol == "*") return a * b;
  if (b == 0) fail("division by zero");
  if (symbol == "/") return a / b;
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) {
    rest += b;
    quotient -= 1;
  } else if (rest == 0) {
    rest = std::copysign(0.0, b);
  }
  if (symbol == "%") return rest;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

inline Value power(const Value& a, const Value& b, char by) {
  const auto base = a.as_integer(), exponent = b.as_integer();
  if (!base || !exponent || *exponent < 0) {
    const double x = *a.as_number(), y = *b.as_number();
    if (x == 0 && y < 0) fail("division by zero");
    if (x < 0 && y != std::floor(y)) refuse("a complex number");
    const double out = std::pow(x, y);
    if (std::isinf(out) && !std::isinf(x) && !std::isinf(y)) fail("the result is too large");
    return Value(out, by);
  }
  std::int64_t out = 1, factor = *base;
  for (std::int64_t left = *exponent; left > 0; left >>= 1) {
    if (left & 1) out = compute("*", out, factor);
    if (left > 1 && factor != 0 && factor != 1) factor = compute("*", factor, factor);
  }
  return Value(out, by);
}

// a / b of integers, correctly rounded where both are exact as doubles.
inline Value arithmetic(std::string_view symbol, const Value& a, const Value& b, char by) {
  if (symbol == "**") return power(a, b, by);
  const auto i = a.as_integer(), j = b.as_integer();
  if (i && j && symbol != "/") return Value(compute(symbol, *i, *j), by);
  return Value(compute(symbol, *a.as_number(), *b.as_number()), by);
}

// ---------------------------------------------------------------- from text
// Digits of a number in Python's spelling: without white space around it and underscores between digits. Empty where
// the underscores stand elsewhere.
inline std::string plain_number(std::string_view text) {
  const TextSpan inner = stripped_range(text, nullptr, true, true);
  text = text.substr(inner.begin, inner.end - inner.begin);
  std::string out;
  const auto digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_')
      out += text[i];
    else if (i == 0 || !digit(i - 1) || !digit(i + 1))
      return {};
  }
  if (out.starts_with('+') && out.size() > 1 && out[1] != '-' && out[1] != '+') out.erase(0, 1);
  return out;
}

inline std::optional<std::int64_t> parse_integer(std::string_view text) {
  const std::string digits = plain_number(text);
  std::int64_t out = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (read.ptr != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) refuse_large();
  return read.ec == std::errc{} ? std::optional(out) : std::nullopt;
}

inline std::optional<double> parse_float(std::string_view text) {
  std::string digits = plain_number(text);
  for (char& c : digits) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  const std::size_t sign = digits.starts_with('-') ? 1 : 0;
  const std::string_view word = std::string_view(digits).substr(sign);
  if (word == "inf" || word == "infinity") return sign ? -INFINITY : INFINITY;
  if (word == "nan") return std::nan("");
  if (word.empty() || !((word[0] >= '0' && word[0] <= '9') || word[0] == '.')) return std::nullopt;
  double out = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (read.ptr != digits.data() + digits.size()) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) refuse("a number out of range");
  return read.ec == std::errc{} ? std::optional(out) : std::nullopt;
}

// int() of a float; empty for NaN and infinities.
inline std::optional<std::int64_t> truncated(double number) {
  if (!std::isfinite(number)) return std::nullopt;
  if (std::fabs(number) >= 0x1p63) refuse_large();
  return static_cast<std::int64_t>(number);
}

// round(number, digits) of Python: half to even, of the exact value.
inline double rounded(double number, int digits) {
  if (!std::isfinite(number)) return number;
  char buffer[512];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed, digits).ptr;
  double out = 0;
  std::from_chars(buffer, end, out);
  return out;
}

}  // namespace tenon::chat::detail
