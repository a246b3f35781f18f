#include "serve/text.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>

namespace serve {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& each : words) {
    if (!text.empty()) text += between;
    text += each;
  }
  return text;
}

std::uint64_t random_bits() {
  std::random_device device;  // 32 bits a call
  return std::uint64_t{device()} << 32 | device();
}

std::string random_id() {
  constexpr char digits[] = "0123456789abcdefghijklmnopqrstuv";
  constexpr std::size_t kDigitsOfBits = 12;  // of 5 bits each
  std::string id;
  while (id.size() < 2 * kDigitsOfBits) {
    std::uint64_t bits = random_bits();
    for (std::size_t i = 0; i < kDigitsOfBits; ++i, bits >>= 5) id += digits[bits % 32];
  }
  return id;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::int64_t seconds_now() { return static_cast<std::int64_t>(seconds_since_1970()); }

std::int64_t milliseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string iso_time(std::int64_t milliseconds) {
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[48];
  const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + length, sizeof(text) - length, ".%03dZ", static_cast<int>(milliseconds % 1000));
  return text;
}

double rounded(double ms) { return std::isfinite(ms) ? std::round(ms * 1000) / 1000 : 0; }

}  // namespace serve
