#include "serve/api/handle.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "serve/api/route_table.h"
#include "serve/api/trace_context.h"
#include "serve/api/writer.h"
#include "serve/fetch/adapter_fetcher.h"
#include "serve/ops/memory_reserve.h"
#include "serve/text.h"

namespace serve {
namespace {

constexpr const char* kIdHeader = "x-request-id";
constexpr std::size_t kLongestId = 128;

ApiError from_fetch(const FetchError& error) {
  using Why = FetchError::Why;
  const ApiError::Kind kind = error.why() == Why::failed      ? ApiError::Kind::adapter_unusable
                              : error.why() == Why::timed_out ? ApiError::Kind::timeout
                              : error.why() == Why::busy      ? ApiError::Kind::overloaded
                                                              : ApiError::Kind::unavailable;
  return {kind, error.what(), "adapter_id"};
}

bool is_plain(const std::string& id) {
  return !id.empty() && id.size() <= kLongestId &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

ApiError transport_error(const HttpRefusal& refusal) {
  using enum ApiError::Kind;
  switch (refusal.status) {
    case 401:
      return {unauthorized, refusal.why};
    case 403:
      return {forbidden, refusal.why};
    case 404:
      return {not_found, "there is no such route"};
    case 405:
      return {method_not_allowed, "this route has other methods"};
    case 408:
      return {timeout, "the request took too long to arrive"};
    case 413:
      return {too_large, "the body is larger than this server takes"};
    case 414:
      return {too_large, "the request line is too long"};
    case 415:
      return {unsupported_media, "neither compressed nor multipart bodies are taken"};
    case 431:
      return {too_large, "the header is too large"};
    case 501:
      return {not_implemented, "the body is sent in a coding that this server does not know"};
    case 503:
      return {unavailable, refusal.why};
    case 505:
      return {not_implemented, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
    default:
      return refusal.status < 500 ? ApiError{malformed, "the request is not well-formed HTTP"}
                                  : ApiError{engine, "internal error"};
  }
}

std::string request_id(const HttpRequest& request, HttpResponse& response) {
  if (std::string known = response.header(kIdHeader); !known.empty()) return known;
  const std::string asked = request.header(kIdHeader);
  const std::string id = is_plain(asked) ? asked : random_id();
  response.set_header(kIdHeader, id);
  return id;
}

void refuse(HttpResponse& response, const ApiError& error, Dialect dialect) {
  response.status = status(error.kind, dialect);
  response.set_content(body(error, dialect), "application/json");
  if (const auto seconds = retry_after(error)) response.set_header("Retry-After", std::to_string(*seconds));
  if (error.kind == ApiError::Kind::unavailable) response.close = true;
  if (error.kind == ApiError::Kind::engine) response.set_header("x-should-retry", "false");  // it would fail again
}

void answer_json(HttpResponse& response, const tenon::OrderedJson& json, int status) {
  response.status = status;
  response.set_content(one_line(json), "application/json");
}

namespace {

// Of a request without a valid key. Any page that somebody opens may send requests to a server in reach of their
// machine. Where no key is needed, nothing else stands in its way.
HttpRefusal refusal_without_key(const Serving& serving, const Credentials& from) {
  if (serving.keys.required()) return {401, "a valid API key is needed: Authorization: Bearer KEY"};
  if (!serving.pages.is_foreign(from.origin, from.host)) return {};
  return {403,
          "web pages of this origin may not ask: start the server with --cors-origin and the page's origin, with "
          "--allowed-host and "
          "this server's name where the page is its own, or with a key"};
}

}  // namespace

HttpRefusal refusal_of(const Serving& serving, const Credentials& from) {
  return serving.keys.find(from.authorization, from.x_api_key) ? HttpRefusal{} : refusal_without_key(serving, from);
}

Caller check_key(const Serving& serving, const HttpRequest& request, unsigned roles) {
  const auto value = [&](const char* name) { return request.header(name); };
  Caller caller = serving.keys.caller_of(request);  // once: a reload may come between two looks at the keys
  if (!caller.tenant) {
    const HttpRefusal refusal =
        refusal_without_key(serving, {value("Authorization"), value("X-Api-Key"), value("Origin"), value("Host")});
    if (refusal) throw transport_error(refusal);
  } else if (!caller.tenant->may(roles)) {
    throw ApiError(ApiError::Kind::not_permitted, "this key has not the role that this route needs");
  }
  return caller;
}

Admission::Ticket enter_as(Serving& serving, const Caller& caller) {
  auto ticket = serving.admission.enter(caller.client, caller.tenant ? caller.tenant->share() : Share{});
  if (!ticket) {
    ApiError error(ApiError::Kind::overloaded,
                   "as many requests are under way as the server, or this key, may have at once");
    error.retry_after = serving.admission.retry_after();
    throw error;
  }
  if (caller.tenant) caller.tenant->take_request(tenon::Clock::now());
  return std::move(*ticket);
}

ApiError api_error(std::exception_ptr thrown, Dialect dialect) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ApiError& error) {
    return error;
  } catch (const FetchError& error) {
    return from_fetch(error);
  } catch (const tenon::Error& error) {
    return from(error, dialect);
  } catch (const std::bad_alloc&) {
    return {ApiError::Kind::overloaded, "out of memory"};
  } catch (...) {  // what it says may be about this machine
    return {ApiError::Kind::engine, "internal error"};
  }
}

std::optional<ApiError> attempt(const HttpRequest& request, HttpResponse& response, const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (...) {
    const Dialect dialect = dialect_of(request.path);
    const ApiError error = api_error(std::current_exception(), dialect);
    refuse(response, error, dialect);
    return error;
  }
}

void add_plain(HttpServer& http, Serving& serving, const char* method, const char* path, PlainHandler handler) {
  const unsigned roles = find_route(method, path).roles;
  const auto checked = [&serving, roles, handler = std::move(handler)](const HttpRequest& request,
                                                                       HttpResponse& response) {
    const auto error = attempt(request, response, [&] {
      handler(request, response, roles == 0 ? Caller{} : check_key(serving, request, roles));
    });
    if (error) response.set_header(kErrorHeader, type_of(error->kind));
  };
  http.route(method, path, checked, roles == 0 ? HttpServer::Access::open : HttpServer::Access::checked);
}

void log_answer(const Serving& serving, const HttpRequest& request, HttpResponse& response) {
  hold_memory_reserve();  // it may be gone since a request found no memory
  const std::string& route = request.route;
  const std::string error = response.header(kErrorHeader);
  response.erase_header(kErrorHeader);
  if (response.erase_header(kLogsItselfHeader)) return;
  const bool probes = request.open_route || route == "/metrics" || route == "/ui/steps";
  if (probes && response.status < 400) return;
  LogLine line{.id = response.header(kIdHeader), .method = request.method, .route = route.empty() ? "none" : route};
  if (const auto tenant = serving.keys.caller_of(request).tenant) line.key = tenant->name();
  line.trace = trace_context(request);
  line.status = response.status;
  line.ms = std::chrono::duration<double, std::milli>(tenon::Clock::now() - request.arrival).count();
  const bool by_transport = request.refusal || response.status == 404 || response.status == 405;
  line.error = error.empty() && by_transport ? type_of(transport_error({response.status}).kind) : error;
  serving.log.write(line);
}

}  // namespace serve
