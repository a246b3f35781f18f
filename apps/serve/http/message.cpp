#include "serve/http/message.h"

#include <strings.h>

#include <algorithm>

#include "serve/text.h"

namespace serve {
namespace {

const std::string* find(const HttpHeaders& headers, std::string_view name) {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& each) { return same_word(each.first, name); });
  return found == headers.end() ? nullptr : &found->second;
}

bool is_token_char(char c) {
  constexpr std::string_view kSpecial = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kSpecial.find(c) != kSpecial.npos;
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

bool lists_word(std::string_view list, std::string_view word) {
  for (;;) {
    const auto comma = list.find(',');
    if (same_word(trimmed(list.substr(0, comma), " \t"), word)) return true;
    if (comma == list.npos) return false;
    list.remove_prefix(comma + 1);
  }
}

bool is_token(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char); }

bool is_field_value(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < ' ' && byte != '\t') || byte == 0x7f;
  });
}

std::string url_decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex(text[i + 1]) : -1;
    const int low = high >= 0 ? hex(text[i + 2]) : -1;
    if (low >= 0) i += 2;
    out += low >= 0 ? static_cast<char>(high * 16 + low) : text[i] == '+' && plus_is_space ? ' ' : text[i];
  }
  return out;
}

std::string HttpRequest::header(std::string_view name) const {
  const std::string* const value = find(headers, name);
  return value ? *value : std::string();
}

std::string HttpRequest::parameter(std::string_view name) const {
  for (std::string_view left = query; !left.empty();) {
    const std::string_view one = left.substr(0, left.find('&'));
    left.remove_prefix(std::min(one.size() + 1, left.size()));
    const auto equals = std::min(one.find('='), one.size());
    if (url_decoded(one.substr(0, equals), true) == name)
      return url_decoded(one.substr(std::min(equals + 1, one.size())), true);
  }
  return {};
}

void HttpResponse::set_header(std::string_view name, std::string value) {
  erase_header(name);
  if (is_field_value(value)) headers.emplace_back(name, std::move(value));
}

bool HttpResponse::erase_header(std::string_view name) {
  return std::erase_if(headers, [&](const auto& each) { return same_word(each.first, name); }) > 0;
}

std::string HttpResponse::header(std::string_view name) const {
  const std::string* const value = find(headers, name);
  return value ? *value : std::string();
}

void HttpResponse::set_content(std::string bytes, std::string type) {
  body = std::move(bytes);
  set_header("Content-Type", std::move(type));
}

void HttpResponse::set_stream(std::string type, Stream provider) {
  stream = std::move(provider);
  set_header("Content-Type", std::move(type));
}

}  // namespace serve
