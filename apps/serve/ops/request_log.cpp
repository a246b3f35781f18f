#include "serve/ops/request_log.h"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "serve/text.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/unicode.h"

namespace serve {
namespace {

constexpr std::size_t kLongestText = 256;  // of a text from outside, in bytes

// Without control characters; what is no UTF-8 is left to the writer of JSON.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size() && out.size() < kLongestText;) {
    const tenon::CodePoint point = tenon::decode_utf8(text, at);
    const auto length = static_cast<std::size_t>(point.length);
    if (!is_control(point.value)) out += text.substr(at, length);
    at += length;
  }
  return out;
}

}  // namespace

std::string RequestLog::text(const LogLine& line, std::int64_t now_ms) {
  tenon::OrderedJson json;
  json["ts"] = iso_time(now_ms);
  const auto say = [&json](const char* name, const std::string& value) {
    if (!value.empty()) json[name] = plain(value);
  };
  say("id", line.id);
  say("method", line.method);
  say("route", line.route);
  json["status"] = line.status;
  say("key", line.key);
  if (line.trace) {
    say("trace_id", line.trace->trace_id);
    say("span_id", line.trace->span_id);
    say("trace_flags", line.trace->flags);
  }
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

void RequestLog::write(const LogLine& line) noexcept try {
  if (!on()) return;
  out_.put(text(line, milliseconds_now()));
} catch (...) {
  ++unmade_;
}

}  // namespace serve
