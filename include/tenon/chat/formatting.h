// Formats of texts: str.format, the operator % of texts, and strftime.
#pragma once
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/chat/comparison.h"
#include "tenon/chat/numbers.h"
#include "tenon/chat/value.h"
#include "tenon/chat/value_text.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// text.format(arguments): fields {}, {0}, {name}, also with !r and !s.
inline MarkedText format_braces(const MarkedText& format, const Arguments& arguments, Meter& meter) {
  MarkedText out;
  std::size_t next = 0;
  const std::string_view text = format.bytes;
  const auto pick = [&](std::string_view name) -> const Value& {
    std::size_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool number = !name.empty() && read.ptr == name.data() + name.size() && read.ec == std::errc{};
    if (name.empty()) index = next++;
    if (name.empty() || number) {
      if (index >= arguments.positional.size()) fail("format has too few arguments");
      return arguments.positional[index];
    }
    for (const auto& [own, value] : arguments.named)
      if (own == name) return value;
    if (name.find_first_of(".[") != kNotFound) refuse("a field of format with attributes or items");
    fail("format has no argument \"" + std::string(name) + "\"");
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      out.append(format, at, at + 1);
    } else if (text.substr(at + 1).starts_with(c)) {
      out.append(format, at, at + 1);
      ++at;
    } else {
      const std::size_t end = text.find('}', at);
      if (c == '}' || end == kNotFound) fail("a brace of the format is alone");
      std::string_view field = text.substr(at + 1, end - at - 1);
      const bool repr = field.ends_with("!r");
      if (repr || field.ends_with("!s")) field.remove_suffix(2);
      if (field.find_first_of(":!{") != kNotFound) refuse("a format specification");
      const Value& value = pick(field);
      out.append(repr ? ValueWriter(meter).repr(value) : to_text(value, meter));
      meter.charge_text(out.size() - std::min(out.size(), at));
      at = end;
    }
    if (out.size() > meter.limits().output_bytes)
      exceed("a text exceeds " + std::to_string(meter.limits().output_bytes) + " bytes");
  }
  return out;
}

// One value of the operator %: conversions s, r, d, i and f.
inline MarkedText format_percent(char conversion, int precision, const Value& value, Meter& meter) {
  if (conversion == 's') return to_text(value, meter);
  if (conversion == 'r') return ValueWriter(meter).repr(value);
  const auto number = value.as_number();
  if (!number) fail_type("% needs a number, not", value);
  if (conversion == 'd' || conversion == 'i') {
    const auto whole = value.as_integer() ? value.as_integer() : truncated(*number);
    if (!whole) fail("% needs a finite number");
    return {std::to_string(*whole), value.writer()};
  }
  if (!std::isfinite(*number)) return {float_text(*number), value.writer()};
  char buffer[512];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, *number, std::chars_format::fixed, precision).ptr;
  return {std::string(buffer, end), value.writer()};
}

// text % value.
inline MarkedText format_percents(const MarkedText& format, const Value& value, Meter& meter) {
  MarkedText out;
  const std::string_view text = format.bytes;
  const ListObject* const tuple = value.as_list(ListObject::Kind::tuple);
  const DictObject* const dict = value.as_dict();
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out.append(format, at, at + 1);
      continue;
    }
    const Value* argument = nullptr;
    if (++at < text.size() && text[at] == '%') {
      out.append(format, at, at + 1);
      continue;
    }
    if (at < text.size() && text[at] == '(') {
      const std::size_t end = text.find(')', at);
      if (end == kNotFound) fail("the format is not complete");
      if (!dict) fail("the format needs a dict");
      argument = find(*dict, text.substr(at + 1, end - at - 1), meter);
      if (!argument) fail("the format has no such key");
      at = end + 1;
      next = 1;
    }
    int precision = 6;
    if (at < text.size() && text[at] == '.') {
      const auto read = std::from_chars(text.data() + at + 1, text.data() + text.size(), precision);
      if (read.ec != std::errc{} || precision > 100) refuse("this precision of a format");
      at = static_cast<std::size_t>(read.ptr - text.data());
      if (at < text.size() && text[at] != 'f') refuse("a precision of this conversion");
    }
    if (at >= text.size()) fail("the format is not complete");
    if (std::string_view("srdif").find(text[at]) == kNotFound) refuse("this conversion of a format");
    if (!argument) {
      if (next >= (tuple ? tuple->items.size() : 1)) fail("the format has too few arguments");
      argument = tuple ? &tuple->items[next] : &value;
      ++next;
    }
    out.append(format_percent(text[at], precision, *argument, meter));
    if (out.size() > meter.limits().output_bytes)
      exceed("a text exceeds " + std::to_string(meter.limits().output_bytes) + " bytes");
    meter.charge_text(out.size() / 8);
  }
  if (next < (tuple ? tuple->items.size() : 1) && !dict && !(value.as_list() && !tuple))
    fail("the format has too many arguments");
  return out;
}

// ---------------------------------------------------------------- strftime
inline std::string padded(std::int64_t number, int width, char fill = '0') {
  const std::string digits = std::to_string(number);
  const auto size = static_cast<std::size_t>(width);
  return digits.size() < size ? std::string(size - digits.size(), fill) + digits : digits;
}

// A local time, taken apart.
struct DateParts {
  std::int64_t year, month, day, week_day, year_day, hour, minute, second;

  explicit DateParts(std::chrono::local_seconds time) {
    using namespace std::chrono;
    const auto midnight = floor<days>(time);
    const year_month_day date(midnight);
    const std::int64_t seconds = (time - midnight).count();
    year = int(date.year());
    month = unsigned(date.month());
    day = unsigned(date.day());
    week_day = weekday(midnight).c_encoding();
    year_day = (midnight - local_days(date.year() / 1 / 1)).count() + 1;
    hour = seconds / 3600;
    minute = seconds / 60 % 60;
    second = seconds % 60;
  }
};

// Conversions of strftime that write a number; empty for others. `pads`: false after %-.
inline std::string date_number(char conversion, bool pads, const DateParts& date) {
  struct Field {
    char conversion;
    std::int64_t value;
    int width;
    char fill = '0';
  };
  const Field fields[] = {{'d', date.day, 2},
                          {'e', date.day, 2, ' '},
                          {'m', date.month, 2},
                          {'y', date.year % 100, 2},
                          {'Y', date.year, 1},
                          {'H', date.hour, 2},
                          {'I', (date.hour + 11) % 12 + 1, 2},
                          {'M', date.minute, 2},
                          {'S', date.second, 2},
                          {'j', date.year_day, 3},
                          {'w', date.week_day, 1},
                          {'u', (date.week_day + 6) % 7 + 1, 1}};
  for (const Field& field : fields)
    if (field.conversion == conversion) return padded(field.value, pads ? field.width : 1, field.fill);
  return {};
}

// One conversion of strftime in the C locale.
inline std::string date_part(char conversion, bool pads, const DateParts& date) {
  static constexpr std::array<std::string_view, 7> days = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                           "Thursday", "Friday", "Saturday"};
  static constexpr std::array<std::string_view, 12> months = {"January",   "February", "March",    "April",
                                                              "May",       "June",     "July",     "August",
                                                              "September", "October",  "November", "December"};
  static constexpr std::pair<char, std::string_view> composed[] = {
      {'F', "Y-m-d"}, {'T', "H:M:S"}, {'X', "H:M:S"},        {'R', "H:M"},
      {'D', "m/d/y"}, {'x', "m/d/y"}, {'c', "a b e H:M:S Y"}};
  if (std::string number = date_number(conversion, pads, date); !number.empty()) return number;
  for (const auto& [own, parts] : composed) {
    if (own != conversion) continue;
    std::string out;
    for (const char c : parts) out += c >= 'A' ? date_part(c, true, date) : std::string(1, c);
    return out;
  }
  const std::string_view day = days[static_cast<std::size_t>(date.week_day)];
  const std::string_view month = months[static_cast<std::size_t>(date.month - 1)];
  switch (conversion) {
    case 'a':
    case 'A':
      return std::string(day.substr(0, conversion == 'a' ? 3 : day.size()));
    case 'b':
    case 'h':
    case 'B':
      return std::string(month.substr(0, conversion == 'B' ? month.size() : 3));
    case 'p':
      return date.hour < 12 ? "AM" : "PM";
    case 'Z':
    case 'z':
      return "";  // a time without a zone
    case '%':
      return "%";
    default:
      refuse("the conversion %" + std::string(1, conversion) + " of strftime");
  }
}

inline std::string format_time(std::string_view format, std::chrono::local_seconds time, Meter& meter) {
  std::string out;
  const DateParts date(time);
  meter.charge_text(16 * format.size());
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      out += format[at];
      continue;
    }
    const bool pads = format[at + 1] != '-';
    at += pads ? 1 : 2;
    if (at < format.size()) out += date_part(format[at], pads, date);
  }
  return out;
}

}  // namespace tenon::chat::detail
