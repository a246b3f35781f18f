#include "serve/api/api_keys.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

#include "serve/text.h"
#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/io/hex.h"

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

// The key of "Bearer KEY"; empty for another scheme.
std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer";
  authorization = trimmed(authorization, kAroundKeys);
  const std::string_view scheme = authorization.substr(0, authorization.find(' '));
  const bool known = std::equal(scheme.begin(), scheme.end(), kScheme.begin(), kScheme.end(),
                                [](char a, char b) { return lower(a) == b; });
  return known ? trimmed(authorization.substr(scheme.size()), kAroundKeys) : std::string_view();
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

[[noreturn]] void refuse_line(const std::string& where, const std::string& what) {
  throw Error(Error::Kind::invalid_request, where, what);
}

// The first 32 bits of the key's hash. They do not reveal the key.
std::string short_digest(const tenon::Sha256::Digest& hash) { return "key-" + tenon::hex_of(std::span(hash).first(4)); }

std::string name_of(std::string_view value, const std::string& where) {
  const auto in_name = [](char c) {
    const char l = lower(c);
    return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  if (value.empty() || value.size() > 64 || !std::all_of(value.begin(), value.end(), in_name))
    refuse_line(where, "name= needs 1 to 64 letters, digits and . _ -");
  return std::string(value);
}

unsigned roles_of(std::string_view value, const std::string& where) {
  constexpr std::pair<std::string_view, Role> kRoles[] = {
      {"serve", kServeRole}, {"admin", kAdminRole}, {"metrics", kMetricsRole}};
  unsigned roles = 0;
  for (const std::string_view word : split(value, ",")) {
    const auto role =
        std::find_if(std::begin(kRoles), std::end(kRoles), [&](const auto& each) { return each.first == word; });
    if (role == std::end(kRoles)) refuse_line(where, "roles= needs one or more of serve, admin, metrics, with commas");
    roles |= role->second;
  }
  if (roles == 0) refuse_line(where, "roles= needs one or more of serve, admin, metrics, with commas");
  return roles;
}

std::int64_t limit_of(std::string_view name, std::string_view value, const std::string& where) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 1 || number > kMost)
    refuse_line(where, std::string(name) + "= needs an integer from 1 to " + std::to_string(kMost));
  return number;
}

// Reads the words after a key. No message quotes them: a word may be a part of the key.
KeyTerms terms_of(const std::vector<std::string_view>& words, const std::string& where) {
  constexpr std::pair<std::string_view, std::int64_t KeyTerms::*> kLimits[] = {
      {"requests-a-minute", &KeyTerms::requests_a_minute},
      {"tokens-a-minute", &KeyTerms::tokens_a_minute},
      {"requests-at-once", &KeyTerms::requests_at_once},
      {"tokens-at-once", &KeyTerms::tokens_at_once}};
  KeyTerms terms;
  std::set<std::string_view> seen;
  for (const std::string_view word : words) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(0, equals), value = word.substr(std::min(equals + 1, word.size()));
    const auto limit =
        std::find_if(std::begin(kLimits), std::end(kLimits), [&](const auto& each) { return each.first == name; });
    const bool known = limit != std::end(kLimits) || name == "name" || name == "roles";
    if (!known || !seen.insert(name).second)
      refuse_line(where,
                  "a key has no spaces; after it may follow name=, roles=, requests-a-minute=, tokens-a-minute=, "
                  "requests-at-once= and tokens-at-once=, each once");
    if (name == "name")
      terms.name = name_of(value, where);
    else if (name == "roles")
      terms.roles = roles_of(value, where);
    else
      terms.*limit->second = limit_of(name, value, where);
  }
  return terms;
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
  if (hashes_.size() == before) refuse_line(file.string(), "has no key");
}

void ApiKeys::add(std::string_view line, const std::string& where) {
  std::vector<std::string_view> words = split(line, kAroundKeys);
  const std::string_view key = words.empty() ? std::string_view() : words.front();
  if (key.empty() || !std::all_of(key.begin(), key.end(), in_key))
    refuse_line(where, "a key is one or more of A-Z a-z 0-9 . _ ~ + / = -");
  words.erase(words.begin());
  const tenon::Sha256::Digest hash = tenon::Sha256().update(key).digest();
  KeyTerms terms = terms_of(words, where);
  if (terms.name.empty()) terms.name = short_digest(hash);
  const auto [same_key, new_key] = by_hash_.try_emplace({hash.begin(), hash.end()}, hashes_.size());
  const auto [same_name, new_name] = by_name_.try_emplace(terms.name, hashes_.size());
  if (!new_key && terms_[same_key->second] != terms)
    refuse_line(where, "the same key appears earlier with other terms");
  if (!new_name && terms_[same_name->second] != terms)
    refuse_line(where, "a key of the same name appears earlier with other terms");
  hashes_.push_back(hash);
  terms_.push_back(std::move(terms));
}

int ApiKeys::number(std::string_view authorization, std::string_view x_api_key) const {
  const int by_bearer = number(bearer(authorization));
  const int by_header = number(trimmed(x_api_key, kAroundKeys));
  return by_bearer != 0 ? by_bearer : by_header;
}

int ApiKeys::number(std::string_view key) const {
  const tenon::Sha256::Digest digest = tenon::Sha256().update(key).digest();
  // volatile: otherwise a compiler may leave the loops early, and the time would tell the place.
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
