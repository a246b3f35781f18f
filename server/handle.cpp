#include "server/handle.h"

#include <algorithm>
#include <array>
#include <new>
#include <random>

#include "server/writer.h"

namespace serve {
namespace {

constexpr const char* kIdHeader = "x-request-id";
constexpr std::size_t kLongestId = 128;

bool is_plain(const std::string& id) {
  return !id.empty() && id.size() <= kLongestId && std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

std::string random_id() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  constexpr char digits[] = "0123456789abcdefghijklmnopqrstuv";
  std::string id(24, '0');
  for (char& c : id) c = digits[random() % 32];
  return id;
}

std::string request_id(const httplib::Request& request, httplib::Response& response) {
  if (response.has_header(kIdHeader)) return response.get_header_value(kIdHeader);
  const std::string asked = request.get_header_value(kIdHeader);
  const std::string id = is_plain(asked) ? asked : random_id();
  response.set_header(kIdHeader, id);
  return id;
}

void refuse(httplib::Response& response, const ApiError& error, Dialect dialect) {
  response.status = status(error.kind, dialect);
  response.set_content(body(error, dialect), "application/json");
  if (const auto seconds = retry_after(error.kind)) response.set_header("Retry-After", std::to_string(*seconds));
  if (error.kind == ApiError::Kind::unavailable) HttpServer::close_connection();
  if (error.kind == ApiError::Kind::engine) response.set_header("x-should-retry", "false");  // it would fail again
}

void answer_json(httplib::Response& response, const tenon::OrderedJson& json, int status) {
  response.status = status;
  response.set_content(one_line(json), "application/json");
}

void check_key(const Serving& serving, const httplib::Request& request) {
  if (!serving.keys.required()) return;
  if (serving.keys.accepts(request.get_header_value("Authorization"), request.get_header_value("X-Api-Key"))) return;
  throw ApiError(ApiError::Kind::unauthorized, "a valid API key is needed: Authorization: Bearer KEY");
}

std::optional<ApiError> attempt(const httplib::Request& request, httplib::Response& response, const std::function<void()>& work) {
  const Dialect dialect = dialect_of(request.path);
  const auto refused = [&](const ApiError& error) {
    refuse(response, error, dialect);
    return error;
  };
  try {
    work();
    return std::nullopt;
  } catch (const ApiError& error) {
    return refused(error);
  } catch (const tenon::Error& error) {
    return refused(from(error, dialect));
  } catch (const std::bad_alloc&) {
    return refused(ApiError(ApiError::Kind::overloaded, "out of memory"));
  } catch (const std::exception&) {  // what it says may be about this machine
    return refused(ApiError(ApiError::Kind::engine, "internal error"));
  }
}

void add_plain(HttpServer& http, Serving& serving, const char* method, const char* path, PlainHandler handler) {
  http.route(method, path, [&serving, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
    attempt(request, response, [&] {
      check_key(serving, request);
      handler(request, response);
    });
  });
}

}  // namespace serve
