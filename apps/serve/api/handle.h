// What every route does around its own work: the key, the errors, the line in the log.
#pragma once
#include <exception>
#include <functional>
#include <string>

#include "serve/api/api_error.h"
#include "serve/http/message.h"
#include "serve/http/server.h"
#include "serve/serving.h"

namespace serve {

// The client's x-request-id where it is short and printable, else one at random. The same for both calls on a response.
std::string request_id(const HttpRequest& request, HttpResponse& response);

// What the transport refuses by itself.
ApiError transport_error(const HttpRefusal& refusal);

void refuse(HttpResponse& response, const ApiError& error, Dialect dialect);
void answer_json(HttpResponse& response, const tenon::OrderedJson& json, int status = 200);

// The headers that decide whether somebody may ask, empty where absent.
struct Credentials {
  std::string authorization, x_api_key, origin, host;
};
// 401 without a key that is needed; 403 for a page of an origin that may not ask, where no key is needed.
HttpRefusal refusal_of(const Serving& serving, const Credentials& from);

// One of the roles is needed. ApiError unauthorized, not_permitted or forbidden.
Caller check_key(const Serving& serving, const HttpRequest& request, unsigned roles);

// A place among the requests that are served, and a request of the key's minute. ApiError overloaded or rate_limited.
Admission::Ticket enter_as(Serving& serving, const Caller& caller);

ApiError api_error(std::exception_ptr thrown, Dialect dialect);

// Runs `work`; what it throws becomes an answer in the dialect of the path. The error, if there was one.
std::optional<ApiError> attempt(const HttpRequest& request, HttpResponse& response, const std::function<void()>& work);

// For the log alone: that a route writes its own line, or what was wrong. log_answer takes them off the response, and
// writes a line where nobody else has, but for probes that succeed.
inline constexpr const char* kLogsItselfHeader = "x-logs-itself";
inline constexpr const char* kErrorHeader = "x-error-type";
void log_answer(const Serving& serving, const HttpRequest& request, HttpResponse& response);

// A route that writes no text, for those whom its row of the route table lets in. What its handler throws becomes an
// answer.
using PlainHandler = std::function<void(const HttpRequest&, HttpResponse&, const Caller&)>;
void add_plain(HttpServer& http, Serving& serving, const char* method, const char* path, PlainHandler handler);

}  // namespace serve
