// One request off a connection's bytes, as they come, within its budgets.
#pragma once
#include <optional>
#include <string>

#include "serve/http/http_chunks.h"
#include "serve/http/http_head.h"

namespace serve {

struct HttpRequest {
  HttpHead head;
  std::string body;
};

class HttpRequestReader {
 public:
  explicit HttpRequestReader(const HttpLimits& limits) : limits_(limits) {}

  // Takes off the front of `received`, which is what the last call left and more, what belongs to this request. 0, or
  // the status to refuse with; behind that nothing of what the client sends must be parsed.
  int feed(std::string& received);

  bool has_head() const { return has_head_; }
  bool complete() const { return complete_; }  // the next request begins where this one ended
  HttpRequest& request() { return request_; }
  const HttpRequest& request() const { return request_; }

 private:
  int feed_head(std::string& received);
  int feed_chunks(std::string& received);
  void feed_length(std::string& received);

  const HttpLimits& limits_;
  HttpRequest request_;
  HttpHeadScan scan_;
  std::optional<HttpChunks> chunks_;
  bool has_head_ = false, complete_ = false;
};

}  // namespace serve
