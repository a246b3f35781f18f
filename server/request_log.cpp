#include "server/request_log.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "tenon/core/json.h"

namespace serve {
namespace {

constexpr std::size_t kLongest = 256;  // of a text from outside, in bytes

// Without control characters (C0, DEL, C1) and the two separators of lines, U+2028 and U+2029.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size() && out.size() < kLongest; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::string_view rest = text.substr(i);
    if (byte < 0x20 || byte == 0x7f) continue;
    if (rest.size() >= 2 && byte == 0xc2 && static_cast<unsigned char>(rest[1]) < 0xa0)
      ++i;
    else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9"))
      i += 2;
    else
      out += text[i];
  }
  return out;
}

// 2026-11-22T15:04:05.678Z
std::string iso_time(std::int64_t now_ms) {
  const auto seconds = static_cast<std::time_t>(now_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[48];
  const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + length, sizeof(text) - length, ".%03dZ", static_cast<int>(now_ms % 1000));
  return text;
}

// To a microsecond: doubles have long tails. What is no number is 0, as JSON has none of those.
double rounded(double ms) { return std::isfinite(ms) ? std::round(ms * 1000) / 1000 : 0; }

}  // namespace

std::string RequestLog::text(const RequestLine& line, std::int64_t now_ms) {
  tenon::OrderedJson json;
  json["ts"] = iso_time(now_ms);
  const auto say = [&json](const char* name, const std::string& value) {
    if (!value.empty()) json[name] = plain(value);
  };
  say("id", line.id);
  say("method", line.method);
  say("route", line.route);
  json["status"] = line.status;
  say("adapter", line.adapter);
  if (line.prompt_tokens) json["prompt_tokens"] = *line.prompt_tokens;
  if (line.tokens) json["tokens"] = *line.tokens;
  say("reason", line.reason);
  json["ms"] = rounded(line.ms);
  if (line.ttft_ms) json["ttft_ms"] = rounded(*line.ttft_ms);
  say("error", line.error);
  // ASCII alone, and broken UTF-8 as U+FFFD.
  return json.dump(-1, ' ', /*ensure_ascii=*/true, tenon::OrderedJson::error_handler_t::replace) + "\n";
}

void RequestLog::write(const RequestLine& line) noexcept try {
  if (!on()) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string whole = text(line, std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  std::lock_guard lock(mutex_);
  for (std::string_view rest = whole; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written > 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      ++lost_;
      return;
    }
  }
} catch (...) {
  ++lost_;
}

}  // namespace serve
