#include "serve/text.h"

#include <chrono>
#include <cmath>
#include <random>

namespace serve {

std::string_view trimmed(std::string_view text, std::string_view characters) {
  const auto first = text.find_first_not_of(characters);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(characters) - first + 1);
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& each : words) {
    if (!text.empty()) text += between;
    text += each;
  }
  return text;
}

std::uint64_t random_bits() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return random();
}

std::string random_id() {
  constexpr char digits[] = "0123456789abcdefghijklmnopqrstuv";
  std::string id(24, '0');
  for (char& c : id) c = digits[random_bits() % 32];
  return id;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double rounded(double ms) { return std::isfinite(ms) ? std::round(ms * 1000) / 1000 : 0; }

}  // namespace serve
