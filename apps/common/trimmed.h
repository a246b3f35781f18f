// Texts without blanks around them.
#pragma once
#include <concepts>
#include <string>
#include <string_view>

namespace program {

inline constexpr std::string_view kBlanks = " \t\r\n";

// Without these characters at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view characters = kBlanks) {
  const auto first = text.find_first_not_of(characters);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(characters) - first + 1);
}

// The result would be a view of a text that has ended.
template <std::same_as<std::string> Text>
std::string_view trimmed(Text&& text, std::string_view characters = kBlanks) = delete;

}  // namespace program
