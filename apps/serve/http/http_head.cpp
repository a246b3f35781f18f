#include "serve/http/http_head.h"

#include <strings.h>

#include <algorithm>
#include <charconv>

#include "serve/text.h"

namespace serve {
namespace {

constexpr std::size_t kLineEnd = 2;

bool is_token_char(char c) {
  constexpr std::string_view kSpecial = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kSpecial.find(c) != kSpecial.npos;
}

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

constexpr std::string_view kBlanks = " \t";

bool lists_word(std::string_view list, std::string_view word) {
  for (;;) {
    const auto comma = list.find(',');
    if (same_word(trimmed(list.substr(0, comma), kBlanks), word)) return true;
    if (comma == list.npos) return false;
    list.remove_prefix(comma + 1);
  }
}

// The path and query of an absolute target, which proxies send; other targets as they are. Empty: it has no sound host.
std::string origin_form(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!same_word(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const auto end = std::min(target.find_first_of("/?#"), target.size());
    const auto host = target.substr(0, end);
    if (host.empty() || host.find('@') != host.npos) return {};  // RFC 9110, 4.2.4: user names are an attack
    return (target.substr(end).starts_with('/') ? "" : "/") + std::string(target.substr(end));
  }
  return std::string(target);
}

int parse_request_line(std::string_view line, HttpHead& head) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == line.npos || first == last) return 400;
  const auto method = line.substr(0, first), target = line.substr(first + 1, last - first - 1);
  const auto version = line.substr(last + 1);
  if (!is_token(method) || target.empty()) return 400;
  if (!std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; })) return 400;
  if (target.find("%00") != target.npos) return 400;  // would end a C string early somewhere
  // A second question mark belongs to the query, but httplib before 0.18 refuses it, and so do we with every version.
  if (target.find('?') != target.rfind('?')) return 400;
  if (version.size() != 8 || !version.starts_with("HTTP/")) return 400;
  head.method = method;
  head.target = origin_form(target);
  if (head.target.empty()) return 400;
  head.version_1_0 = version == "HTTP/1.0";
  return head.version_1_0 || version == "HTTP/1.1" ? 0 : 505;
}

int parse_header(std::string_view line, HttpHead& head) {
  const auto colon = line.find(':');
  // No space before the colon and none at the start of a line: both were used to hide a header from one of two parsers.
  if (colon == line.npos || !is_token(line.substr(0, colon))) return 400;
  const auto value = trimmed(line.substr(colon + 1), kBlanks);
  if (!is_field_value(value)) return 400;
  head.headers.emplace_back(line.substr(0, colon), value);
  return 0;
}

// What the headers say about the body and the connection; each of these may be given once.
struct Framing {
  const std::string *length = nullptr, *transfer = nullptr, *expect = nullptr, *encoding = nullptr, *type = nullptr,
                    *host = nullptr;
};

int find_framing(HttpHead& head, Framing& framing) {
  const std::pair<std::string_view, const std::string * Framing::*> kOnce[] = {
      {"Content-Length", &Framing::length},     {"Transfer-Encoding", &Framing::transfer}, {"Expect", &Framing::expect},
      {"Content-Encoding", &Framing::encoding}, {"Content-Type", &Framing::type},          {"Host", &Framing::host}};
  for (const auto& [name, value] : head.headers) {
    if (same_word(name, "Connection")) head.close = head.close || lists_word(value, "close");
    for (const auto& [word, member] : kOnce) {
      if (!same_word(name, word)) continue;
      if (framing.*member) return 400;
      framing.*member = &value;
    }
  }
  return 0;
}

int parse_length(std::string_view digits, const HttpLimits& limits, HttpHead& head) {
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return 400;
  }
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), head.length);
  return parsed.ec != std::errc() || head.length > limits.body_bytes ? 413 : 0;
}

int apply_framing(const Framing& framing, const HttpLimits& limits, HttpHead& head) {
  if (!framing.host && !head.version_1_0) return 400;
  if (framing.length && framing.transfer) return 400;
  if (framing.transfer) {
    if (head.version_1_0) return 400;
    if (!same_word(*framing.transfer, "chunked")) return 501;
    head.chunked = true;
  }
  if (framing.encoding && !same_word(*framing.encoding, "identity")) return 415;
  constexpr std::string_view kMultipart = "multipart/";
  if (framing.type && same_word(std::string_view(*framing.type).substr(0, kMultipart.size()), kMultipart)) return 415;
  if (framing.length) {
    if (const int status = parse_length(*framing.length, limits, head)) return status;
  }
  if (framing.expect && !head.version_1_0) {
    if (!same_word(*framing.expect, "100-continue")) return 417;
    head.expects_continue = true;
  }
  return 0;
}

}  // namespace

bool is_token(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char); }

bool is_field_value(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < ' ' && byte != '\t') || byte == 0x7f;
  });
}

int HttpHeadScan::check_budgets(std::size_t end, const HttpLimits& limits) const {
  if (headers_ == 0) return end - begin_ > limits.request_line_bytes + kLineEnd ? 414 : 0;
  return lines_ > limits.header_lines || end - headers_ > limits.header_bytes + kLineEnd ? 431 : 0;
}

int HttpHeadScan::take_line(std::string_view line, std::size_t next) {
  if (!line.ends_with('\r')) return 400;
  const bool empty = line.size() == 1;
  if (headers_ == 0 && empty) {
    if (skipped_) return 400;
    skipped_ = true;  // old clients send one behind a body
    begin_ = next;
  } else if (empty) {
    end_ = next;
    complete_ = true;
  } else if (headers_ == 0) {
    headers_ = next;
  } else {
    ++lines_;
  }
  line_ = next;
  return 0;
}

int HttpHeadScan::advance(std::string_view received, const HttpLimits& limits) {
  while (!complete_) {
    const auto newline = received.find('\n', scanned_);
    const bool whole = newline != received.npos;
    scanned_ = whole ? newline + 1 : received.size();
    if (const int status = check_budgets(scanned_, limits)) return status;
    // A TLS hello or other noise gets its answer now and not at the deadline.
    if (headers_ == 0 && begin_ < received.size() && received[begin_] != '\r' && !is_token_char(received[begin_])) {
      return 400;
    }
    if (!whole) return 0;
    if (const int status = take_line(received.substr(line_, newline - line_), scanned_)) return status;
  }
  return check_budgets(end_, limits);
}

std::string HttpHead::value(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& each) { return same_word(each.first, name); });
  return found == headers.end() ? std::string() : found->second;
}

int parse_head(std::string_view text, const HttpLimits& limits, HttpHead& head) {
  constexpr std::string_view kEnd = "\r\n";
  auto end = text.find(kEnd);
  if (const int status = parse_request_line(text.substr(0, end), head)) return status;
  while (end != text.npos) {
    text.remove_prefix(end + kEnd.size());
    end = text.find(kEnd);
    if (end == 0 || text.empty()) break;
    if (const int status = parse_header(text.substr(0, end), head)) return status;
  }
  Framing framing;
  if (const int status = find_framing(head, framing)) return status;
  return apply_framing(framing, limits, head);
}

}  // namespace serve
