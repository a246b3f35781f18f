// The head of a request: found within its budgets, then parsed so strictly that no proxy in front can have read it in
// another way. What httplib 0.11.4 would accept does not matter: it never sees these bytes.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http/http_limits.h"

namespace serve {

struct HttpHead {
  std::string method, target;  // empty while the request line has not been accepted
  bool version_1_0 = false;
  std::vector<std::pair<std::string, std::string>> headers;
  bool chunked = false;
  std::size_t length = 0;  // of the body, where it is not chunked
  bool expects_continue = false;
  bool close = false;  // the client wants no further request on this connection

  bool announces_body() const { return chunked || length > 0; }
  std::string value(std::string_view name) const;  // of the first header that is called so; empty: of none
};

// Looks for the end of a head in bytes that arrive bit by bit; each byte is looked at once.
class HttpHeadScan {
 public:
  // 0, or the status to refuse with. `received` is what the last call had, and more.
  int advance(std::string_view received, const HttpLimits& limits);

  bool complete() const { return complete_; }
  std::string_view head(std::string_view received) const { return received.substr(begin_, end_ - begin_); }
  std::size_t end() const { return end_; }  // where the body begins

 private:
  int check_budgets(std::size_t end, const HttpLimits& limits) const;
  int take_line(std::string_view line, std::size_t next);

  std::size_t begin_ = 0, end_ = 0;     // of the head
  std::size_t line_ = 0, scanned_ = 0;  // where the current line begins; what was looked at
  std::size_t headers_ = 0;             // where they begin; 0: still in the request line
  int lines_ = 0;
  bool skipped_ = false, complete_ = false;
};

// 0, or the status to refuse with; then `head` holds what was understood by then.
int parse_head(std::string_view text, const HttpLimits& limits, HttpHead& head);

bool is_token(std::string_view text);        // RFC 9110, 5.6.2
bool is_field_value(std::string_view text);  // no control characters but tabs

}  // namespace serve
