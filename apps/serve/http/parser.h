// One request from a connection's bytes, as they come, within its budgets. Boost.Beast parses. Checked in addition is
// what a proxy in front could read in another way: folded lines, repeated framing headers, odd chunk sizes.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "serve/http/message.h"

namespace serve {

class HttpParser {
 public:
  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();

  /// Removes this request's bytes from the front of `received`, which is what the last call left, and more. 0, or the
  /// status to refuse with; then nothing else that the client sends may be parsed.
  int feed(std::string& received);
  /// From the next call on. Fewer than the limits allow.
  void limit_body(std::size_t bytes);

  bool has_head() const;
  bool complete() const;  ///< the next request begins where this one ended
  HttpRequest& request() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// "Not Found" of 404.
std::string_view reason_phrase(int status);

}  // namespace serve
