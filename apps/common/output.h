// Standard output, buffered, and lines of ASCII JSON to write to it.
#pragma once
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace program {

// Results go here, everything else to stderr. Errors: OutputClosed; tenon::Error io where the system refuses.
class Output {
 public:
  void write(std::string_view text);
  void flush();

 private:
  std::string buffer_;
};

// "tenon: ..." on stderr.
void say(std::string_view text);

// A string of JSON, in ASCII; what is not UTF-8 in `text` becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);
inline std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// The shortest number that reads back as the same value of this type; null where JSON has none.
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

// [1,2,3] from a range, each element by `append(out, element)`.
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

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* pattern, ...);

// Text for a table: in quotes, control characters and quotes escaped, other characters as they are.
std::string in_quotes(std::string_view text);

}  // namespace program
