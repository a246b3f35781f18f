// Texts without blanks around them.
#pragma once
#include <string_view>

namespace program {

inline constexpr std::string_view kBlanks = " \t\r\n";

// Without these characters at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view characters = kBlanks) {
  const auto first = text.find_first_not_of(characters);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(characters) - first + 1);
}

}  // namespace program
