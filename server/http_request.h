// One request off a connection, whole and within its budgets.
#pragma once
#include <string>

#include "server/connection.h"
#include "server/http_head.h"

namespace serve {

struct HttpRequest {
  HttpHead head;
  std::string body;
};

constexpr int kNobodyThere = -1;  // the client left in the middle of its request

// 0, the status to refuse with, or kNobodyThere. Only after 0 does the next request begin where this one ended: after
// anything else the rest of what the client sends must not be parsed.
int read_request(Connection& connection, const HttpLimits& limits, HttpRequest& request);

}  // namespace serve
