#include "server/http_request.h"

#include <algorithm>

#include "server/http_chunks.h"

namespace serve {
namespace {

int fill_status(Connection::Fill fill) {
  switch (fill) {
    case Connection::Fill::some:
      return 0;
    case Connection::Fill::ended:
      return kNobodyThere;
    case Connection::Fill::late:
      return 408;
    case Connection::Fill::stopped:
      return 503;
  }
  return kNobodyThere;
}

int read_head(Connection& connection, const HttpLimits& limits, HttpHead& head) {
  const auto deadline = HttpClock::now() + limits.header_read;
  std::string& received = connection.received();
  HttpHeadScan scan;
  for (;;) {
    if (const int status = scan.advance(received, limits)) return status;
    if (scan.complete()) break;
    if (const int status = fill_status(connection.fill(deadline))) return status;
  }
  const int status = parse_head(scan.head(received), limits, head);
  received.erase(0, scan.end());
  return status;
}

int read_length(Connection& connection, HttpClock::time_point deadline, HttpRequest& request) {
  std::string& received = connection.received();
  for (;;) {
    const std::size_t count = std::min(request.head.length - request.body.size(), received.size());
    request.body.append(received, 0, count);
    received.erase(0, count);
    if (request.body.size() == request.head.length) return 0;
    if (const int status = fill_status(connection.fill(deadline))) return status;
  }
}

int read_chunks(Connection& connection, const HttpLimits& limits, HttpClock::time_point deadline, std::string& body) {
  std::string& received = connection.received();
  HttpChunks chunks(limits);
  for (;;) {
    std::string_view rest = received;
    const int refusal = chunks.feed(rest, body);
    received.erase(0, received.size() - rest.size());
    if (refusal || chunks.complete()) return refusal;
    if (const int status = fill_status(connection.fill(deadline))) return status;
  }
}

}  // namespace

int read_request(Connection& connection, const HttpLimits& limits, HttpRequest& request) {
  if (const int status = read_head(connection, limits, request.head)) return status;
  const HttpHead& head = request.head;
  const bool has_body = head.chunked || head.length > 0;
  if (head.expects_continue && has_body && connection.received().empty() &&
      !connection.send("HTTP/1.1 100 Continue\r\n\r\n")) {
    return kNobodyThere;
  }
  const auto deadline = HttpClock::now() + limits.body_read;
  return head.chunked ? read_chunks(connection, limits, deadline, request.body)
                      : read_length(connection, deadline, request);
}

}  // namespace serve
