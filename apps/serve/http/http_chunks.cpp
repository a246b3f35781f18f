#include "serve/http/http_chunks.h"

#include <algorithm>
#include <charconv>

#include "serve/http/http_head.h"

namespace serve {
namespace {

constexpr std::size_t kExtensionBytes = 4096;  // of a whole body; nobody sends any

}  // namespace

int HttpChunks::take_size(std::string_view line, std::size_t body_bytes) {
  // from_chars takes neither a sign (for an unsigned number), nor 0x, nor spaces.
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), left_, 16);
  const auto digits = static_cast<std::size_t>(parsed.ptr - line.data());
  if (digits == 0) return 400;
  const std::string_view extension = line.substr(digits);
  if (!extension.empty() && (extension[0] != ';' || !is_field_value(extension))) return 400;
  extension_bytes_ += extension.size();
  if (extension_bytes_ > kExtensionBytes) return 400;
  if (parsed.ec != std::errc() || left_ > limits_.body_bytes - body_bytes) return 413;
  state_ = left_ == 0 ? State::trailers : State::data;
  return 0;
}

int HttpChunks::take_trailer(std::string_view line) {
  if (line.empty()) {
    state_ = State::complete;
    return 0;
  }
  trailer_bytes_ += line.size();
  if (++trailer_lines_ > limits_.header_lines || trailer_bytes_ > limits_.header_bytes) return 431;
  const auto colon = line.find(':');
  return colon == line.npos || !is_token(line.substr(0, colon)) || !is_field_value(line.substr(colon + 1)) ? 400 : 0;
}

int HttpChunks::take_line(std::string_view line, std::size_t body_bytes) {
  if (state_ == State::size) return take_size(line, body_bytes);
  if (state_ == State::trailers) return take_trailer(line);
  state_ = State::size;
  return line.empty() ? 0 : 400;
}

int HttpChunks::feed(std::string_view& received, std::string& body) {
  while (!complete() && !received.empty()) {
    if (state_ == State::data) {
      const std::size_t count = std::min(left_, received.size());
      body.append(received.substr(0, count));
      received.remove_prefix(count);
      left_ -= count;
      if (left_ == 0) state_ = State::data_end;
      continue;
    }
    const auto newline = received.find('\n');
    const std::size_t most = state_ == State::trailers ? limits_.header_bytes : kExtensionBytes;
    if (std::min(newline, received.size()) > most) return state_ == State::trailers ? 431 : 400;
    if (newline == received.npos) return 0;
    if (newline == 0 || received[newline - 1] != '\r') return 400;
    if (const int status = take_line(received.substr(0, newline - 1), body.size())) return status;
    received.remove_prefix(newline + 1);
  }
  return 0;
}

}  // namespace serve
