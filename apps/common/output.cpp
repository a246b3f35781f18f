#include "output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <system_error>
#include <utility>

#include "exits.h"
#include "messages.h"
#include "tenon/core/error.h"
#include "tenon/io/hex.h"
#include "tenon/tokenizer/unicode.h"

namespace program {

void Output::write(std::string_view text) {
  constexpr std::size_t kBuffer = 1 << 16;
  buffer_ += text;
  if (buffer_.size() >= kBuffer) flush();
}

void Output::flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const auto written = ::write(STDOUT_FILENO, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // another process made the pipe non-blocking
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&ready, 1, -1);
      continue;
    }
    if (written < 0 && errno == EPIPE) throw OutputClosed();
    if (written < 0) {
      throw tenon::Error(tenon::Error::Kind::io, "standard output",
                         "cannot be written: " + std::generic_category().message(errno));
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

namespace {

// Writes one line of say(). say_by() replaces it.
std::function<void(std::string_view)> write_message = [](std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
};

}  // namespace

void say(std::string_view text) { write_message("tenon: " + std::string(text) + "\n"); }

void say_by(std::function<void(std::string_view)> writer) { write_message = std::move(writer); }

namespace {

void append_escape(std::string& out, unsigned unit) { out += "\\u" + tenon::hex_of(unit, 4); }

// The letter of the short escape of c in JSON; 0 if it has none here. \b and \f are written as \u0008 and \u000c.
char short_escape(char32_t c) {
  switch (c) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const tenon::CodePoint point = tenon::decode_utf8(text, at);
    at += static_cast<std::size_t>(point.length);
    const auto c = static_cast<unsigned>(point.value);
    if (const char escape = short_escape(point.value)) {
      out += '\\';
      out += escape;
    } else if (c >= 0x20 && c < 0x7f) {
      out += static_cast<char>(c);
    } else if (c < 0x10000) {
      append_escape(out, c);
    } else {  // a surrogate pair
      append_escape(out, 0xd800 + ((c - 0x10000) >> 10));
      append_escape(out, 0xdc00 + ((c - 0x10000) & 0x3ff));
    }
  }
  out += '"';
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string with_commas(unsigned long long number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string formatted(const char* pattern, ...) {
  std::va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, pattern, arguments);
  std::string text(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(arguments);
  va_end(again);
  return text;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const tenon::CodePoint point = tenon::decode_utf8(text, at);
    const auto length = static_cast<std::size_t>(point.length);
    if (const char escape = short_escape(point.value)) {
      out += '\\';
      out += escape;
    } else if (point.value < 0x20 || point.value == 0x7f) {
      append_escape(out, static_cast<unsigned>(point.value));
    } else if (point.status == tenon::Utf8Status::valid) {
      out += text.substr(at, length);
    } else {
      out += "\xEF\xBF\xBD";
    }
    at += length;
  }
  return out + "\"";
}

}  // namespace program
