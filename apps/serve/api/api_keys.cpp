#include "serve/api/api_keys.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "serve/text.h"
#include "tenon/core/error.h"
#include "tenon/io/file.h"

namespace serve {
namespace {

using tenon::Error;

constexpr std::size_t kMostKeyBytes = 1 << 20;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool in_key(char c) {
  const char l = lower(c);
  return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') ||
         std::string_view("._~+/=-").find(c) != std::string_view::npos;
}

constexpr std::string_view kAroundKeys = " \t\r";

// The key of "Bearer KEY"; empty where it is another scheme.
std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer";
  authorization = trimmed(authorization, kAroundKeys);
  const std::string_view scheme = authorization.substr(0, authorization.find(' '));
  const bool known = std::equal(scheme.begin(), scheme.end(), kScheme.begin(), kScheme.end(),
                                [](char a, char b) { return lower(a) == b; });
  return known ? trimmed(authorization.substr(scheme.size()), kAroundKeys) : std::string_view();
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) add(keys[i], "key " + std::to_string(i + 1) + " of --api-key");
}

void ApiKeys::add_file(const std::filesystem::path& file) {
  const std::string text = tenon::read_text_file(file, kMostKeyBytes);
  const std::size_t before = hashes_.size();
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(std::string_view(text).substr(begin, end - begin), kAroundKeys);
    begin = end + 1;
    ++number;
    if (!line.empty() && line.front() != '#') add(line, file.string() + ": line " + std::to_string(number));
  }
  if (hashes_.size() == before) throw Error(Error::Kind::invalid_request, file.string(), "has no key");
}

void ApiKeys::add(std::string_view key, const std::string& where) {
  if (key.empty() || !std::all_of(key.begin(), key.end(), in_key))
    throw Error(Error::Kind::invalid_request, where, "a key is one or more of A-Z a-z 0-9 . _ ~ + / = -");
  hashes_.push_back(tenon::Sha256().update(key).digest());
}

int ApiKeys::number(std::string_view authorization, std::string_view x_api_key) const {
  const int by_bearer = number(bearer(authorization));
  const int by_header = number(trimmed(x_api_key, kAroundKeys));
  return by_bearer != 0 ? by_bearer : by_header;
}

int ApiKeys::number(std::string_view key) const {
  const tenon::Sha256::Digest digest = tenon::Sha256().update(key).digest();
  // volatile: else a compiler may leave the loops once the answer is known.
  volatile std::uint32_t found = 0;
  std::uint32_t place = 0;
  for (const auto& hash : hashes_) {
    ++place;
    volatile std::uint8_t difference = 0;
    for (std::size_t i = 0; i < hash.size(); ++i)
      difference = static_cast<std::uint8_t>(difference | (hash[i] ^ digest[i]));
    // All ones where the difference is 0, without a branch. A key given twice keeps its first place.
    const std::uint32_t equal = 0 - ((static_cast<std::uint32_t>(difference) - 1) >> 8 & 1);
    const std::uint32_t fresh = 0 - ((found - 1) >> 31);
    found = found | (place & equal & fresh);
  }
  return static_cast<int>(found);
}

}  // namespace serve
