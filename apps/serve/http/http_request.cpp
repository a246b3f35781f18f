#include "serve/http/http_request.h"

#include <algorithm>
#include <string_view>

namespace serve {

int HttpRequestReader::feed_head(std::string& received) {
  if (const int status = scan_.advance(received, limits_)) return status;
  if (!scan_.complete()) return 0;
  const int status = parse_head(scan_.head(received), limits_, request_.head);
  received.erase(0, scan_.end());
  if (status) return status;
  has_head_ = true;
  if (request_.head.chunked) chunks_.emplace(limits_);
  return 0;
}

int HttpRequestReader::feed_chunks(std::string& received) {
  std::string_view rest = received;
  const int status = chunks_->feed(rest, request_.body);
  received.erase(0, received.size() - rest.size());
  complete_ = status == 0 && chunks_->complete();
  return status;
}

void HttpRequestReader::feed_length(std::string& received) {
  const std::size_t count = std::min(request_.head.length - request_.body.size(), received.size());
  request_.body.append(received, 0, count);
  received.erase(0, count);
  complete_ = request_.body.size() == request_.head.length;
}

int HttpRequestReader::feed(std::string& received) {
  if (!has_head_) {
    const int status = feed_head(received);
    if (status || !has_head_) return status;
  }
  if (chunks_) return feed_chunks(received);
  feed_length(received);
  return 0;
}

}  // namespace serve
