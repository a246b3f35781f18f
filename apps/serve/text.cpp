#include "serve/text.h"

#include <chrono>
#include <cmath>
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

double rounded(double ms) { return std::isfinite(ms) ? std::round(ms * 1000) / 1000 : 0; }

}  // namespace serve
