#include "serve/api/trace_context.h"

#include <algorithm>
#include <string_view>

namespace serve {
namespace {

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) { return is_hex(text) && text.find_first_not_of('0') != text.npos; }

// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01. Versions above 00 may go on after a hyphen.
std::optional<TraceContext> parsed(std::string_view text) {
  constexpr std::size_t kLength = 55;
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const auto version = text.substr(0, 2), trace = text.substr(3, 32), span = text.substr(36, 16),
             flags = text.substr(53, 2);
  if (!is_hex(version) || version == "ff" || !is_id(trace) || !is_id(span) || !is_hex(flags)) return std::nullopt;
  if (text.size() > kLength && (version == "00" || text[kLength] != '-')) return std::nullopt;
  return TraceContext{std::string(trace), std::string(span), std::string(flags)};
}

}  // namespace

std::optional<TraceContext> trace_context(const HttpRequest& request) {
  std::optional<std::string_view> found;
  for (const auto& [name, value] : request.headers) {
    if (!same_word(name, "traceparent")) continue;
    if (found) return std::nullopt;
    found = value;
  }
  return found ? parsed(*found) : std::nullopt;
}

}  // namespace serve
