#include "serve/http/parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>
#include <limits>
#include <utility>

namespace serve {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using Text = boost::beast::string_view;  // another class in newer versions of Boost

constexpr std::size_t kChunkLine = 4096;  // size and extensions; extensions of a whole body
constexpr std::size_t kLineEnd = 2;

std::string_view view(Text text) { return {text.data(), text.size()}; }

// Path and query of an absolute target, which proxies send; other targets as they are. Empty: the host is malformed.
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

bool all_of(std::string_view text, bool (*condition)(char)) { return std::all_of(text.begin(), text.end(), condition); }

bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_hexadecimal(char c) { return is_decimal(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

}  // namespace

class HttpParser::Impl : private http::basic_parser<true> {
 public:
  explicit Impl(const HttpLimits& limits) : limits_(limits) {
    eager(true);
    header_limit(static_cast<std::uint32_t>(limits.request_line_bytes + limits.header_bytes + 1024));
    body_limit(std::numeric_limits<std::uint64_t>::max());  // until the head has been checked
  }

  int feed(std::string& received) {
    if (!has_head_) {
      if (const int status = scan(received)) return status;
      if (end_ == 0) return 0;
      const int status = put(received, begin_, end_ - begin_);
      received.erase(0, end_);
      if (status || received.empty()) return status;
    }
    if (is_done()) return 0;
    std::size_t used = 0;
    const int status = put(received, 0, received.size(), &used);
    received.erase(0, used);
    return status || !request_.chunked || is_done() ? status : check_rest(received);
  }

  void limit_body(std::size_t bytes) { body_limit(bytes); }
  bool has_head() const { return has_head_; }
  bool complete() const { return is_done(); }
  HttpRequest& request() { return request_; }

 private:
  // Looks for the end of the head within its budgets; each byte is looked at once.
  int scan(std::string_view received) {
    if (begin_ == 0 && received.starts_with("\r\n")) begin_ = line_ = scanned_ = kLineEnd;  // old clients send it
    if (received.size() <= begin_ || (begin_ == 0 && received == "\r")) return 0;
    // A TLS hello or other noise is refused now and not at the deadline.
    if (!is_token(received.substr(begin_, 1))) return 400;
    while (end_ == 0) {
      const auto newline = received.find('\n', scanned_);
      scanned_ = newline == received.npos ? received.size() : newline + 1;
      if (headers_ == 0 && scanned_ - begin_ > limits_.request_line_bytes + kLineEnd) return 414;
      if (headers_ > 0 && scanned_ - headers_ > limits_.header_bytes + kLineEnd) return 431;
      if (newline == received.npos) return 0;
      const auto line = received.substr(line_, scanned_ - line_);
      if (!line.ends_with("\r\n") || line[0] == ' ' || line[0] == '\t') return 400;  // no bare LF, no folded line
      if (line.size() == kLineEnd)
        end_ = scanned_;
      else if (headers_ == 0)
        headers_ = scanned_;
      else if (++lines_ > limits_.header_lines)
        return 431;
      line_ = scanned_;
    }
    return 0;
  }

  int put(const std::string& bytes, std::size_t from, std::size_t size, std::size_t* used = nullptr) {
    error_code error;
    const std::size_t count = basic_parser::put(boost::asio::const_buffer(bytes.data() + from, size), error);
    if (used) *used = count;
    if (!error || error == http::error::need_more) return 0;
    if (status_) return status_;
    const std::string_view rest = std::string_view(bytes).substr(from, size);
    if (error == http::error::body_limit) return 413;
    if (error == http::error::bad_version) return is_other_version(rest.substr(0, rest.find('\r'))) ? 505 : 400;
    if (error == http::error::bad_content_length) return is_long_length(rest) ? 413 : 400;
    if (error == http::error::bad_chunk) return is_long_size(rest.substr(count)) ? 413 : 400;
    return 400;
  }

  static bool is_other_version(std::string_view line) {
    const auto last = line.rfind(' ');
    return std::count(line.begin(), line.end(), ' ') == 2 && line.size() == last + 9 &&
           line.substr(last).starts_with(" HTTP/") && is_decimal(line[last + 6]) && is_decimal(line[last + 8]);
  }

  // A Content-Length that is a number, but does not fit into 64 bits.
  static bool is_long_length(std::string_view head) {
    constexpr std::string_view kName = "\r\nContent-Length:";
    for (auto at = head.find("\r\n"); at != head.npos; at = head.find("\r\n", at + 1)) {
      if (!same_word(head.substr(at, kName.size()), kName)) continue;
      const auto value = head.substr(at + kName.size(), head.find('\r', at + 1) - at - kName.size());
      return value.size() > 20 && all_of(value, [](char c) { return is_decimal(c) || c == ' '; });
    }
    return false;
  }

  static bool is_long_size(std::string_view rest) {
    if (rest.starts_with("\r\n")) rest.remove_prefix(kLineEnd);
    const auto line = rest.substr(0, rest.find('\r'));
    return line.size() > 16 && all_of(line, is_hexadecimal);
  }

  // Beast keeps for its next call the line of a chunk's size, or trailers that have not ended.
  int check_rest(std::string_view rest) const {
    if (rest.starts_with("\r\n")) rest.remove_prefix(kLineEnd);
    const auto lines = std::count(rest.begin(), rest.end(), '\n');
    for (auto at = rest.find('\n'); at != rest.npos; at = rest.find('\n', at + 1)) {
      if (at == 0 || rest[at - 1] != '\r') return 400;
    }
    if (lines == 0) return rest.size() > kChunkLine ? 400 : 0;
    return lines > limits_.header_lines + 1 || rest.size() > limits_.header_bytes ? 431 : 0;
  }

  void refuse(int status, error_code& error) {
    status_ = status;
    error = http::error::bad_value;
  }

  void on_request_impl(http::verb, Text method, Text target, int version, error_code& error) {
    const std::string_view sent = view(target);
    // Control characters and spaces end the target for Beast; %00 would end a C string early somewhere.
    if (!all_of(sent, [](char c) { return c > ' ' && c < 0x7f; }) || sent.find("%00") != sent.npos ||
        sent.find('?') != sent.rfind('?'))
      return refuse(400, error);
    request_.method = view(method);
    request_.target = origin_form(sent);
    if (request_.target.empty()) return refuse(400, error);
    request_.version_1_0 = version == 10;
    const std::string_view shown = std::string_view(request_.target).substr(0, request_.target.find('#'));
    const auto end = std::min(shown.find('?'), shown.size());
    request_.path = url_decoded(shown.substr(0, end), false);
    request_.query = shown.substr(std::min(end + 1, shown.size()));
  }

  void on_field_impl(http::field which, Text name, Text value, error_code& error) {
    if (has_head_) return on_trailer_field_impl(which, name, value, error);
    request_.headers.emplace_back(view(name), view(value));
  }
  // Newer versions of Boost call it. Trailers are dropped: they could set headers that have been checked before.
  void on_trailer_field_impl(http::field, Text name, Text value, error_code& error) {
    trailer_bytes_ += name.size() + value.size();
    if (++trailers_ > limits_.header_lines || trailer_bytes_ > limits_.header_bytes) refuse(431, error);
  }

  void on_header_impl(error_code& error) {
    if (const int status = check_framing()) return refuse(status, error);
    has_head_ = true;
    body_limit(limits_.body_bytes);
  }

  int check_framing() {
    constexpr std::string_view kOnce[] = {"Content-Length",   "Transfer-Encoding", "Expect",
                                          "Content-Encoding", "Content-Type",      "Host"};
    const std::string* found[std::size(kOnce)] = {};
    for (const auto& [name, value] : request_.headers) {
      if (same_word(name, "Connection")) request_.close |= lists_word(value, "close");
      const auto which = std::find_if(std::begin(kOnce), std::end(kOnce),
                                      [&name = name](std::string_view each) { return same_word(each, name); });
      if (which == std::end(kOnce)) continue;
      if (std::exchange(found[which - std::begin(kOnce)], &value)) return 400;
    }
    const auto& [length, transfer, expect, encoding, type, host] = found;
    if ((!host && !request_.version_1_0) || (length && transfer)) return 400;
    if (transfer && request_.version_1_0) return 400;
    if (transfer && !same_word(*transfer, "chunked")) return 501;
    request_.chunked = transfer;
    if (encoding && !same_word(*encoding, "identity")) return 415;
    if (type && same_word(std::string_view(*type).substr(0, 10), "multipart/")) return 415;
    if (length && !all_of(*length, is_decimal)) return 400;
    if (length) request_.length = static_cast<std::size_t>(content_length().value_or(0));
    if (request_.length > limits_.body_bytes) return 413;
    if (!expect || request_.version_1_0) return 0;
    request_.expects_continue = same_word(*expect, "100-continue");
    return request_.expects_continue ? 0 : 417;
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) {}
  std::size_t on_body_impl(Text bytes, error_code&) {
    request_.body += view(bytes);
    return bytes.size();
  }
  std::size_t on_chunk_body_impl(std::uint64_t, Text bytes, error_code& error) { return on_body_impl(bytes, error); }

  void on_chunk_header_impl(std::uint64_t, Text extensions, error_code& error) {
    extension_bytes_ += extensions.size();
    // Blanks before the semicolon have hidden a size from one of two parsers.
    const bool sound = extensions.empty() || (extensions[0] == ';' && is_field_value(view(extensions)));
    if (!sound || extension_bytes_ > kChunkLine) refuse(400, error);
  }

  void on_response_impl(int, Text, int, error_code&) {}
  void on_finish_impl(error_code&) {}

  const HttpLimits& limits_;
  HttpRequest request_;
  bool has_head_ = false;
  int status_ = 0;                                 // of a check of our own that failed
  std::size_t begin_ = 0, end_ = 0;                // of the head; 0: not found yet
  std::size_t line_ = 0, scanned_ = 0;             // where the current line begins; what was looked at
  std::size_t headers_ = 0, extension_bytes_ = 0;  // where headers begin, 0: in the request line; so far
  std::size_t trailer_bytes_ = 0;
  int lines_ = 0, trailers_ = 0;
};

HttpParser::HttpParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
HttpParser::~HttpParser() = default;
int HttpParser::feed(std::string& received) { return impl_->feed(received); }
void HttpParser::limit_body(std::size_t bytes) { impl_->limit_body(bytes); }
bool HttpParser::has_head() const { return impl_->has_head(); }
bool HttpParser::complete() const { return impl_->complete(); }
HttpRequest& HttpParser::request() const { return impl_->request(); }

std::string_view reason_phrase(int status) {
  if (status == 529) return "Overloaded";  // Anthropic's, of no standard
  return view(http::obsolete_reason(static_cast<http::status>(status)));
}

}  // namespace serve
