// Buffered standard output, and functions that write ASCII JSON.
#pragma once
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace program {

// Standard output, for results only; messages go to stderr. Errors: OutputClosed; tenon::Error io if the system
// refuses.
class Output {
 public:
  void write(std::string_view text);
  void flush();

 private:
  std::string buffer_;
};

// Prints "tenon: <text>" on stderr.
void say(std::string_view text);

// Appends a JSON string in ASCII. Invalid UTF-8 in `text` becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);
inline std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// Appends the shortest number that reads back as the same value of this type; null if JSON has none.
template <class Number>
void append_json_number(std::string& out, Number value) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) {
      out += "null";
      return;
    }
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

// Appends a list, [1,2,3], from a range: append(out, element) writes each element.
template <class Range, class Append>
void append_json_list(std::string& out, const Range& range, Append append) {
  out += '[';
  bool first = true;
  for (const auto& each : range) {
    if (!first) out += ", ";
    first = false;
    append(out, each);
  }
  out += ']';
}

// "a, b, c"
std::string joined(const std::vector<std::string>& words);

// 12,345,678
std::string with_commas(unsigned long long number);

// printf to a string.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* pattern, ...);

// Text for a table: in quotes, with control characters and quotes escaped.
std::string in_quotes(std::string_view text);

}  // namespace program
